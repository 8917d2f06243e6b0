"""The rules of the structure hold, and each is seen to fail where it is broken.

``architecture.json`` lists what is left of violations, and bounds the size of each room. It only
shrinks: a violation that is not there any more must leave the list, too.
``python -m tests.architecture >tests/architecture.json`` writes it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.architecture import (
    MOST_LINES,
    MOST_MODULES,
    RULES,
    TOP,
    banned_words,
    circles,
    closure,
    hidden_names,
    joined,
    repeated_facts,
    room_sizes,
    shared_names,
    sizes,
    stale_paths,
    upward_imports,
)
from tests.support import write_files

LEFT = Path(__file__).with_name("architecture.json")


@pytest.mark.parametrize("name", list(RULES))
def test_the_rule_holds(name: str) -> None:
    found, left = RULES[name](TOP), set(json.loads(LEFT.read_text()).get(name, []))
    assert not found - left, "new violations"
    assert not left - found, "no violations any more: remove them from architecture.json"


@pytest.mark.parametrize(
    "line", ["import reports.rows", "from demo.setup import x", "from runs import rows"]
)
def test_an_upward_import_is_seen(tmp_path: Path, line: str) -> None:
    names = ("reports/rows.py", "demo/setup.py", "runs/rows.py")
    top = write_files(
        tmp_path, {**dict.fromkeys(names, ""), "core/new.py": f"def f():\n    {line}\n"}
    )
    assert len(upward_imports(top)) == 1
    top = write_files(top, {"core/new.py": "import json\nimport core.other\n", "core/other.py": ""})
    assert upward_imports(top) == set()


@pytest.mark.parametrize("user", ["reports/a.py", "demo/a.py", "report.py"])
def test_only_tests_and_benchmarks_import_the_exercises(tmp_path: Path, user: str) -> None:
    files = {"exercises/rows.py": "", "benchmarks/a.py": "import exercises.rows\n"}
    top = write_files(tmp_path, {**files, "reports/rows.py": "", user: ""})
    assert upward_imports(top) == set()
    write_files(top, {user: "import reports.rows\nimport exercises.rows\n"})
    assert upward_imports(top) == {f"{user} imports exercises.rows"}


def test_what_is_too_large_or_too_small_is_seen(tmp_path: Path) -> None:
    user = "import runs.small\nimport runs.shared\nimport environments.none\n" + "\n" * 40
    files = {
        "runs/user.py": user,
        "runs/other.py": "import runs.shared\n",
        "runs/small.py": "",
        "runs/shared.py": "",
        "environments/none.py": "",
        "runs/long.py": "\n" * (MOST_LINES + 1),
        "tests/test_long.py": "\n" * (MOST_LINES + 1),
        "runs/__init__.py": "",
    }
    calls = {f"runs/calls/m{number}.py": "" for number in range(MOST_MODULES)}
    assert sizes(write_files(tmp_path, {**files, **calls})) == {
        "runs/long.py is too long",
        "runs/small.py belongs to runs/user.py",
        "tests/test_long.py is too long",
    }
    assert "runs/calls is too full" in sizes(write_files(tmp_path, {"runs/calls/more.py": ""}))


def test_a_circle_of_folders_is_seen(tmp_path: Path) -> None:
    files = {
        "runs/run.py": "import runs.calls.gate\n",
        "runs/calls/gate.py": "import runs.storage.store\n",
        "runs/storage/store.py": "import runs.jobs\n",
        "runs/jobs.py": "",
    }
    assert circles(write_files(tmp_path, files)) == set()
    write_files(tmp_path, {"runs/storage/new.py": "def f():\n    import runs.calls.other\n"})
    assert circles(write_files(tmp_path, {"runs/calls/other.py": ""})) == {
        "runs/calls, runs/storage"
    }
    write_files(tmp_path, {"runs/storage/new.py": "", "runs/jobs.py": "import runs.run\n"})
    assert circles(tmp_path) == {"runs/calls, runs/jobs.py, runs/run.py, runs/storage"}


def test_rooms_keep_their_bounds() -> None:
    """A change that needs more raises the number, and its message says why."""
    bounds = json.loads(LEFT.read_text())["rooms"]
    for room, found in room_sizes(TOP).items():
        for what, count in found.items():
            assert count <= bounds[room][what], f"{room} has {count} {what}"


def test_rooms_are_counted_without_empty_modules(tmp_path: Path) -> None:
    top = write_files(
        tmp_path, {"core/__init__.py": "", "core/a.py": "x = 1\n\n", "core/b/c.py": "y"}
    )
    assert room_sizes(top)["core"] == {"files": 2, "lines": 3}


def test_an_alias_under_the_name_of_a_class_is_seen(tmp_path: Path) -> None:
    one = {"core/a.py": "Say = Callable[[str], None]\n", "runs/b.py": "Entry = Mapping[str, int]\n"}
    assert shared_names(write_files(tmp_path, {**one, "llm/a.py": one["core/a.py"]})) == set()
    write_files(
        tmp_path,
        {"bench/c.py": "class Entry: ...\n", "bench/d.py": "Say = Callable[[int], None]\n"},
    )
    assert shared_names(tmp_path) == {
        "Entry: runs/b.py, bench/c.py",
        "Say: core/a.py, llm/a.py, bench/d.py",
    }


def test_two_classes_of_one_name_are_seen(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"core/a.py": "class Row: ...\nclass _Own: ...\n"})
    assert shared_names(write_files(top, {"benchmarks/b.py": "class _Own: ...\n"})) == set()
    top = write_files(top, {"reports/c.py": "class Row: ...\n"})
    assert shared_names(top) == {"Row: core/a.py, reports/c.py"}


def test_what_two_modules_state_is_seen(tmp_path: Path) -> None:
    option = 'Workers = Option("--workers", "-w", help="at once")\n'
    one = f'RUN = "run.json"\n{option}def command(workers: Workers = 4): ...\n'
    top = write_files(
        tmp_path, {"runs/a.py": one, "runs/b.py": "import runs.a\nworkers: int = 2\n"}
    )
    assert repeated_facts(top) == set()
    write_files(top, {"bench/a.py": 'def read(): return "run.json"\n', "bench/b.py": option})
    write_files(top, {"bench/c.py": "class Scale:\n    workers: float = 4.0\n"})
    group = (
        'class Group:\n    workers: int = option(4, "at once", "--workers")\n    jobs: int = 4\n'
    )
    assert repeated_facts(
        write_files(tmp_path / "other", {"runs/a.py": one, "llm/a.py": group})
    ) == {
        "--workers: llm/a.py, runs/a.py",
        "--workers = 4.0: llm/a.py, runs/a.py",
    }
    assert repeated_facts(top) == {
        "run.json: bench/a.py, runs/a.py",
        "--workers: bench/b.py, runs/a.py",
        "--workers = 4.0: bench/c.py, runs/a.py",
    }


def test_a_name_of_the_evaluation_half_is_seen(tmp_path: Path) -> None:
    files = {
        "harness.py": 'launch("bench.cli.main")\n',
        "report.py": "import reports.rows\n",
        "bench/cli/main.py": "import bench.instances.instance\ndef f():\n    import runs.run\n",
        "bench/instances/instance.py": "class Evaluation:\n    test_patch: str\n",
        "runs/run.py": "",
        "reports/rows.py": 'from bench.instances.instance import Evaluation\nx = "hints_text"\n',
    }
    top = write_files(tmp_path, files)
    assert hidden_names(top) == set()
    write_files(top, {"runs/run2.py": "def f(x):\n    return x.test_patch\n", "runs/run.py": ""})
    write_files(top, {"bench/cli/main.py": "import runs.run2\nimport reports.rows\n"})
    assert hidden_names(top) == {
        "runs/run2.py names test_patch",
        "reports/rows.py names Evaluation",
        "reports/rows.py names hints_text",
    }


def test_the_harness_is_followed_to_its_end() -> None:
    found = closure(TOP, "harness.py")
    assert {"agent/protocol.py", "environments/choice.py", "llm/client.py"} - found <= {
        "llm/client.py"
    }
    assert not {path for path in found if path.startswith("reports/")}


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
    for name in ("core/a.py", "docs/a.md", "README.md"):
        assert len(banned_words(write_files(tmp_path, {name: text}))) == 1, name
        (tmp_path / name).unlink()
    write_files(tmp_path, {"agent/prompts/a.md": text, "demo/repositories/a.py": text})
    assert banned_words(tmp_path) == set()


def test_other_words_pass(tmp_path: Path) -> None:
    text = "recommend amend screw; nobody here\nwho knows\n"
    assert banned_words(write_files(tmp_path, {"core/a.py": text})) == set()
    assert joined("a = (\n    'one '\n    'two'\n)") == "a = ( 'one two' )"


def test_a_document_that_names_a_missing_file_is_seen(tmp_path: Path) -> None:
    text = "`core/a.py`, `bench/` and (../tests/b.py), predictions/run1, `core/gone.py`.\n"
    text += "`python -m core.a`, python -m pytest, `python -m\nbench.gone`\n"
    files = {"core/a.py": "", "bench/b.py": "", "docs/a.md": text, "README.md": "docs/a.md\n"}
    assert stale_paths(write_files(tmp_path, files)) == {
        "docs/a.md names core/gone.py",
        "docs/a.md names bench.gone",
    }
