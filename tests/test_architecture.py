"""The rules of the structure hold, and each is seen to fail where it is broken.

``architecture.json`` lists what is left of violations, and bounds the figures of each room. It only
shrinks: a violation that is not there any more must leave the list, and a figure that became
better must be written down, too. ``python -m tests.architecture >tests/architecture.json`` does so.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.architecture import (
    GOALS,
    MAX_MODULES,
    MAX_TOKENS,
    ROOMS,
    RULES,
    TOP,
    banned_words,
    best_figures,
    circles,
    closure,
    hidden_names,
    inner_imports,
    join_text,
    repeated_facts,
    shared_names,
    sizes,
    stale_paths,
    upward_imports,
    worse_figures,
)
from tests.support import write_files

pytestmark = pytest.mark.check

# A figure may be this much better than its bound before the bound has to follow.
SLACK = 1.02
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
    "line", ["import reports.rows", "from demo.setup import x", "from runs import rows"]
)
def test_an_upward_import_is_seen(tmp_path: Path, line: str) -> None:
    names = ("reports/rows.py", "demo/setup.py", "runs/rows.py")
    top = write_files(
        tmp_path, {**dict.fromkeys(names, ""), "core/new.py": f"def f():\n    {line}\n"}
    )
    assert len(upward_imports(top)) == 1
    top = write_files(
        top, {"core/new.py": "import json\nimport core.other\n", "core/other.py": ""}
    )
    assert upward_imports(top) == set()


@pytest.mark.parametrize("user", ["reports/a.py", "demo/a.py", "report.py"])
def test_only_tests_and_benchmarks_import_exercises_and_benchmarks(
    tmp_path: Path, user: str
) -> None:
    files = {"exercises/rows.py": "", "benchmarks/a.py": "import exercises.rows\n"}
    top = write_files(tmp_path, {**files, "reports/rows.py": "", user: ""})
    assert upward_imports(top) == set()
    imports = "import reports.rows\nimport exercises.rows\nimport benchmarks.a\n"
    write_files(top, {user: imports})
    packages = ("benchmarks.a", "exercises.rows")
    assert upward_imports(top) == {f"{user} imports {name}" for name in packages}


def test_what_is_too_large_is_seen(tmp_path: Path) -> None:
    long = "x = 1\n" * (MAX_TOKENS // 3 + 1)
    files = {
        "runs/long.py": long,
        "runs/documented.py": f'"""{long}"""\n',
        "tests/test_long.py": long,
        "runs/__init__.py": "",
    }
    calls = {f"runs/calls/m{number}.py": "" for number in range(MAX_MODULES)}
    benchmarks = {f"benchmarks/m{number}.py": "" for number in range(MAX_MODULES + 1)}
    top = write_files(tmp_path, {**files, **calls, **benchmarks})
    assert sizes(top) == {"runs/long.py is too long", "tests/test_long.py is too long"}
    assert "runs/calls is too full" in sizes(
        write_files(top, {"runs/calls/last.py": ""})
    )


def test_a_circle_of_folders_is_seen(tmp_path: Path) -> None:
    files = {
        "runs/run.py": "import runs.calls.gate\n",
        "runs/calls/gate.py": "import runs.storage.store\n",
        "runs/storage/store.py": "import runs.jobs\n",
        "runs/jobs.py": "",
    }
    assert circles(write_files(tmp_path, files)) == set()
    write_files(
        tmp_path, {"runs/storage/new.py": "def f():\n    import runs.calls.other\n"}
    )
    assert circles(write_files(tmp_path, {"runs/calls/other.py": ""})) == {
        "runs/calls, runs/storage"
    }
    write_files(
        tmp_path, {"runs/storage/new.py": "", "runs/jobs.py": "import runs.run\n"}
    )
    assert circles(tmp_path) == {"runs/calls, runs/jobs.py, runs/run.py, runs/storage"}


def test_no_figure_gets_worse() -> None:
    """Only an issue allows a worse figure; its bound is then raised by hand."""
    bounds = json.loads(LEFT.read_text())["figures"]
    assert worse_figures(best_figures(TOP), bounds) == set()


def test_a_better_figure_becomes_the_bound() -> None:
    bounds = json.loads(LEFT.read_text())["figures"]
    reached = {}
    for room, figures in best_figures(TOP).items():
        reached[room] = {name: SLACK * value for name, value in figures.items()}
    assert worse_figures(bounds, reached) == set(), "write architecture.json again"


def test_a_worse_figure_is_seen(tmp_path: Path) -> None:
    plain = "def add(a, b):\n    return a + b\n"
    packed = (
        "def shown(found): return [x if x else 1 for x in found if x not in {*found}]\n"
    )
    files = dict.fromkeys((f"{room}/a.py" for room in ROOMS), "")
    top = write_files(tmp_path, {**files, "core/a.py": plain})
    bounds = best_figures(top)
    assert bounds["all"] == {"tokens": 12}
    assert bounds["core"]["filler"] == 5.0, (
        "a figure at its goal is bounded by the goal"
    )
    write_files(top, {"core/a.py": plain + plain})
    assert worse_figures(best_figures(top), bounds) == {
        "all: tokens is 24, at most 12 is allowed"
    }
    write_files(top, {"core/a.py": packed})
    lines = worse_figures(best_figures(top), bounds)
    worse = {line.partition(" is ")[0] for line in lines}
    names = set(GOALS) - {"tuples"}
    assert worse == {"all: tokens", *(f"core: {name}" for name in names)}


def test_an_alias_under_the_name_of_a_class_is_seen(tmp_path: Path) -> None:
    say = "Say = Callable[[str], None]\n"
    files = {
        "core/a.py": say,
        "llm/a.py": say,
        "runs/b.py": "Entry = Mapping[str, int]\n",
    }
    assert shared_names(write_files(tmp_path, files)) == set()
    write_files(
        tmp_path,
        {
            "bench/c.py": "class Entry: ...\n",
            "bench/d.py": "Say = Callable[[int], None]\n",
        },
    )
    assert shared_names(tmp_path) == {
        "Entry: runs/b.py, bench/c.py",
        "Say: core/a.py, llm/a.py, bench/d.py",
    }


def test_two_classes_of_one_name_are_seen(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"core/a.py": "class Row: ...\nclass _Own: ...\n"})
    write_files(top, {"benchmarks/b.py": "class _Own: ...\n"})
    assert shared_names(top) == set()
    write_files(top, {"reports/c.py": "class Row: ...\n"})
    assert shared_names(top) == {"Row: core/a.py, reports/c.py"}


def test_what_two_modules_state_is_seen(tmp_path: Path) -> None:
    option = 'Workers = Option("--workers", "-w", help="at once")\n'
    module = f'RUN = "run.json"\n{option}def command(workers: Workers = 4): ...\n'
    top = write_files(
        tmp_path,
        {"runs/a.py": module, "runs/b.py": "import runs.a\nworkers: int = 2\n"},
    )
    assert repeated_facts(top) == set()
    write_files(
        top, {"bench/a.py": 'def read(): return "run.json"\n', "bench/b.py": option}
    )
    write_files(top, {"bench/c.py": "class Scale:\n    workers: float = 4.0\n"})
    group = (
        'class Group:\n    workers: int = option(4, "at once", "--workers")\n    '
        "jobs: int = 4\n"
    )
    assert repeated_facts(
        write_files(tmp_path / "other", {"runs/a.py": module, "llm/a.py": group})
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
    write_files(
        top, {"runs/run2.py": "def f(x):\n    return x.test_patch\n", "runs/run.py": ""}
    )
    write_files(top, {"bench/cli/main.py": "import runs.run2\nimport reports.rows\n"})
    assert hidden_names(top) == {
        "runs/run2.py names test_patch",
        "reports/rows.py names Evaluation",
        "reports/rows.py names hints_text",
    }


def test_the_harness_is_followed_to_its_end() -> None:
    modules = closure(TOP, "harness.py")
    assert {"agent/protocol.py", "environments/choice.py"} <= modules
    assert not any(path.startswith("reports/") for path in modules)


@pytest.mark.parametrize(
    "line",
    [
        "import bench.attempts.choose",
        "from bench.attempts.choose import choose",
        "from bench.attempts.evidence.scripts import script",
        "from bench.attempts import rank, stop",
        "def late():\n    from bench.attempts.stop import rule",
    ],
)
def test_an_import_of_an_inner_module_is_seen(tmp_path: Path, line: str) -> None:
    face = "from bench.attempts.choose import choose, rank\n"
    files = {
        "bench/attempts/__init__.py": face,
        "bench/attempts/choose.py": "",
        "bench/attempts/stop.py": "import bench.attempts.choose\n",
        "bench/attempts/evidence/scripts.py": "import bench.attempts.choose\n",
        "tests/bench/attempts/test_choose.py": f"{line}\n",
        "tests/reports/test_use.py": "",
        # The package names a function as one of its modules.
        "reports/use.py": "import bench.attempts\nfrom bench.attempts import choose\n",
    }
    top = write_files(tmp_path, files)
    assert inner_imports(top) == set()
    for user in ("reports/use.py", "bench/cli/use.py", "tests/reports/test_use.py"):
        write_files(top, {user: f"{line}\n"})
        (violation,) = inner_imports(top)
        assert violation.startswith(f"{user} imports bench.attempts.")
        write_files(top, {user: ""})


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
    assert join_text("a = (\n    'one '\n    'two'\n)") == "a = ( 'one two' )"


def test_a_document_that_names_a_missing_file_is_seen(tmp_path: Path) -> None:
    text = (
        "`core/a.py`, `bench/` and (../tests/b.py), predictions/run1, `core/gone.py`.\n"
    )
    text += "`python -m core.a`, python -m pytest, `python -m\nbench.gone`\n"
    files = {
        "core/a.py": "",
        "bench/b.py": "",
        "docs/a.md": text,
        "README.md": "docs/a.md\n",
    }
    assert stale_paths(write_files(tmp_path, files)) == {
        "docs/a.md names core/gone.py",
        "docs/a.md names bench.gone",
    }
