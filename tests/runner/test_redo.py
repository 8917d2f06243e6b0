"""--redo, --status, --clean and --json on real runs; a provider that is down for everybody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.choose import RESULTS
from swe_retry.core.errors import UserError
from swe_retry.core.processes import RUN_VARIABLE
from swe_retry.core.shutdown import Shutdown
from swe_retry.record.result import InstanceResult
from swe_retry.record.runlock import run_lock
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.ledger import total
from swe_retry.runner.housekeeping import clean_command, status_command
from swe_retry.runner.leftovers import run_key
from swe_retry.runner.redo import Redo, put_aside_redone, select_redo
from swe_retry.runner.session import make_coordinator
from swe_retry.runner.settings import Spending
from tests.support import contents_below, read_json
from tests.support.provider import Answer, Provider
from tests.support.runner import ID as PLAUSIBLE
from tests.support.runner import OTHER as EMPTY
from tests.support.runner import Outcome, Runner
from tests.support.runs import EDIT, IDS, config, options, read_money
from tests.support.start import run_command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The results of a run: its first instance succeeds, every attempt at the second fails."""
    out = tmp_path_factory.mktemp("finished")
    with Provider() as provider:
        provider.will_answer("textkit/slug.py", EDIT, "bank/accounts.py", EDIT)
        runner = Runner(out, cache, provider, (PLAUSIBLE, EMPTY))
        runner.start(runner.live())
    assert runner.status(PLAUSIBLE) == "plausible"
    assert runner.status(EMPTY) == "empty"
    return out


@pytest.fixture
def finished_run(runner: Runner, folder: Path) -> Runner:
    """Goes on with a copy of that run."""
    shutil.copytree(folder, runner.out, dirs_exist_ok=True)
    runner.provider.will_answer(EDIT)
    return replace(runner, ids=(PLAUSIBLE, EMPTY))


def replaced_folders(runner: Runner) -> list[str]:
    """Return the folders of what was redone."""
    folders = runner.store.folder.glob("replaced/*")
    return sorted(folder.name for folder in folders)


def redo_run(runner: Runner, names: str) -> Outcome:
    return runner.start(runner.live(), redo=names)


def test_exactly_what_is_named_is_redone_and_the_old_files_are_kept(
    finished_run: Runner,
) -> None:
    plausible = finished_run.prediction(PLAUSIBLE)
    empty = finished_run.prediction(EMPTY)
    spent = total(finished_run.ledger())
    started = redo_run(finished_run, "not_plausible")
    assert "2 instances selected, 1 to redo" in started.output
    assert finished_run.prediction(PLAUSIBLE) == plausible
    assert finished_run.status(EMPTY) == "empty"
    aside = finished_run.store.folder / f"replaced/{EMPTY}.1/prediction.json"
    assert read_json(aside) == empty
    # Fresh replies were bought, and both times stand in the ledger.
    assert finished_run.provider.requests
    now = total(finished_run.ledger())
    assert spent is not None
    assert now is not None
    assert now > spent
    journals = finished_run.store.journals.glob(f"{EMPTY}*.jsonl")
    assert len(list(journals)) == 2


@pytest.mark.parametrize(
    ("redo", "names"),
    [
        ("empty", [EMPTY]),
        ("plausible", [PLAUSIBLE]),
        (f"{PLAUSIBLE},{EMPTY}", [EMPTY, PLAUSIBLE]),
        ("infra_error,budget", []),
    ],
)
def test_statuses_and_ids(finished_run: Runner, redo: str, names: list[str]) -> None:
    redo_run(finished_run, redo)
    assert replaced_folders(finished_run) == [f"{name}.1" for name in names]


def test_a_dry_run_chooses_what_the_run_would_redo(finished_run: Runner) -> None:
    for redo, names in {"not_plausible": [EMPTY], PLAUSIBLE: [PLAUSIBLE]}.items():
        before = contents_below(finished_run.out)
        lines: list[str] = []
        dry = options(
            finished_run.out,
            finished_run.cache,
            *finished_run.ids,
            redo=redo,
            dry_run=True,
        )
        assert run_command(finished_run.live(), dry, lines.append) == 0
        assert lines[0] == "2 instances selected, 1 to redo"
        assert contents_below(finished_run.out) == before
        shown = dry.but(prints_json=True)
        lines.clear()
        run_command(finished_run.live(), shown, lines.append)
        forecast = json.loads(lines[-1])
        assert forecast["todo"] == names
        assert float(forecast["likely"]) > 0
        assert "1 to redo" in redo_run(finished_run, redo).output


def prepare(runner: Runner, redo: str) -> list[str]:
    """Put aside what a redo names, as the command does before it works."""
    run = options(runner.out, runner.cache).of(runner.live())
    coordinator = make_coordinator(runner.store, run, Shutdown(), lambda _: None)
    selected = list(runner.ids)
    parsed = Redo.parse(redo, selected, RESULTS)
    names = select_redo(runner.store, parsed, selected)
    put_aside_redone(runner.store, coordinator, parsed, names)
    return list(names)


@pytest.mark.parametrize("names", [f"{PLAUSIBLE},{EMPTY}", "plausible,empty"])
def test_a_redo_that_was_killed_goes_on_with_what_it_had_not_redone(
    finished_run: Runner, names: str
) -> None:
    assert prepare(finished_run, names) == [PLAUSIBLE, EMPTY]
    # As if the process had died here: one instance is done again, the other is not.
    chosen = finished_run.live()
    finished_run.start(chosen, ids=(PLAUSIBLE,))
    path = finished_run.store.prediction(PLAUSIBLE)
    inode = path.stat().st_ino
    started = finished_run.start(chosen, redo=names)
    assert "2 instances selected, 1 to redo" in started.output
    assert path.stat().st_ino == inode
    assert len(replaced_folders(finished_run)) == 2
    # It has come to its end: the same command starts again.
    finished_run.start(chosen, redo=names)
    assert len(replaced_folders(finished_run)) == 4


def test_a_redo_that_was_killed_while_it_put_files_aside_puts_the_rest_aside(
    finished_run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_aside = RunStore.put_aside

    def put_aside_or_die(self: RunStore, instance_id: str) -> None:
        if instance_id == EMPTY:
            raise KeyboardInterrupt
        put_aside(self, instance_id)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RunStore, "put_aside", put_aside_or_die)
        prepare(finished_run, "plausible,empty")
    assert prepare(finished_run, "plausible,empty") == [PLAUSIBLE, EMPTY]
    assert not list(finished_run.store.prediction_paths())


def test_a_redo_that_is_refused_puts_nothing_aside(finished_run: Runner) -> None:
    with pytest.raises(UserError, match="--redo 'emty': give not_plausible, plausible"):
        redo_run(finished_run, "emty")
    other = finished_run.live(tries=2)
    with pytest.raises(UserError, match="different settings"):
        finished_run.start(other, redo=PLAUSIBLE)
    assert replaced_folders(finished_run) == []


def test_predictions_that_lack_attempts_or_a_status_are_redone_as_their_outcomes_say(
    finished_run: Runner,
) -> None:
    for name in finished_run.ids:
        older = finished_run.prediction(name)
        older["test_outcome"] = True
        del older["all_results"]
        del older["status"]
        path = finished_run.store.prediction(name)
        path.write_text(json.dumps(older))
    started = redo_run(finished_run, "not_plausible")
    assert "2 instances selected, 1 to redo" in started.output
    assert replaced_folders(finished_run) == [f"{EMPTY}.1"]
    assert finished_run.status(EMPTY) == "empty"


def test_the_tables_for_machines_add_up(finished_run: Runner) -> None:
    lines: list[str] = []
    code = status_command(finished_run.store, lines.append, as_json=True)
    assert code == 0
    table = json.loads(lines[0])
    assert table["statuses"]["plausible"]["instances"] == 1
    dollars = table["total"]["dollars"]
    assert Decimal(dollars) == total(finished_run.ledger())
    started = finished_run.start(finished_run.live(), redo=PLAUSIBLE, prints_json=True)
    summary = json.loads(started.lines[-1])
    assert summary["exit_code"] == 0
    assert summary["unfinished"] == []
    counts = summary["counts"]
    assert counts["plausible"] == 1
    assert sum(counts.values()) == 1


def start_sleeper(key: str) -> subprocess.Popen[bytes]:
    """Start a process of the run with this key."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    environ = {**os.environ, RUN_VARIABLE: key}
    return subprocess.Popen(command, env=environ)


def test_clean_removes_what_a_run_left_and_only_that(tmp_path: Path) -> None:
    # Not that of all tests, in which others expect no leftovers.
    cache = tmp_path / "cache"
    store = RunStore(tmp_path, "r")
    store.folder.mkdir(parents=True)
    key = run_key(store.folder)
    own_files = [
        store.folder / ".x.json.abc.tmp",
        cache / f"work/{key}/demo.1/file",
    ]
    other_files = [
        store.folder / "x.json",
        cache / "work/other/file",
    ]
    for path in own_files + other_files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    own_process = start_sleeper(key)
    other_process = start_sleeper("other")
    time.sleep(0.2)
    lines: list[str] = []
    try:
        assert clean_command(store, cache, lines.append) == 0
        assert own_process.wait(10) == -9
        assert other_process.poll() is None
    finally:
        for process in (own_process, other_process):
            process.kill()
            process.wait()
    for path in own_files:
        assert not path.exists()
    for path in other_files:
        assert path.exists()
    assert f"process {own_process.pid}" in "\n".join(lines)
    refused = pytest.raises(UserError, match="is worked on by process")
    with run_lock(store.folder), refused:
        clean_command(store, cache, lines.append)


def test_a_provider_that_is_down_for_everybody_ends_the_run_and_nothing_is_lost(
    runner: Runner,
) -> None:
    overload = Answer(status=503, headers={"retry-after": "0"})
    runner.provider.will_answer(overload)
    run = replace(runner, ids=IDS)
    started = run.start(runner.live(), workers=3, give_up_after=4)
    assert started.code == 130
    assert "no model has answered for" in started.lines[-1]
    assert "3 left to do" in started.lines[-1]
    unfinished = runner.out.glob("logs/r/*.unfinished.json")
    statuses = {read_json(path)["status"] for path in unfinished}
    assert "interrupted" in statuses
    assert statuses <= {"interrupted", "infra_error"}
    # While it was paused, hardly anybody asked.
    assert len(runner.provider.requests) < 15
    runner.provider.answers.clear()
    runner.provider.will_answer(EDIT)
    assert run.start(runner.live()).code == 0


def test_a_server_that_never_loads_its_model_ends_the_run_of_one_worker(
    runner: Runner,
) -> None:
    loading = Answer(status=503, error={"message": "Loading model"})
    runner.provider.will_answer(loading)
    run = replace(runner, ids=IDS)
    started = run.start(runner.live(), workers=1, give_up_after=2)
    assert started.code == 130
    assert "no model has answered for" in started.lines[-1]
    assert "calls, the last: " in started.lines[-1]
    assert "Loading model" in started.lines[-1]
    assert "raise calls.give_up_after" in started.lines[-1]
    log = run.store.log_file.read_text()
    retries = [line for line in log.splitlines() if "asked again in" in line]
    assert retries
    assert all("Loading model" in line for line in retries)
    shown = [line for line in started.lines if "asked again in" in line]
    assert len(shown) == len(retries)


def test_many_workers_give_the_same_predictions_as_one(runner: Runner) -> None:
    run = replace(runner, ids=IDS)
    single = run.below("single")
    single.start(config(), workers=1)
    many = run.below("many")
    many.start(config(), workers=6)
    for name in IDS:
        by_single = single.store.prediction(name)
        by_many = many.store.prediction(name)
        assert by_single.read_bytes() == by_many.read_bytes()


def test_unpriced_models_need_a_price_or_leave(runner: Runner) -> None:
    unpriced = "no price is known for my-own: give --price my-own=IN,OUT"
    chosen = runner.live("my-own")
    limited = read_money(chosen.models, usd="1")
    for money in (Spending(), limited):
        with pytest.raises(UserError, match=unpriced) as error:
            runner.start(chosen, money=money)
        assert "\n" not in str(error.value)
    runner.provider.will_answer("textkit/slug.py", EDIT)
    prices: dict[str, Any] = {"prices": ["my-own=1,2"]}
    runner.start(chosen, prices)
    # 100 tokens in and 10 out, at 1 and 2 dollars per million.
    lines = runner.ledger()
    for line in lines:
        assert line.cost == Decimal("0.00012")
    assert len(lines) == len(runner.provider.requests)
    assert len(lines) > 1
    unlimited = r"longest reply of my-own is unknown.*models.max_output_tokens"
    budget = {**prices, "usd": "1"}
    other_run = runner.live("my-own", run="s")
    with pytest.raises(UserError, match=unlimited):
        runner.start(other_run, budget)


@pytest.mark.parametrize("status", [None, 3, ["error"], "error of theirs"])
def test_attempts_of_another_form_are_not_redone(status: object) -> None:
    redo = Redo.parse("error", ["other"], ("plausible",))

    def takes(attempt_status: object) -> bool:
        raw = {
            "instance_id": EMPTY,
            "status": "empty",
            "all_results": [{"status": attempt_status}],
        }
        result = InstanceResult.of_prediction(raw)
        return redo.takes(result, finished=True)

    assert not takes(status)
    assert takes("error")
