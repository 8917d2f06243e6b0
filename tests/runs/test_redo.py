"""--redo, --status, --clean and --json on real runs; a provider that is down for everybody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.attempts import RESULTS
from bench.cli.commands import run_command
from core.errors import UserError
from core.processes import RUN_VARIABLE
from core.shutdown import Shutdown
from runs.calls.ledger import read_ledger, total
from runs.leftovers import run_key
from runs.records import InstanceResult
from runs.redo import Redo, prepare_redo
from runs.session import make_coordinator, model_use
from runs.storage.runlock import run_lock
from runs.storage.store import RunStore
from runs.upkeep import clean_command, status_command
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, IDS, config, live, options, read, read_money

PLAUSIBLE = "demo__textkit-1"
NOT = "demo__bank-1"


def both(provider: Provider) -> None:
    """Let the first instance succeed, and every attempt at the second fail."""
    provider.will_answer("textkit/slug.py", EDIT, "bank/accounts.py", EDIT)


def test_exactly_what_is_named_is_redone_and_the_old_files_are_kept(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    both(provider)
    run_command(
        live(provider), options(tmp_path, cache, PLAUSIBLE, NOT), lambda _: None
    )
    first = [read(tmp_path, name) for name in (PLAUSIBLE, NOT)]
    assert [p["status"] for p in first] == ["plausible", "empty"]
    before = len(provider.requests)
    spent = total(read_ledger(RunStore(tmp_path, "r").ledger).values)
    said: list[str] = []
    again = options(tmp_path, cache, PLAUSIBLE, NOT, redo="not_plausible")
    run_command(live(provider), again, said.append)
    assert "2 instances selected, 1 to redo" in said[0]
    assert read(tmp_path, PLAUSIBLE) == first[0]
    assert read(tmp_path, NOT)["status"] == "empty"
    # Fresh replies were bought, and both times stand in the ledger.
    assert len(provider.requests) > before
    kept = json.loads(
        (tmp_path / f"predictions/r/replaced/{NOT}.1/prediction.json").read_text()
    )
    assert kept == first[1]
    now = total(read_ledger(RunStore(tmp_path, "r").ledger).values)
    assert spent is not None and now is not None and now > spent
    assert len(list(RunStore(tmp_path, "r").journals.glob(f"{NOT}*.jsonl"))) == 2


@pytest.mark.parametrize(
    ("words", "redone"),
    [
        ("empty", [NOT]),
        ("plausible", [PLAUSIBLE]),
        (f"{PLAUSIBLE},{NOT}", [PLAUSIBLE, NOT]),
        ("infra_error,budget", []),
    ],
)
def test_statuses_and_ids(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    words: str,
    redone: list[str],
) -> None:
    both(provider)
    run_command(
        live(provider), options(tmp_path, cache, PLAUSIBLE, NOT), lambda _: None
    )
    run_command(
        live(provider),
        options(tmp_path, cache, PLAUSIBLE, NOT, redo=words),
        lambda _: None,
    )
    folder = tmp_path / "predictions/r/replaced"
    found = sorted(p.name for p in folder.iterdir()) if folder.exists() else []
    assert found == sorted(f"{name}.1" for name in redone)


@pytest.mark.parametrize("words", [f"{PLAUSIBLE},{NOT}", "plausible,empty"])
def test_a_redo_that_was_killed_goes_on_with_what_it_had_not_redone(
    tmp_path: Path, cache: Path, provider: Provider, words: str
) -> None:
    both(provider)
    run_command(
        live(provider), options(tmp_path, cache, PLAUSIBLE, NOT), lambda _: None
    )
    store = RunStore(tmp_path, "r")
    run = options(tmp_path, cache)
    use = model_use(live(provider), run.money)
    coordinator = make_coordinator(store, run, use, Shutdown(), lambda _: None)
    redo = Redo.parse(words, [PLAUSIBLE, NOT], RESULTS)
    assert prepare_redo(store, coordinator, redo, [PLAUSIBLE, NOT]) == [PLAUSIBLE, NOT]
    # As if the process had died here: one instance is done again, the other is not.
    provider.answers.clear()
    both(provider)
    run_command(live(provider), options(tmp_path, cache, PLAUSIBLE), lambda _: None)
    done = store.prediction(PLAUSIBLE).stat()
    said: list[str] = []
    again = options(tmp_path, cache, PLAUSIBLE, NOT, redo=words)
    run_command(live(provider), again, said.append)
    assert "2 instances selected, 1 to redo" in said[0]
    assert store.prediction(PLAUSIBLE).stat().st_ino == done.st_ino
    assert len(list((store.folder / "replaced").iterdir())) == 2
    # It has come to its end: the same command starts again.
    run_command(live(provider), again, said.append)
    assert len(list((store.folder / "replaced").iterdir())) == 4


def test_a_redo_that_was_killed_while_it_put_files_aside_puts_the_rest_aside(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both(provider)
    run_command(
        live(provider), options(tmp_path, cache, PLAUSIBLE, NOT), lambda _: None
    )
    store = RunStore(tmp_path, "r")
    run = options(tmp_path, cache)
    use = model_use(live(provider), run.money)
    coordinator = make_coordinator(store, run, use, Shutdown(), lambda _: None)
    redo = Redo.parse("plausible,empty", [], RESULTS)
    put_aside = RunStore.put_aside

    def dying(self: RunStore, instance_id: str) -> None:
        if instance_id == NOT:
            raise KeyboardInterrupt
        put_aside(self, instance_id)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RunStore, "put_aside", dying)
        prepare_redo(store, coordinator, redo, [PLAUSIBLE, NOT])
    assert prepare_redo(store, coordinator, redo, [PLAUSIBLE, NOT]) == [PLAUSIBLE, NOT]
    assert not list(store.prediction_paths())


def test_a_word_that_is_no_status_is_refused(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(UserError, match="--redo 'emty': give not_plausible, plausible"):
        run_command(
            config(), options(tmp_path, cache, *IDS, redo="emty"), lambda _: None
        )


def test_another_configuration_puts_nothing_aside(tmp_path: Path, cache: Path) -> None:
    run_command(config(), options(tmp_path, cache, *IDS), lambda _: None)
    with pytest.raises(UserError, match="different settings"):
        run_command(
            config(tries=2), options(tmp_path, cache, *IDS, redo=IDS[0]), lambda _: None
        )
    assert not (tmp_path / "predictions/r/replaced").exists()


def test_the_table_of_a_run_adds_up_to_the_ledger(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    both(provider)
    run_command(
        live(provider), options(tmp_path, cache, PLAUSIBLE, NOT), lambda _: None
    )
    said: list[str] = []
    assert status_command(RunStore(tmp_path, "r"), said.append, as_json=True) == 0
    table = json.loads(said[0])
    assert table["statuses"]["plausible"]["instances"] == 1
    lines = list(read_ledger(RunStore(tmp_path, "r").ledger).values)
    assert Decimal(table["total"]["dollars"]) == total(lines)
    assert len(lines) == len(provider.requests)


def test_a_summary_for_machines(tmp_path: Path, cache: Path) -> None:
    said: list[str] = []
    run_command(config(), options(tmp_path, cache, *IDS, as_json=True), said.append)
    summary = json.loads(said[-1])
    assert (summary["exit_code"], summary["unfinished"]) == (0, [])
    assert sum(summary["counts"].values()) == len(IDS)


def test_clean_removes_what_a_run_left_and_only_that(tmp_path: Path) -> None:
    # Not that of all tests, in which others expect no leftovers.
    cache = tmp_path / "cache"
    store = RunStore(tmp_path, "r")
    store.folder.mkdir(parents=True)
    key = run_key(store.folder)
    mine = (store.folder / ".x.json.abc.tmp", cache / "work" / key / "demo.1" / "file")
    others = (store.folder / "x.json", cache / "work/other/file")
    for path in (*mine, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    started = []
    for env in (
        {**os.environ, RUN_VARIABLE: key},
        {**os.environ, RUN_VARIABLE: "other"},
    ):
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(60)"], env=env
            )
        )
    time.sleep(0.2)
    said: list[str] = []
    try:
        assert clean_command(store, cache, said.append) == 0
        assert started[0].wait(10) == -9
        assert started[1].poll() is None
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert not any(path.exists() for path in mine)
    assert all(path.exists() for path in others)
    assert any(f"process {started[0].pid}" in line for line in said)
    with (
        run_lock(store.folder),
        pytest.raises(UserError, match="is worked on by process"),
    ):
        clean_command(store, cache, said.append)


def test_a_provider_that_is_down_for_everybody_ends_the_run_and_nothing_is_lost(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(Answer(status=503, headers={"retry-after": "0"}))
    said: list[str] = []
    run = options(tmp_path, cache, *IDS, workers=3, give_up_after=4)
    assert run_command(live(provider), run, said.append) == 130
    assert "no model has answered for" in said[-1] and "3 left to do" in said[-1]
    statuses = []
    for path in tmp_path.glob("logs/r/*.unfinished.json"):
        statuses.append(json.loads(path.read_text())["status"])
    assert set(statuses) <= {"interrupted", "infra_error"} and "interrupted" in statuses
    asked = len(provider.requests)
    # While it was paused, hardly anybody asked.
    assert asked < 15
    provider.answers.clear()
    both(provider)
    assert run_command(live(provider), options(tmp_path, cache, *IDS), said.append) == 0


def test_many_workers_give_the_same_predictions_as_one(
    tmp_path: Path, cache: Path
) -> None:
    for name, workers in (("one", 1), ("many", 6)):
        run = options(tmp_path / name, cache, *IDS, workers=workers)
        run_command(config(), run, lambda _: None)
    for name in IDS:
        one, many = (
            tmp_path / n / f"predictions/r/{name}.json" for n in ("one", "many")
        )
        assert one.read_bytes() == many.read_bytes()


def test_unpriced_models_need_a_price_or_leave(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:

    from bench.config import ModelChoice
    from runs.settings import Spending

    mine = (ModelChoice.parse("my-own", any_name=True),)
    run: dict[str, Any] = {"money": Spending()}
    with pytest.raises(
        UserError, match="no price is known for my-own: give --price my-own=IN,OUT"
    ):
        run_command(
            live(provider, models=mine),
            options(tmp_path, cache, PLAUSIBLE, **run),
            lambda _: None,
        )
    provider.will_answer("textkit/slug.py", EDIT)
    run = {"money": read_money(mine, prices=["my-own=1,2"])}
    run_command(
        live(provider, models=mine),
        options(tmp_path, cache, PLAUSIBLE, **run),
        lambda _: None,
    )
    # 100 tokens in and 10 out, at 1 and 2 dollars per million.
    assert {
        line.cost for line in read_ledger(RunStore(tmp_path, "r").ledger).values
    } == {Decimal("0.00012")}
    with pytest.raises(
        UserError, match=r"longest reply of my-own is unknown.*models.max_output_tokens"
    ):
        limited = read_money(mine, prices=["my-own=1,2"], usd="1")
        run_command(
            live(provider, models=mine, run="s"),
            options(tmp_path, cache, PLAUSIBLE, money=limited),
            lambda _: None,
        )


def test_predictions_that_lack_attempts_or_a_status_are_redone_as_their_outcomes_say(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    both(provider)
    run_command(
        live(provider), options(tmp_path, cache, PLAUSIBLE, NOT), lambda _: None
    )
    store = RunStore(tmp_path, "r")
    for name in (PLAUSIBLE, NOT):
        whole = read(tmp_path, name)
        kept = {}
        for key in whole:
            if key not in ("all_results", "status"):
                kept[key] = whole[key]
        store.prediction(name).write_text(json.dumps({**kept, "test_outcome": True}))
    said: list[str] = []
    again = options(tmp_path, cache, PLAUSIBLE, NOT, redo="not_plausible")
    run_command(live(provider), again, said.append)
    assert "2 instances selected, 1 to redo" in said[0]
    assert [path.name for path in (store.folder / "replaced").iterdir()] == [f"{NOT}.1"]
    assert read(tmp_path, NOT)["status"] == "empty"


@pytest.mark.parametrize("status", [None, 3, ["error"], "error of theirs"])
def test_attempts_of_another_form_are_not_redone(status: object) -> None:
    redo = Redo.parse("error", ["other"], ("plausible",))
    results = [{"status": status}]
    raw = {"instance_id": NOT, "status": "empty", "all_results": results}
    result = InstanceResult.of_prediction(raw)
    assert not redo.takes(result, finished=True)
    error = InstanceResult.of_prediction({**raw, "all_results": [{"status": "error"}]})
    assert redo.takes(error, finished=True)
