"""The rules of the structure hold, and each is seen to fail where it is broken.

``architecture.json`` lists what is left of violations. It only shrinks: a violation that is gone
must leave the list. ``python -m tests.architecture >tests/architecture.json`` writes it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.architecture import (
    MAX_MODULES,
    MAX_TOKENS,
    ROOM_TOKENS,
    RULES,
    TOP,
    banned_words,
    bare_imports,
    circles,
    closure,
    crowded_rooms,
    hidden_names,
    join_text,
    repeated_facts,
    shared_names,
    sizes,
    stale_paths,
    unknown_names,
    unmet_goals,
    upward_imports,
)
from tests.support import write_files

pytestmark = pytest.mark.check

LEFT = Path(__file__).with_name("architecture.json")


@pytest.mark.parametrize("name", list(RULES))
def test_the_rule_holds(name: str) -> None:
    violations = RULES[name](TOP)
    left = set(json.loads(LEFT.read_text()).get(name, []))
    assert not violations - left, "new violations"
    assert not left - violations, (
        "no violations any more: remove them from architecture.json"
    )


@pytest.mark.parametrize(
    "line",
    [
        "import swe_retry.report.rows",
        "from swe_retry.demo.setup import x",
        "from swe_retry.runner import rows",
        "from swe_retry.kit import UserError",
        "import swe_retry_exercises.rows",
    ],
)
def test_an_upward_import_is_seen(tmp_path: Path, line: str) -> None:
    names = (
        "swe_retry/report/rows.py",
        "swe_retry/demo/setup.py",
        "swe_retry/runner/rows.py",
        "swe_retry/kit.py",
        "exercises/swe_retry_exercises/rows.py",
    )
    top = write_files(
        tmp_path,
        {
            **dict.fromkeys(names, ""),
            "swe_retry/core/new.py": f"def f():\n    {line}\n",
        },
    )
    assert len(upward_imports(top)) == 1
    top = write_files(
        top,
        {
            "swe_retry/core/new.py": "import json\nimport swe_retry.core.other\n",
            "swe_retry/core/other.py": "",
        },
    )
    assert upward_imports(top) == set()


@pytest.mark.parametrize(
    "user", ["swe_retry/report/a.py", "swe_retry/demo/a.py", "report.py"]
)
def test_only_tests_and_benchmarks_import_exercises_and_benchmarks(
    tmp_path: Path, user: str
) -> None:
    files = {
        "exercises/swe_retry_exercises/rows.py": "",
        "benchmarks/a.py": "import swe_retry_exercises.rows\n",
    }
    top = write_files(tmp_path, {**files, "swe_retry/report/rows.py": "", user: ""})
    assert upward_imports(top) == set()
    names = ("swe_retry.report.rows", "swe_retry_exercises.rows", "benchmarks.a")
    imports = "".join(f"import {name}\n" for name in names)
    write_files(top, {user: imports})
    packages = ("benchmarks.a", "swe_retry_exercises.rows")
    assert upward_imports(top) == {f"{user} imports {name}" for name in packages}


def test_what_is_too_large_is_seen(tmp_path: Path) -> None:
    long = "x = 1\n" * (MAX_TOKENS // 3 + 1)
    files = {
        "swe_retry/runner/long.py": long,
        "swe_retry/runner/documented.py": f'"""{long}"""\n',
        "tests/test_long.py": long,
        "swe_retry/runner/__init__.py": "",
    }
    calls = {
        f"swe_retry/runner/calls/m{number}.py": "" for number in range(MAX_MODULES)
    }
    benchmarks = {f"benchmarks/m{number}.py": "" for number in range(MAX_MODULES + 1)}
    top = write_files(tmp_path, {**files, **calls, **benchmarks})
    assert sizes(top) == {
        "swe_retry/runner/long.py is too long",
        "tests/test_long.py is too long",
    }
    assert "swe_retry/runner/calls is too full" in sizes(
        write_files(top, {"swe_retry/runner/calls/last.py": ""})
    )


def test_an_import_beside_the_package_is_seen(tmp_path: Path) -> None:
    files = {"agent/rows.py": "", "tests/test_rows.py": "import swe_retry.agent.rows\n"}
    top = write_files(tmp_path, files)
    (top / "swe_retry").mkdir()
    (top / "swe_retry/agent").symlink_to("../agent")
    assert bare_imports(top) == set()
    write_files(top, {"tests/test_rows.py": "from agent import rows\n"})
    assert bare_imports(top) == {"tests/test_rows.py imports agent.rows"}


def test_a_circle_of_folders_is_seen(tmp_path: Path) -> None:
    files = {
        "swe_retry/runner/run.py": "import swe_retry.runner.calls.gate\n",
        "swe_retry/runner/calls/gate.py": "import swe_retry.runner.progress.store\n",
        "swe_retry/runner/progress/store.py": "import swe_retry.runner.jobs\n",
        "swe_retry/runner/jobs.py": "",
    }
    assert circles(write_files(tmp_path, files)) == set()
    late = "def f():\n    import swe_retry.runner.calls.other\n"
    write_files(tmp_path, {"swe_retry/runner/progress/new.py": late})
    assert circles(write_files(tmp_path, {"swe_retry/runner/calls/other.py": ""})) == {
        "swe_retry/runner/calls, swe_retry/runner/progress"
    }
    write_files(
        tmp_path,
        {
            "swe_retry/runner/progress/new.py": "",
            "swe_retry/runner/jobs.py": "import swe_retry.runner.run\n",
        },
    )
    parts = ("calls/gate.py", "jobs.py", "progress/store.py", "run.py")
    assert circles(tmp_path) == {
        ", ".join(f"swe_retry/runner/{part}" for part in parts)
    }


@pytest.mark.parametrize(
    ("code", "goal"),
    [
        ("x = f(a, b, c, d, e, g, h)\n", "tokens per statement"),
        ("x = 1 if y else 2\n", "conditional expressions"),
        ("x = [y for y in z]\n", "comprehensions"),
        ("x, y = 1, 2\n", "tuple assignments"),
        ("found = 1\n", "filler names"),
        ("def shown(): ...\n", "participles"),
        ("def add(\n    a,\n    b,\n): ...\n", "split signatures"),
    ],
)
def test_a_form_beyond_its_goal_is_seen(tmp_path: Path, code: str, goal: str) -> None:
    plain = "def add(a, b):\n    x = a\n    return x + b\n"
    top = write_files(tmp_path, {"swe_retry/core/a.py": plain})
    assert unmet_goals(top) == set()
    write_files(top, {"swe_retry/core/a.py": code})
    assert goal in unmet_goals(top)


def test_form_is_bounded_over_all_rooms_together(tmp_path: Path) -> None:
    plain = "x = 1\n" * 200
    top = write_files(
        tmp_path,
        {"swe_retry/core/a.py": plain, "swe_retry/llm/a.py": "x = 1 if y else 2\n"},
    )
    assert unmet_goals(top) == set()


def test_the_form_of_the_exercises_is_bounded_apart(tmp_path: Path) -> None:
    files = {
        "swe_retry/core/a.py": "x = 1\n" * 200,
        "exercises/swe_retry_exercises/a.py": "x = 1 if y else 2\n",
    }
    top = write_files(tmp_path, files)
    assert unmet_goals(top) == {"exercises: conditional expressions"}


def test_a_crowded_room_is_seen(tmp_path: Path) -> None:
    top = write_files(
        tmp_path,
        {"swe_retry/core/a.py": "x = 1\n" * (ROOM_TOKENS["swe_retry/core"] // 3)},
    )
    assert crowded_rooms(top) == set()
    write_files(top, {"swe_retry/core/b.py": "x = 1\n"})
    [violation] = crowded_rooms(top)
    assert violation.startswith("swe_retry/core has 1")


def test_a_name_that_the_code_has_not_is_seen_in_documents(tmp_path: Path) -> None:
    text = "`Gone`, `Here`, `OSError`, `a_value` and `hunks` (`swe_retry/core/a.py`).\n"
    files = {
        "swe_retry/core/a.py": "class Here: ...\n",
        "swe_retry/core/b.py": "hunks = 1\n",
        "docs/a.md": text,
        "CONTRIBUTING.md": text,
    }
    assert unknown_names(write_files(tmp_path, files)) == {
        "docs/a.md names Gone",
        "docs/a.md names hunks of swe_retry/core/a.py",
        "CONTRIBUTING.md names Gone",
        "CONTRIBUTING.md names a_value",
        "CONTRIBUTING.md names hunks of swe_retry/core/a.py",
    }


def test_an_alias_under_the_name_of_a_class_is_seen(tmp_path: Path) -> None:
    say = "Say = Callable[[str], None]\n"
    files = {
        "swe_retry/core/a.py": say,
        "swe_retry/llm/a.py": say,
        "swe_retry/runner/b.py": "Entry = Mapping[str, int]\n",
    }
    assert shared_names(write_files(tmp_path, files)) == set()
    write_files(
        tmp_path,
        {
            "swe_retry/attempts/c.py": "class Entry: ...\n",
            "swe_retry/attempts/d.py": "Say = Callable[[int], None]\n",
        },
    )
    assert shared_names(tmp_path) == {
        "Entry: swe_retry/runner/b.py, swe_retry/attempts/c.py",
        "Say: swe_retry/core/a.py, swe_retry/llm/a.py, swe_retry/attempts/d.py",
    }


def test_two_classes_of_one_name_are_seen(tmp_path: Path) -> None:
    top = write_files(
        tmp_path, {"swe_retry/core/a.py": "class Row: ...\nclass _Own: ...\n"}
    )
    write_files(top, {"benchmarks/b.py": "class _Own: ...\n"})
    assert shared_names(top) == set()
    write_files(top, {"swe_retry/report/c.py": "class Row: ...\n"})
    assert shared_names(top) == {"Row: swe_retry/core/a.py, swe_retry/report/c.py"}


def test_what_two_modules_state_is_seen(tmp_path: Path) -> None:
    option = 'Workers = Option("--workers", "-w", help="at once")\n'
    module = f'RUN = "run.json"\n{option}def command(workers: Workers = 4): ...\n'
    top = write_files(
        tmp_path,
        {
            "swe_retry/runner/a.py": module,
            "swe_retry/runner/b.py": "import swe_retry.runner.a\nworkers: int = 2\n",
        },
    )
    assert repeated_facts(top) == set()
    write_files(
        top,
        {
            "swe_retry/attempts/a.py": 'def read(): return "run.json"\n',
            "swe_retry/attempts/b.py": option,
        },
    )
    write_files(
        top, {"swe_retry/attempts/c.py": "class Scale:\n    workers: float = 4.0\n"}
    )
    group = (
        'class Group:\n    workers: int = option(4, "at once", "--workers")\n    '
        "jobs: int = 4\n"
    )
    assert repeated_facts(
        write_files(
            tmp_path / "other",
            {"swe_retry/runner/a.py": module, "swe_retry/llm/a.py": group},
        )
    ) == {
        "--workers: swe_retry/llm/a.py, swe_retry/runner/a.py",
        "--workers = 4.0: swe_retry/llm/a.py, swe_retry/runner/a.py",
    }
    assert repeated_facts(top) == {
        "run.json: swe_retry/attempts/a.py, swe_retry/runner/a.py",
        "--workers: swe_retry/attempts/b.py, swe_retry/runner/a.py",
        "--workers = 4.0: swe_retry/attempts/c.py, swe_retry/runner/a.py",
    }


def test_a_name_of_the_evaluation_half_is_seen(tmp_path: Path) -> None:
    loader = "swe_retry.instances.split"
    command = f"import {loader}\ndef f():\n    import swe_retry.runner.run\n"
    rows = f'from {loader} import Evaluation\nx = "hints_text"\n'
    files = {
        "harness.py": 'launch("swe_retry.cli.main")\n',
        "report.py": "import swe_retry.report.rows\n",
        "swe_retry/cli/main.py": command,
        "swe_retry/instances/split.py": "class Evaluation:\n    test_patch: str\n",
        "swe_retry/runner/run.py": "",
        "swe_retry/report/rows.py": rows,
    }
    top = write_files(tmp_path, files)
    assert hidden_names(top) == set()
    write_files(
        top,
        {
            "swe_retry/runner/run2.py": "def f(x):\n    return x.test_patch\n",
            "swe_retry/runner/run.py": "",
        },
    )
    command = "import swe_retry.runner.run2\nimport swe_retry.report.rows\n"
    write_files(top, {"swe_retry/cli/main.py": command})
    assert hidden_names(top) == {
        "swe_retry/runner/run2.py names test_patch",
        "swe_retry/report/rows.py names Evaluation",
        "swe_retry/report/rows.py names hints_text",
    }


def test_the_harness_is_followed_to_its_end() -> None:
    modules = closure(TOP, "harness.py")
    rooms = {path.split("/")[1] for path in modules if "/" in path}
    assert {"agent", "environments"} < rooms
    assert {"results", "report"}.isdisjoint(rooms)
    of_study = {path for path in modules if "swe_retry/study/" in path}
    files = {"__init__", "arms", "studyfile"}
    assert of_study <= {f"swe_retry/study/{name}.py" for name in files}
    of_mining = {path for path in modules if "swe_retry/mining/" in path}
    assert of_mining == {"swe_retry/mining/settings.py"}


@pytest.mark.parametrize(
    "line",
    [
        "import swe_retry.instances.split",
        "from swe_retry.instances.split import split_row",
        "from swe_retry.instances import split",
        "def late():\n    from swe_retry.instances.split import split_row",
    ],
)
def test_modules_beside_subfolders_count_for_their_folder(
    tmp_path: Path, line: str
) -> None:
    files = {
        "swe_retry/instances/adapters/classic.py": "",
        "swe_retry/instances/split.py": "import swe_retry.instances.adapters.classic\n",
        "swe_retry/instances/selection.py": "import swe_retry.repositories.names\n",
        "swe_retry/repositories/names.py": "",
        "swe_retry/repositories/mirrors.py": "",
    }
    top = write_files(tmp_path, files)
    assert circles(top) == set()
    write_files(top, {"swe_retry/repositories/mirrors.py": f"{line}\n"})
    assert circles(top) == {"swe_retry/instances, swe_retry/repositories"}
    # A folder and its own sub-folder may use each other, two modules may not.
    write_files(top, {"swe_retry/repositories/mirrors.py": ""})
    inner = "import swe_retry.instances.dataset\n"
    more = {
        "swe_retry/instances/adapters/classic.py": inner,
        "swe_retry/instances/dataset.py": "",
    }
    assert circles(write_files(top, more)) == set()
    write_files(top, {"swe_retry/instances/dataset.py": f"{line}\n"})
    (ring,) = circles(top)
    assert "adapters/classic.py" in ring


@pytest.mark.parametrize(
    "text",
    [
        "It was begun.",
        "MENDS = 1; mend = 2",
        "class NewCrew: ...",
        "run the last rites",
        '"nobody "\n    "knows"',
        "# nobody\n# knows",
        "the_crew = 1",
    ],
)
def test_a_banned_word_is_seen(tmp_path: Path, text: str) -> None:
    for name in ("swe_retry/core/a.py", "docs/a.md", "README.md"):
        assert len(banned_words(write_files(tmp_path, {name: text}))) == 1, name
        (tmp_path / name).unlink()
    write_files(
        tmp_path, {"agent/prompts/a.md": text, "swe_retry/demo/repositories/a.py": text}
    )
    assert banned_words(tmp_path) == set()


def test_other_words_pass(tmp_path: Path) -> None:
    text = "recommend amend screw; nobody here\nwho knows\n"
    assert banned_words(write_files(tmp_path, {"swe_retry/core/a.py": text})) == set()
    assert join_text("a = (\n    'one '\n    'two'\n)") == "a = ( 'one two' )"


def test_a_document_that_names_a_missing_file_is_seen(tmp_path: Path) -> None:
    text = "`swe_retry/core/a.py`, `swe_retry/attempts/` and (../tests/b.py), "
    text += "`exercises/c.py`, `python -m swe_retry_exercises.gone`, "
    text += "predictions/run1, `swe_retry/core/gone.py`.\n"
    text += "`python -m swe_retry.core.a`, python -m pytest, `python -m\nswe_retry.attempts.gone`\n"
    files = {
        "swe_retry/core/a.py": "",
        "swe_retry/attempts/b.py": "",
        "docs/a.md": text,
        "README.md": "docs/a.md\n",
    }
    assert stale_paths(write_files(tmp_path, files)) == {
        "docs/a.md names swe_retry/core/gone.py",
        "docs/a.md names swe_retry.attempts.gone",
        "docs/a.md names exercises/c.py",
        "docs/a.md names swe_retry_exercises.gone",
    }
