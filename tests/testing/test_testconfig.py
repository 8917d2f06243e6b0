"""The tree under test: files whose test settings change are those of the base commit."""

from __future__ import annotations

import configparser
import json
import random
import time

import iniconfig
import pytest

from swe_retry.frameworks import Runner
from swe_retry.testing.testconfig import (
    ConfigurationEdits,
    TestCommand,
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
    "other/setup.cfg": TOX,
    "pyproject.toml": PYPROJECT,
    "conftest.py": "X = 1\n",
    "setup.py": "import setuptools\n",
    "pkg/a.py": "A = 1\n",
    "tests/conftest.py": "Y = 1\n",
}


def encode(text: str | None) -> bytes | None:
    if text is None:
        return None
    return text.encode()


def tree_with(path: str, text: str | None) -> TreeUnderTest:
    changes = {path: encode(text)}
    return tree_under_test(changes, FILES, FILES.get)


def replace_once(path: str, old: str, new: str) -> str:
    assert old in FILES[path]
    return FILES[path].replace(old, new, 1)


PLUG = "pkg._plug"
FREE = [
    ("setup.cfg", "    six\n", "    six\n    attrs\n"),
    ("setup.cfg", "# Where they lie.\n", "# Where.\n"),
    ("setup.cfg", "[options]", "[mypy]\nstrict = yes\n\n[options]"),
    ("other/setup.cfg", "    pytest\n", "    pytest\n    attrs\n"),
    ("other/setup.cfg", "80", "100"),
    ("pyproject.toml", '"six"', '"six", "attrs"'),
    ("pyproject.toml", "80", "100"),
    ("setup.py", "\n", "\nimport os\n"),
    ("pkg/a.py", "1", "2"),
]
READ = [
    ("setup.cfg", "testpaths", "addopts = -p pkg._plug\ntestpaths"),
    ("other/setup.cfg", "[flake8]", "[pytest]\n\n[flake8]"),
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
    (
        "other/setup.cfg",
        "commands",
        "setenv =\n    PYTEST_ADDOPTS = -p pkg._plug\ncommands",
    ),
    ("other/setup.cfg", "[flake8]", "[pytest]\naddopts = -p pkg._plug\n\n[flake8]"),
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


def test_what_no_runner_reads_is_tested_as_it_is() -> None:
    for path, old, new in FREE:
        text = replace_once(path, old, new)
        assert tree_with(path, text) == TreeUnderTest({path: text.encode()})


OTHER_CHANGES = {
    "setup.cfg": ("    six\n", "    six\n    zz\n"),
    "other/setup.cfg": ("80", "zz"),
    "pyproject.toml": ('"six"', '"six", "zz"'),
}


def test_what_a_runner_reads_is_put_back() -> None:
    for path, old, new in READ:
        text = replace_once(path, old, new)
        tree = tree_with(path, text)
        assert tree == TreeUnderTest({}, (path,)), text
        assert tree.configuration_edits(()) is ConfigurationEdits.ALL
        # A file that changes other things too is the base's, and tests cannot tell.
        before, after = OTHER_CHANGES[path]
        mixed = tree_with(path, text.replace(before, after, 1))
        assert mixed == TreeUnderTest({}, (path,), mixed=(path,)), text
        assert mixed.configuration_edits(()) is ConfigurationEdits.SOME


def test_an_edit_that_is_not_predicted_is_not_tested() -> None:
    assert tree_with("tox.ini", "[pytest]\naddopts = -v\n") == TreeUnderTest({})


def test_a_conftest_counts_as_a_whole() -> None:
    for text in ("X = 2\n", None):
        tree = tree_with("conftest.py", text)
        assert tree == TreeUnderTest({}, ("conftest.py",))
        assert tree.configuration_edits(()) is ConfigurationEdits.ALL
        assert tree_with("tests/conftest.py", text) == TreeUnderTest({})


def test_a_file_that_was_written_as_it_was_is_not_marked() -> None:
    for path, text in (
        ("conftest.py", "X = 1\n"),
        ("conftest.py", "X = 1\r\n"),
        ("setup.cfg", SETUP_CFG.replace("\n", "\r\n")),
    ):
        assert tree_with(path, text).configuration == ()


def test_a_file_that_is_gone_is_put_back_when_a_runner_read_it() -> None:
    path = "setup.cfg"
    gone: dict[str, bytes | None] = {path: None}
    assert tree_with(path, None) == TreeUnderTest({}, (path,), (path,))
    only = {path: "[tool:pytest]\naddopts = -x\n"}
    assert tree_under_test(gone, only, only.get) == TreeUnderTest({}, (path,))
    bare = {path: "[metadata]\nname = thing\n"}
    assert tree_under_test(gone, bare, bare.get) == TreeUnderTest(gone)


def test_a_new_setup_py_that_names_plugins_is_not_tested() -> None:
    path = "new/setup.py"
    naming = "setup(entry_points={'pytest11': ['x = pkg._plug']})\n"
    assert tree_with(path, naming) == TreeUnderTest({}, (path,))
    plain: dict[str, bytes | None] = {
        path: b"setup()\n",
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
    "a line that ends for the other parser": f"# c\x0c[z]\x0ck = v\n[a]b\n{HIDDEN}",
    "old name": f"[pytest]\n{HIDDEN}",
    "defaults": f"[DEFAULT]\n{HIDDEN}",
}


def test_an_ini_file_that_parsers_may_read_in_two_ways_is_not_tested() -> None:
    texts = {name: SETUP_CFG + text for name, text in ODD_INI.items()}
    texts["options before any section"] = HIDDEN + SETUP_CFG
    for name, text in texts.items():
        tree = tree_with("setup.cfg", text)
        assert tree.configuration == ("setup.cfg",), name


def test_a_section_that_no_parser_takes_for_a_runner_s_is_tested_as_it_is() -> None:
    text = f"{SETUP_CFG}[ ]\n{HIDDEN}"
    assert tree_with("setup.cfg", text) == TreeUnderTest({"setup.cfg": text.encode()})


PARTS = (
    "[tool:pytest]", "[pytest]", "[x]", "[x # y]", "[x] y", "[tool:pytest] # c", "[Tool:Pytest]",
    " [tool:pytest]", "[tool:pytest ]", "[[tool:pytest]]", "[a]b]", "addopts = -p evil", "k =",
    "addopts: -p evil", "  addopts = -p evil", "k = v", "  v", "\tv", "# c", "  ; c", "", "   ",
    "word", "= x", "[x", "a[b] = c", "a:b = c", "\x0c[tool:pytest]", "\xa0addopts = x", "[DEFAULT]",
    "deps = x", "\x85", "[tool:pytest]\r", "addopts = -p evil\r", "[tool:pytest];x", "[testenv]",
)  # fmt: skip


def settings_by_parser(text: str) -> tuple[object, object]:
    """Return pytest's settings as pytest's own parser and as Python's read them."""
    ini = iniconfig.IniConfig("setup.cfg", data=text)
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    by_pytest = {}
    by_python = {}
    for name in ("tool:pytest", "pytest"):
        if name in ini:
            by_pytest[name] = dict(ini[name].items())
        if name in parser:
            by_python[name] = dict(parser[name])
    return by_pytest, by_python


def test_what_is_tested_has_the_settings_of_the_base_for_every_parser() -> None:
    draw = random.Random(5)
    unmarked = 0
    for _ in range(3_000):
        lines = SETUP_CFG.split("\n")
        for _ in range(draw.randint(1, 4)):
            index = draw.randrange(len(lines))
            if draw.random() < 0.2:
                del lines[index]
            lines[index:index] = draw.choices(PARTS, k=draw.randint(0, 3))
        text = "\n".join(lines).replace("\r\n", "\n")
        if not tree_with("setup.cfg", text).configuration:
            unmarked += 1
            settings = without_blanks(settings_by_parser(text))
            assert settings == settings_by_parser(SETUP_CFG), text
    assert unmarked > 150


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


def test_a_toml_file_that_cannot_be_told_apart_is_not_tested() -> None:
    path = "pyproject.toml"
    base = PYPROJECT.replace("[tool.pytest.ini_options]\n", "[tool.other]\n")
    for name, text in ODD_TOML.items():
        changes = {path: (text + base).encode()}
        tree = tree_under_test(changes, FILES, {path: base}.get)
        assert tree.configuration == (path,), name


def test_what_is_no_text_is_not_tested() -> None:
    latin = {"setup.cfg": SETUP_CFG.encode() + b"# \xe9\n"}
    tree = tree_under_test(latin, FILES, FILES.get)
    assert tree == TreeUnderTest({}, ("setup.cfg",))


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
        tree_with(path, text)
    assert time.process_time() - started < 5


def test_modules_that_only_test_configuration_names_are_part_of_it() -> None:
    new = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n"
    new += "@@ -0,0 +1 @@\n+{1}\n"
    names = "addopts = -p pkg._plug -p other"
    patch = new.format("setup.cfg", names)
    for path in ("src/pkg/_plug.py", "pkg/_plugin.py", "other/__init__.py"):
        patch += new.format(path, "x")
    assert plugins_of(patch) == {"src/pkg/_plug.py", "other/__init__.py"}
    assert plugins_of(new.format("pkg/_plug.py", names)) == frozenset()


def manifest(**values: object) -> str:
    usual = {"name": "thing", "scripts": {"test": "mocha"}}
    return json.dumps({**usual, **values})


CARGO = '[package]\nname = "thing"\nversion = "1.0.0"\n\n[dependencies]\nserde = "1"\n'
GO = "module example.org/thing\n\ngo 1.18\n"
OF_OTHERS = {
    "package.json": manifest(),
    "web/package.json": manifest(),
    "composer.json": manifest(),
    "Cargo.toml": CARGO,
    "build.rs": "fn main() {}\n",
    "go.mod": GO,
    "Makefile": "test:\n\t@python ci/run.py --config=ci/run.ini src/a.c\n",
    "vite.config.ts": "export default {}\n",
    "pyproject.toml": PYPROJECT,
    "vendor/lib/a.go": "package lib\n",
    "ci/run.py": "",
    "ci/run.ini": "",
    "src/a.c": "",
}
# A file, its new text, and whether it is taken as it is, put back, or both at once.
AS_IT_IS = "as it is"
PUT_BACK = "put back"
BOTH = "both"
EDITS_OF_OTHERS = [
    ("package.json", manifest(dependencies={"a": "1"}, main="b.js"), AS_IT_IS),
    ("package.json", manifest(scripts={"test": "true"}), PUT_BACK),
    ("package.json", manifest(scripts={"test": "mocha", "version": "x"}), PUT_BACK),
    ("package.json", manifest(scripts={"test": "true"}, version="2"), BOTH),
    ("package.json", manifest(tool={"require": "./evil"}), PUT_BACK),
    ("package.json", "{", PUT_BACK),
    ("package.json", None, BOTH),
    ("web/package.json", manifest(jest={"runner": "./evil"}), PUT_BACK),
    ("composer.json", manifest(require={"a/b": "1"}), AS_IT_IS),
    ("composer.json", manifest(scripts={"test": "true"}), PUT_BACK),
    ("Cargo.toml", f'{CARGO}rand = "1"\n', AS_IT_IS),
    ("Cargo.toml", CARGO.replace("1.0.0", "1.0.1"), AS_IT_IS),
    ("Cargo.toml", f'{CARGO}rand = {{path = "fake"}}\n', PUT_BACK),
    ("Cargo.toml", f'{CARGO}[[test]]\nname = "a"\nharness = false\n', PUT_BACK),
    ("Cargo.toml", CARGO.replace("\n\n", '\nbuild = "b.rs"\n\n'), PUT_BACK),
    ("go.mod", f"{GO}replace a.org/b => ./fake\n", BOTH),
    ("go.work", "use .\n", BOTH),
    ("build.rs", "fn main() { panic!() }\n", BOTH),
    ("Makefile", "test:\n\ttrue\n", BOTH),
    ("GNUmakefile", "test:\n\ttrue\n", BOTH),
    ("vite.config.ts", "export default {test: {}}\n", PUT_BACK),
    ("src/app.config.ts", "export default {}\n", AS_IT_IS),
    (".cargo/config.toml", "[build]\n", PUT_BACK),
    (".npmrc", "script-shell=./fake\n", PUT_BACK),
    (".github/workflows/a.yml", "on: push\n", AS_IT_IS),
    (".gitignore", "x\n", AS_IT_IS),
    ("vendor/lib/a.go", "package lib\n\n", PUT_BACK),
    ("pyproject.toml", f'{PYPROJECT}[tool.poe.tasks]\ntest = "true"\n', PUT_BACK),
    ("ci/run.py", "print()\n", PUT_BACK),
    ("ci/run.ini", "x\n", PUT_BACK),
    ("src/a.c", "int a;\n", AS_IT_IS),
]


@pytest.mark.parametrize(("path", "text", "effect"), EDITS_OF_OTHERS)
def test_what_commands_of_any_language_read(
    path: str, text: str | None, effect: str
) -> None:
    changes = {path: encode(text)}
    command = TestCommand.of("make test", Runner.SCRIPT, OF_OTHERS.get)
    tree = tree_under_test(changes, OF_OTHERS, OF_OTHERS.get, command)
    expected = {
        AS_IT_IS: TreeUnderTest(changes),
        PUT_BACK: TreeUnderTest({}, (path,)),
        BOTH: TreeUnderTest({}, (path,), (path,)),
    }
    assert tree == expected[effect]


def test_a_runner_of_python_reads_no_settings_of_other_tools() -> None:
    command = TestCommand.of("pytest -c ci/run.ini", Runner.PYTEST, OF_OTHERS.get)
    for path, text, _ in EDITS_OF_OTHERS:
        changes = {path: encode(text)}
        tree = tree_under_test(changes, OF_OTHERS, OF_OTHERS.get, command)
        assert bool(tree.configuration) == (path == "ci/run.ini"), path


# The files that a command starts, or names in options.
NAMED = [
    ("bash run.sh", {"run.sh"}),
    ("python -m thing.check src/a.sh", set()),
    ("python runtests.py --settings=ci/set.py", {"runtests.py", "ci/set.py"}),
    ("X=1 ./run.sh src/a.sh", {"run.sh"}),
    ("cd web && node tools/test.js", {"web/tools/test.js"}),
    ("npx jest -c conf/jest.js lib/a.test.js", {"conf/jest.js"}),
    ("node --import ./hooks.mjs --test", {"hooks.mjs"}),
    ("gcc -o t src/a.c && ./t", {"t"}),
    ("python 'ci/run.py' | tee log", {"ci/run.py"}),
    ("bin/test -C", {"bin/test"}),
]


@pytest.mark.parametrize(("command", "named"), NAMED)
def test_files_that_a_command_names(command: str, named: set[str]) -> None:
    test_command = TestCommand.of(command, Runner.SCRIPT, lambda _: None)
    for path in named:
        assert test_command.is_read(path), path
    for path in {"src/a.sh", "src/a.c", "lib/a.test.js"} - named:
        assert not test_command.is_read(path), path
