"""The tree under test: files whose test settings change are those of the base commit."""

from __future__ import annotations

import configparser
import random
import time

import iniconfig
import pytest

from bench.regression.testconfig import (
    ConfigurationEdits,
    TreeUnderTest,
    plugins_of,
    tree_under_test,
)

SETUP_CFG = (
    "[metadata]\nname = thing\n\n[options]\ninstall_requires =\n    six\n\n"
    "[tool:pytest]\n# Where they lie.\ntestpaths = tests\n"
)
TOX = (
    "[tox]\nenvlist = py39\n\n[testenv]\ndeps =\n    pytest\ncommands =\n    pytest {posargs}\n\n"
    "[flake8]\nmax-line-length = 80\n"
)
PYPROJECT = (
    '[project]\nname = "thing"\ndependencies = ["six"]\n\n'
    '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n\n[tool.black]\nline-length = 80\n'
)
FILES = {
    "setup.cfg": SETUP_CFG,
    "tox.ini": TOX,
    "pyproject.toml": PYPROJECT,
    "conftest.py": "X = 1\n",
    "setup.py": "import setuptools\n",
    "pkg/a.py": "A = 1\n",
    "tests/conftest.py": "Y = 1\n",
}


def on(path: str, text: str | None) -> TreeUnderTest:
    data = None
    if text is not None:
        data = text.encode()
    return tree_under_test({path: data}, FILES, FILES.get)


def swapped(path: str, old: str, new: str) -> str:
    assert old in FILES[path]
    return FILES[path].replace(old, new, 1)


PLUG = "pkg._plug"
FREE = [
    ("setup.cfg", "    six\n", "    six\n    attrs\n"),
    ("setup.cfg", "# Where they lie.\n", "# Where.\n"),
    ("setup.cfg", "[options]", "[mypy]\nstrict = yes\n\n[options]"),
    ("tox.ini", "    pytest\n", "    pytest\n    attrs\n"),
    ("tox.ini", "80", "100"),
    ("pyproject.toml", '"six"', '"six", "attrs"'),
    ("pyproject.toml", "80", "100"),
    ("setup.py", "\n", "\nimport os\n"),
    ("pkg/a.py", "1", "2"),
]
READ = [
    ("setup.cfg", "testpaths", "addopts = -p pkg._plug\ntestpaths"),
    ("tox.ini", "[flake8]", "[pytest]\n\n[flake8]"),
    (
        "setup.cfg",
        "[tool:pytest]",
        "[coverage:run]\nplugins = pkg._plug\n\n[tool:pytest]",
    ),
    (
        "setup.cfg",
        "[options]",
        f"[options.entry_points]\npytest11 =\n    x = {PLUG}\n\n[options]",
    ),
    ("tox.ini", "commands", "setenv =\n    PYTEST_ADDOPTS = -p pkg._plug\ncommands"),
    ("tox.ini", "[flake8]", "[pytest]\naddopts = -p pkg._plug\n\n[flake8]"),
    ("pyproject.toml", "testpaths", 'addopts = "-p pkg._plug"\ntestpaths'),
    (
        "pyproject.toml",
        "[tool.bl",
        f'[project.entry-points.pytest11]\nx="{PLUG}"\n[tool.bl',
    ),
    (
        "pyproject.toml",
        "[tool.black]",
        f'[tool.coverage.run]\nplugins = ["{PLUG}"]\n[tool.black]',
    ),
]


@pytest.mark.parametrize(("path", "old", "new"), FREE)
def test_what_no_runner_reads_is_tested_as_it_is(path: str, old: str, new: str) -> None:
    text = swapped(path, old, new)
    assert on(path, text) == TreeUnderTest({path: text.encode()})


@pytest.mark.parametrize(("path", "old", "new"), READ)
def test_what_a_runner_reads_is_put_back(path: str, old: str, new: str) -> None:
    tree = on(path, swapped(path, old, new))
    assert tree == TreeUnderTest({}, (path,))
    assert tree.edits(()) is ConfigurationEdits.ALL


@pytest.mark.parametrize(("path", "old", "new"), READ)
def test_a_file_that_changes_other_things_too_is_the_base_s(
    path: str, old: str, new: str
) -> None:
    other = {"setup.cfg": ("    six\n", "    six\n    zz\n"), "tox.ini": ("80", "zz")}
    before, after = other.get(path, ('"six"', '"six", "zz"'))
    text = swapped(path, old, new).replace(before, after, 1)
    tree = on(path, text)
    assert tree == TreeUnderTest({}, (path,), mixed=(path,))
    # More than test configuration changes, and tests cannot tell.
    assert tree.edits(()) is ConfigurationEdits.SOME


@pytest.mark.parametrize("text", ["X = 2\n", None])
def test_a_conftest_counts_as_a_whole(text: str | None) -> None:
    found = on("conftest.py", text)
    assert found == TreeUnderTest({}, ("conftest.py",))
    assert found.edits(()) is ConfigurationEdits.ALL
    assert on("tests/conftest.py", text) == TreeUnderTest({})


def test_a_file_that_was_written_as_it_was_is_not_marked() -> None:
    assert on("conftest.py", "X = 1\n").configuration == ()
    assert on("conftest.py", "X = 1\r\n").configuration == ()
    assert on("setup.cfg", SETUP_CFG.replace("\n", "\r\n")).configuration == ()


def test_a_file_that_is_gone_is_put_back_when_a_runner_read_it() -> None:
    assert on("setup.cfg", None) == TreeUnderTest({}, ("setup.cfg",), ("setup.cfg",))
    only = {"setup.cfg": "[tool:pytest]\naddopts = -x\n"}
    assert tree_under_test({"setup.cfg": None}, only, only.get) == TreeUnderTest(
        {}, ("setup.cfg",)
    )
    bare = {"setup.cfg": "[metadata]\nname = thing\n"}
    assert tree_under_test({"setup.cfg": None}, bare, bare.get) == TreeUnderTest(
        {"setup.cfg": None}
    )


def test_a_new_setup_py_that_names_plugins_is_not_tested() -> None:
    new = {"new/setup.py": b"setup(entry_points={'pytest11': ['x = pkg._plug']})\n"}
    assert tree_under_test(new, FILES, FILES.get) == TreeUnderTest(
        {}, ("new/setup.py",)
    )
    plain: dict[str, bytes | None] = {
        "new/setup.py": b"setup()\n",
        "new/entry_points.txt": b"",
    }
    assert tree_under_test(plain, FILES, FILES.get) == TreeUnderTest(plain)


HIDDEN = "addopts = -p pkg._plug\n"
ODD_INI = {
    "a section twice": f"[tool:pytest]\n{HIDDEN}",
    "a head that one parser takes for text": f"[x # y]\n{HIDDEN}",
    "a head with words behind it": f"[x] y\n{HIDDEN}",
    "an indented head": f" [tool:pytest]\n{HIDDEN}",
    "a line that ends for one parser": f"[x]\na = b\x0c[tool:pytest]\x0c{HIDDEN}",
    "a line feed of another system": f"[x]\na = b\u2028[tool:pytest]\u2028{HIDDEN}",
    "an option twice": "[x]\na = 1\nA = 2\n",
    "no option": "[x]\nwords\n",
    "options before any section": "",
    "a line that ends for the other parser": (f"# c\x0c[z]\x0ck = v\n[a]b\n{HIDDEN}"),
    "old name": f"[pytest]\n{HIDDEN}",
    "defaults": f"[DEFAULT]\n{HIDDEN}",
}


@pytest.mark.parametrize("name", ODD_INI)
def test_an_ini_file_that_parsers_may_read_in_two_ways_is_not_tested(name: str) -> None:
    text = SETUP_CFG + ODD_INI[name]
    if name.startswith("options before"):
        text = HIDDEN + SETUP_CFG
    assert on("setup.cfg", text).configuration == ("setup.cfg",)


def test_a_section_that_no_parser_takes_for_a_runner_s_is_tested_as_it_is() -> None:
    text = f"{SETUP_CFG}[ ]\n{HIDDEN}"
    assert on("setup.cfg", text) == TreeUnderTest({"setup.cfg": text.encode()})


PARTS = (
    "[tool:pytest]", "[pytest]", "[x]", "[x # y]", "[x] y", "[tool:pytest] # c", "[Tool:Pytest]",
    " [tool:pytest]", "[tool:pytest ]", "[[tool:pytest]]", "[a]b]", "addopts = -p evil", "k =",
    "addopts: -p evil", "  addopts = -p evil", "k = v", "  v", "\tv", "# c", "  ; c", "", "   ",
    "word", "= x", "[x", "a[b] = c", "a:b = c", "\x0c[tool:pytest]", "\xa0addopts = x", "[DEFAULT]",
    "deps = x", "\x85", "[tool:pytest]\r", "addopts = -p evil\r", "[tool:pytest];x", "[testenv]",
)  # fmt: skip


def as_parsed(text: str) -> tuple[object, object]:
    """Return pytest's settings as pytest's own parser and as Python's read them."""
    found = iniconfig.IniConfig("setup.cfg", data=text)
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    names = ("tool:pytest", "pytest")
    return (
        {name: dict(found[name].items()) for name in names if name in found},
        {name: dict(parser[name]) for name in names if name in parser},
    )


def test_what_is_tested_has_the_settings_of_the_base_for_every_parser() -> None:
    draw = random.Random(5)
    told_apart = 0
    for _ in range(10_000):
        lines = SETUP_CFG.split("\n")
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(lines))
            if draw.random() < 0.2:
                del lines[place]
            lines[place:place] = draw.choices(PARTS, k=draw.randint(0, 3))
        text = "\n".join(lines).replace("\r\n", "\n")
        if not on("setup.cfg", text).configuration:
            told_apart += 1
            assert without_blanks(as_parsed(text)) == as_parsed(SETUP_CFG), text
    assert told_apart > 500


def without_blanks(parsed: object) -> object:
    if isinstance(parsed, str):
        return "\n".join(line for line in parsed.split("\n") if line.strip())
    if isinstance(parsed, dict):
        return {key: without_blanks(value) for key, value in parsed.items()}
    assert isinstance(parsed, tuple)
    return tuple(map(without_blanks, parsed))


ODD_TOML = {
    "no TOML": "[tool.pytest",
    "dotted keys": '[tool]\npytest.ini_options.addopts = "-p pkg._plug"\n',
    "quoted names": '["tool"."pyt\\u0065st"."ini_options"]\naddopts = "-p pkg._plug"\n',
    "an inline table": 'tool = {pytest = {ini_options = {addopts = "-p pkg._plug"}}}\n',
    "in a string": '[x]\ny = """\n[tool.pytest.ini_options]\naddopts = "-p pkg._plug"\n"""\n',
    "nested too deep": f"x = {'[' * 9000}{']' * 9000}\n",
    "a long number": f"x = {'1' * 9000}\n",
}


@pytest.mark.parametrize("name", ODD_TOML)
def test_a_toml_file_that_cannot_be_told_apart_is_not_tested(name: str) -> None:
    base = PYPROJECT.replace("[tool.pytest.ini_options]\n", "[tool.other]\n")
    found = tree_under_test(
        {"pyproject.toml": (ODD_TOML[name] + base).encode()},
        FILES,
        {"pyproject.toml": base}.get,
    )
    assert found.configuration == ("pyproject.toml",)


def test_what_is_no_text_is_not_tested() -> None:
    latin = {"setup.cfg": SETUP_CFG.encode() + b"# \xe9\n"}
    assert tree_under_test(latin, FILES, FILES.get) == TreeUnderTest({}, ("setup.cfg",))


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 45_000 + " = 1\n",
        "".join(f"b{n}" + ".a" * 499 + " = 1\n" for n in range(90)),
        "[[a]]\n[[a.b]]\n" * 6_000,
        "x = [\n" + "[],\n" * 24_000 + "]\n",
        "x = " + "{[" * 45_000,
        "[x]\nx = " + "{[" * 45_000,
        "[" * 95_000,
        "[x]\n" + ("[" + " " * 998 + "\n") * 95,
        "[x]\n" + ("a" + " " * 997 + "=\n") * 95,
        "[x]\n" + ("a" + " b" * 400 + " " * 99 + "=\n") * 100,
        " " * 95_000,
        "x" * 3_000_000,
    ],
)
def test_hostile_files_take_no_time(text: str) -> None:
    started = time.process_time()
    for path in ("pyproject.toml", "setup.cfg", "setup.py"):
        on(path, text)
    assert time.process_time() - started < 5


def test_modules_that_only_test_configuration_names_are_part_of_it() -> None:
    new = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n"
    new += "@@ -0,0 +1 @@\n+{1}\n"
    names = "addopts = -p pkg._plug -p other"
    patch = new.format("setup.cfg", names) + new.format("src/pkg/_plug.py", "x")
    patch += new.format("pkg/_plugin.py", "x") + new.format("other/__init__.py", "x")
    assert plugins_of(patch) == {"src/pkg/_plug.py", "other/__init__.py"}
    assert plugins_of(new.format("pkg/_plug.py", names)) == frozenset()
