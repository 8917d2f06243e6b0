"""The public API: rows of runs, ``solve``, what plug-ins import, and the examples of its page."""

from __future__ import annotations

import ast
import asyncio
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

import pytest

import swe_retry
from swe_retry import (
    InstanceRecord,
    RunRecords,
    Solution,
    UserError,
    load_run,
    solve,
)
from swe_retry.agent.agents import load_agent
from swe_retry.record.store import RunStore
from swe_retry.report.evaluation.evaluation_settings import RowKind
from tests.support import TOP, wait_until
from tests.support.ownworld import ISSUE, RIGHT, WRONG, make_repository, state
from tests.support.provider import Answer, Provider
from tests.support.reported import replay, report_run

OLD = TOP / "tests/data/run-0.12/predictions/demo"
FOREIGN = TOP / "tests/data/foreign/mini"
PAGE = (TOP / "docs/api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE)
KINDS: tuple[RowKind, ...] = ("instances", "attempts", "calls")
PLAIN = (str, int, float, bool, NoneType)
UNTESTED = {"tests.environment": "none", "tests.required": False}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A replay of three instances of the demo, without tests."""
    return replay(tmp_path_factory.mktemp("demo"), cache, run="demo")


def cells(run: Path, cache: Path, kind: RowKind) -> list[dict[str, str]]:
    """Return the rows that ``report.py --format csv`` prints."""
    printed = report_run(run, cache, format="csv", rows=kind)
    assert printed.code == 0
    return list(csv.DictReader(printed.text.splitlines()))


def in_csv(row: Any) -> dict[str, str]:
    return {
        name: "" if value is None else str(value) for name, value in asdict(row).items()
    }


def plain_values(run: RunRecords) -> Iterator[object]:
    for kind in KINDS:
        for row in getattr(run, kind):
            yield from asdict(row).values()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_that_the_report_prints(
    kind: RowKind, demo: Path, cache: Path
) -> None:
    rows = getattr(load_run(demo), kind)
    assert rows
    assert cells(demo, cache, kind) == list(map(in_csv, rows))


def test_rows_have_plain_values_and_the_sums_of_the_run(demo: Path) -> None:
    run = load_run(demo)
    assert all(type(value) in PLAIN for value in plain_values(run))
    assert [row.instance_id for row in run.instances] == sorted(
        path.stem for path in RunStore.of_folder(demo).prediction_paths()
    )
    for row in run.instances:
        attempts = [a for a in run.attempts if a.instance_id == row.instance_id]
        assert len(attempts) == row.attempts
        chosen = [attempt.attempt for attempt in attempts if attempt.chosen]
        assert chosen == ([] if row.attempt is None else [row.attempt])
        calls = [call for call in run.calls if call.instance_id == row.instance_id]
        assert len(calls) == sum(attempt.calls or 0 for attempt in attempts)
    assert (run.name, run.folder) == ("demo", demo)
    assert run.models == ("scripted-a", "scripted-b")


def test_an_older_run_has_its_verdicts_and_is_left_as_it_is() -> None:
    before = {path: path.stat().st_mtime_ns for path in OLD.rglob("*")}
    run = load_run(OLD)
    unresolved = [row.instance_id for row in run.instances if not row.resolved]
    assert unresolved == ["demo__units-1"]
    assert {row.evaluator for row in run.instances} == {"local"}
    resolved = [row for row in run.attempts if row.resolved]
    assert {(row.chosen, row.plausible) for row in resolved} == {(True, True)}
    assert before == {path: path.stat().st_mtime_ns for path in OLD.rglob("*")}


def test_a_run_of_another_harness_has_rows_and_no_copy(tmp_path: Path) -> None:
    run = load_run(FOREIGN)
    assert run.folder == FOREIGN
    assert {row.instance_id for row in run.instances} == {
        "demo__bank-1",
        "demo__textkit-1",
        "demo__units-1",
    }
    assert {row.plausible for row in run.attempts} == {None}
    assert all(row.calls for row in run.attempts)
    assert run.calls == ()
    alone = load_run(FOREIGN / "preds.json")
    assert [row.instance_id for row in alone.instances] == [
        row.instance_id for row in run.instances
    ]


def test_what_is_not_predicted_is_a_row_too(demo: Path, tmp_path: Path) -> None:
    run = tmp_path / "predictions/run"
    name = "demo__bank-1"
    run.mkdir(parents=True)
    for file in ("run.json", "ledger.jsonl", f"{name}.json"):
        (run / file).write_bytes((demo / file).read_bytes())
    rows = {row.instance_id: row for row in load_run(run).instances}
    assert len(rows) == len(load_run(demo).instances)
    del rows[name]
    for missing, row in rows.items():
        assert row == InstanceRecord("run", missing)


def test_calls_of_a_run_without_a_ledger_are_those_of_its_conversations(
    demo: Path, tmp_path: Path
) -> None:
    store = RunStore.of_folder(demo)
    folder = tmp_path / "run"
    (folder / "trajectories").mkdir(parents=True)
    for path in store.prediction_paths():
        for source in (path, store.trajectory(path.stem)):
            target = folder / source.relative_to(demo)
            target.write_bytes(source.read_bytes())
    calls = load_run(folder).calls
    assert {call.kind for call in calls} == {"answered"}
    expected = [(c.instance_id, c.attempt, c.model) for c in load_run(demo).calls]
    assert sorted((c.instance_id, c.attempt, c.model) for c in calls) == sorted(
        expected
    )


@pytest.mark.parametrize("run", ["nosuch", "predictions/nosuch", str(TOP / "docs")])
def test_what_is_no_run_is_one_line(run: str) -> None:
    with pytest.raises(UserError) as raised:
        load_run(run)
    assert "\n" not in str(raised.value)
    assert Path(run).name in str(raised.value)


def run_solve(cwd: Path, cache: Path, provider: Provider, **changes: Any) -> Solution:
    settings = {
        "folders.cache": cache,
        "calls.api_base": provider.url,
        **UNTESTED,
        **changes.pop("settings", {}),
    }
    arguments = {
        "repo": cwd,
        "issue": ISSUE,
        "models": ["gpt-4o@diff"],
        "out": cwd.parent,
        "say": lambda line: None,
        **changes,
    }
    return solve(settings=settings, **arguments)


@pytest.fixture
def calc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    return make_repository(tmp_path / "calc")


def test_solve_returns_the_patch_and_leaves_the_repository(
    calc: Path, cache: Path, provider: Provider
) -> None:
    before = state(calc)
    provider.will_answer(*RIGHT)
    said: list[str] = []
    solution = run_solve(calc, cache, provider, say=said.append, run="mine")
    assert solution.outcome == "plausible, untested"
    assert solution.plausible
    assert "+    return a + b" in solution.patch
    assert solution.folder == calc.parent / "predictions/mine"
    assert (solution.folder / "candidate.patch").read_text() == solution.patch
    (row,) = load_run(solution.folder).instances
    assert solution.cost_usd == row.cost_usd is not None
    assert any("add subtracts" in line for line in said)
    assert state(calc) == before
    # The same call again asks no model.
    requests = len(provider.requests)
    assert run_solve(calc, cache, provider, run="mine") == solution
    assert len(provider.requests) == requests


def test_solve_without_a_candidate_that_tests_accept(
    calc: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(*WRONG)
    settings = {"tests.environment": "local", "models.tries": 1}
    solution = run_solve(
        calc, cache, provider, setup="true", test="pytest", settings=settings
    )
    assert (solution.outcome, solution.plausible) == ("not plausible", False)
    assert "a * b" in solution.patch


def test_solve_calls_no_model_where_nothing_can_be_tested(
    calc: Path, cache: Path, provider: Provider
) -> None:
    solution = run_solve(calc, cache, provider, settings={"tests.required": True})
    assert solution.outcome == "nothing to test"
    assert (solution.plausible, solution.patch) == (False, "")
    assert solution.cost_usd == 0
    assert not provider.requests


def in_thread(function: Callable[[], Solution]) -> Solution:
    with ThreadPoolExecutor() as executor:
        return executor.submit(function).result()


def in_running_loop(function: Callable[[], Solution]) -> Solution:
    """Call a function as a cell of a notebook does."""

    async def call() -> Solution:
        return function()

    return asyncio.run(call())


@pytest.mark.parametrize("call", [in_thread, in_running_loop])
def test_solve_works_wherever_it_is_called(
    call: Callable[[Callable[[], Solution]], Solution],
    calc: Path,
    cache: Path,
    provider: Provider,
) -> None:
    provider.will_answer(*RIGHT)
    said: list[str] = []
    assert call(partial(run_solve, calc, cache, provider, say=said.append)).plausible
    assert not [line for line in said if "event loop" in line]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"repo": "/nosuch/place"}, "/nosuch/place"),
        ({"issue": ""}, "issue"),
        ({"models": ["gpt-4o@nosuch"]}, "nosuch"),
        ({"budget_usd": -1}, "budget_usd -1"),
        ({"budget_usd": "much"}, "budget_usd much"),
        ({"settings": {"tests.requird": 1}}, "settings: there is no setting"),
        ({"settings": {"budget.usd": 1}, "budget_usd": 2}, "budget_usd are the same"),
        ({"settings": {"instances.slice": "0:1"}}, "settings: instances.slice"),
        ({"settings": {"tests": {"timeout": 0}}}, "settings: tests.timeout 0"),
    ],
)
def test_a_wrong_argument_is_one_line(
    changes: dict[str, Any],
    words: str,
    calc: Path,
    cache: Path,
    provider: Provider,
) -> None:
    with pytest.raises(UserError) as raised:
        run_solve(calc, cache, provider, **changes)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not provider.requests


STOPPED = """
import sys
from swe_retry import solve

repo, cache, url = sys.argv[1:]
settings = {"folders.cache": cache, "calls.api_base": url, "tests.environment": "none",
            "tests.required": False}
try:
    solve(repo, "add subtracts", models="gpt-4o@diff", settings=settings, run="r", out=".")
except KeyboardInterrupt:
    print("stopped in order")
"""


def test_an_interrupt_stops_in_order_and_the_same_call_continues(
    calc: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(RIGHT[0], Answer(RIGHT[1], hang=2))
    argv = [sys.executable, "-c", STOPPED, str(calc), str(cache), provider.url]
    env = {**os.environ, "PYTHONPATH": str(TOP)}
    with subprocess.Popen(
        argv, cwd=calc.parent, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: len(provider.requests) >= 2)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
    assert printed.endswith("stopped in order\n"), printed
    assert process.returncode == 0
    requests = len(provider.requests)
    provider.answers.clear()
    provider.will_answer(RIGHT[1])
    solution = run_solve(calc, cache, provider, issue="add subtracts", run="r")
    assert solution.plausible
    # What was paid for is not asked again.
    assert len(provider.requests) <= requests + 1


def test_names_are_loaded_when_they_are_used() -> None:
    code = (
        "import sys; before = set(sys.modules); import swe_retry; "
        "print(sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.check_output([sys.executable, "-c", code], cwd=TOP, text=True)
    assert ast.literal_eval(loaded) == ["swe_retry", "swe_retry.oldest"]


def test_each_name_is_there_and_on_the_page() -> None:
    for name in swe_retry.__all__:
        assert getattr(swe_retry, name).__name__ == name
        assert f"`{name}" in PAGE
    assert set(swe_retry.__all__) <= set(dir(swe_retry))
    with pytest.raises(AttributeError, match="'nosuch'"):
        swe_retry.nosuch  # type: ignore[attr-defined]  # noqa: B018


def test_the_page_has_the_columns_of_the_rows() -> None:
    for kind, record in (
        ("instances", swe_retry.InstanceRecord),
        ("attempts", swe_retry.AttemptRecord),
        ("calls", swe_retry.CallRecord),
    ):
        (line,) = re.findall(rf"(?m)^\| `{kind}` \|(.*)\|$", PAGE)
        columns = re.findall(r"`(\w+)`", line)
        assert columns == [field.name for field in fields(record)]


@pytest.fixture
def there(
    calc: Path, demo: Path, provider: Provider, cache: Path, monkeypatch: Any
) -> Path:
    """A repository with a run of the demo in it, and a provider that answers for all models."""
    shutil.copytree(demo, calc / "predictions/demo")
    (calc / ".gitignore").write_text("/predictions\n/.gitignore\n")
    provider.will_answer(*RIGHT)
    monkeypatch.chdir(calc)
    monkeypatch.setenv("RETRY_CALLS__API_BASE", provider.url)
    monkeypatch.setenv("RETRY_TESTS__ENVIRONMENT", "none")
    monkeypatch.setenv("RETRY_TESTS__REQUIRED", "false")
    monkeypatch.setenv("RETRY_FOLDERS__CACHE", str(cache))
    monkeypatch.setenv("RETRY_FOLDERS__OUT", str(calc))
    return calc


EXAMPLES = dict(zip(("rows", "solve", "agent"), BLOCKS, strict=True))


def test_the_example_of_rows(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    exec(EXAMPLES["rows"], {})
    printed = capsys.readouterr().out
    assert printed.split()[:4] == ["plausible", "calls", "cost_usd", "model"]
    assert "scripted-a" in printed


@pytest.mark.parametrize("kind", KINDS)
def test_a_data_frame_has_the_columns(kind: RowKind, demo: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rows = getattr(load_run(demo), kind)
    frame = pandas.DataFrame(rows)
    assert list(frame.columns) == [field.name for field in fields(rows[0])]
    assert len(frame) == len(rows)


def test_the_example_of_solve(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(EXAMPLES["solve"], {})
    printed = capsys.readouterr().out
    assert "\nplausible, untested 0." in printed
    assert "+    return a + b" in printed


def test_the_example_of_an_agent_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "answering_agent.py").write_text(EXAMPLES["agent"])
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(load_agent("answering_agent:MyAgent"), swe_retry.Agent)


TYPED = """
from swe_retry import Agent, AgentResult, Task, load_run, solve

class Mine:
    def work(self, task: Task) -> AgentResult:
        reveal_type(task.model.complete([]).content)
        return AgentResult()

agent: Agent = Mine()
run = load_run("predictions/demo")
reveal_type(run.instances[0].resolved)
reveal_type(run.attempts[0].cost_usd)
reveal_type(run.calls[0].model)
reveal_type(solve)
reveal_type(solve(".", "issue.md").patch)
from swe_retry import nosuch  # type: ignore[attr-defined]
"""
REVEALED = (
    "str",
    "bool | None",
    "float | None",
    "str",
    "def (repo: str | pathlib.Path, issue: str | pathlib.Path, *,",
    "str",
)


@pytest.mark.check
def test_type_checkers_know_the_types(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(TYPED)
    argv = [sys.executable, "-m", "mypy", "--strict", str(program)]
    done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(revealed) == len(REVEALED)
    for text, start in zip(revealed, REVEALED, strict=True):
        assert text.replace("builtins.", "").startswith(start)
        assert "Any" not in text
