"""Runs of others work in every report, and our runs come back from the layouts of others."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from report import SUBCOMMANDS, main
from reports.data.rundata import read_run
from reports.data.verdicts import VerdictStatus
from reports.foreign.export import export_command
from reports.foreign.importing import import_run
from reports.foreign.layouts import ExportLayout
from reports.foreign.model import steps_by_lane, totals_of_call
from reports.foreign.recognise import read_any
from reports.submission.commands import package_command
from runs.storage.store import RunStore
from tests.reports.foreign.test_reading import ONE, SAMPLES, TALK, preds
from tests.support.evaluated import demo, package_options, write_meta, write_verdicts
from tests.support.foreign import (
    CRASHED,
    NAME,
    PATCH,
    RESOLVED,
    WRONG,
    Talk,
    Turn,
    atif,
    mini,
)

Report = Callable[..., tuple[int, str, str]]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def report(
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Report:
    """Run ``report.py`` in this process; return exit code, output and error output."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr("reports.subcommands.TOP", tmp_path / "out")
        common = []
        if words[0] not in SUBCOMMANDS:
            common = ["--set", f"folders.cache={cache}"]
            common += ["--set", f"folders.out={tmp_path / 'out'}"]
        monkeypatch.setattr(sys, "argv", ["report.py", *map(str, words), *common])
        code = main()
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


IN_EVERY_LAYOUT = (
    "attempt",
    "try_",
    "label",
    "patch",
    "patch_known",
    "status",
    "outcomes",
    "sums",
    "seconds",
    "error",
    "reflections",
    "edit_format",
    "added_files",
)
"""What an export keeps of an attempt of ours, beside its conversation."""


def plain(path: Path) -> dict[str, Any]:
    """Return what every layout keeps of the instances of a run, by id."""
    instances = {}
    for instance in read_any(path).instances:
        winner = instance.winner
        head = {
            "label": instance.model_name_or_path,
            "winner": winner and winner.attempt,
            "patch": instance.patch,
            "resolved": instance.resolved_said,
            "reason": instance.reason,
            "status": instance.status,
        }
        attempts = []
        for attempt in instance.attempts:
            values = {name: getattr(attempt, name) for name in IN_EVERY_LAYOUT}
            steps = []
            for lane in steps_by_lane(attempt).values():
                for step in lane:
                    totals = totals_of_call(step.call)
                    steps.append((step.message, step.answers, totals))
            attempts.append({**values, "steps": steps})
        instances[instance.instance_id] = {**head, "attempts": attempts}
    return instances


@pytest.mark.parametrize("layout", ExportLayout)
def test_an_exported_run_comes_back_with_the_same_attempts(
    layout: ExportLayout, ours: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    assert export_command(ours, layout, tmp_path / "run", said.append) == 0
    before = plain(ours)
    assert plain(tmp_path / "run") == before
    assert max(len(i["attempts"]) for i in before.values()) == 6
    # As a run of ours again, it has the same predictions, costs and outcomes.
    store = import_run(tmp_path / "run", tmp_path / "out", said.append)
    first, second = (
        read_run(RunStore.of_folder(folder), demo().rows)
        for folder in (ours, store.folder)
    )
    for a, b in zip(first.instances, second.instances, strict=True):
        assert (a.patch, a.plausible, a.status) == (b.patch, b.plausible, b.status)
        for one, other in zip(a.attempts, b.attempts, strict=True):
            for name in ("outcomes", "status", "cost", "sums", "seconds", "error"):
                assert getattr(one, name) == getattr(other, name)
            assert one.reflections == other.reflections
            assert one.edit_format == other.edit_format
    assert first.cost == second.cost
    with pytest.raises(UserError, match="run exists"):
        export_command(ours, layout, tmp_path / "run", said.append)


@pytest.mark.parametrize("layout", ExportLayout)
def test_a_run_of_others_is_exported_too(layout: ExportLayout, tmp_path: Path) -> None:
    export_command(SAMPLES / "mini", layout, tmp_path / "run", lambda _: None)
    assert plain(tmp_path / "run") == plain(SAMPLES / "mini")


def test_counts_costs_and_patches_are_those_of_the_originals(
    report: Report, tmp_path: Path
) -> None:
    code, out, _ = report(
        SAMPLES / "mini", "--evaluator", "none", "--set", "report.page=false"
    )
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert (
        lines[0]
        == f"imported 3 instances of mini-swe-agent: {tmp_path}/out/predictions/mini"
    )
    for expected in (
        "generated 2",
        "no generation 1",
        "plausible – unknown: the other harness does not say",
        "cost $0.0174",
    ):
        assert expected in lines
    path = tmp_path / "out/predictions/mini/all_preds.jsonl"
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert {w["instance_id"]: w for w in written} == json.loads(
        (SAMPLES / "mini/preds.json").read_text()
    )
    words = ("--evaluator", "none", "--set", "report.page=false", "--format", "json")
    _, out, _ = report(SAMPLES / "mini", *words)
    effort = json.loads(out)["effort"]
    assert (effort["calls"]["known"], effort["calls"]["complete"]) == (7, True)
    assert (effort["cached_tokens"]["known"], effort["cached_tokens"]["complete"]) == (
        0,
        False,
    )


def test_nothing_is_dropped_from_a_patch_of_others(tmp_path: Path) -> None:
    tests = PATCH.replace("a.py", "tests/test_a.py")
    folder = mini(Talk(TALK.turns, patch=PATCH + tests), tmp_path / "run")
    store = import_run(folder, tmp_path / "out", lambda _: None)
    (instance,) = read_run(store).instances
    assert instance.patch == instance.attempts[0].patch == PATCH + tests


def test_an_import_is_kept_until_its_files_change(
    report: Report, tmp_path: Path
) -> None:
    folder = tmp_path / "theirs"
    shutil.copytree(SAMPLES / "mini", folder)
    store = import_run(folder, tmp_path / "out", lambda _: None)
    write_verdicts(store.folder, [RESOLVED])
    said: list[str] = []
    assert import_run(folder, tmp_path / "out", said.append).folder == store.folder
    assert said == []
    shutil.rmtree(folder / WRONG)
    preds = json.loads((folder / "preds.json").read_text())
    del preds[WRONG]
    (folder / "preds.json").write_text(json.dumps(preds))
    import_run(folder, tmp_path / "out", said.append)
    assert said == [f"imported 2 instances of mini-swe-agent: {store.folder}"]
    run = read_run(store)
    assert [(i.instance_id, i.resolved) for i in run.instances] == [
        (RESOLVED, True),
        (CRASHED, False),
    ]
    other = mini(TALK, tmp_path / "x/theirs")
    code, _, error = report(other, "--evaluator", "none")
    assert code == 2
    assert "is not the import of" in error


def test_no_text_of_others_becomes_html_or_a_command(
    report: Report, tmp_path: Path
) -> None:
    turn = Turn(HOSTILE, f"touch {tmp_path}/ran", HOSTILE)
    folder = mini(
        Talk((turn,), prompt=HOSTILE, patch=PATCH + HOSTILE), tmp_path / "run"
    )
    assert report(folder, "--evaluator", "none")[0] == 0
    pages = [
        p.read_text() for p in (tmp_path / "out/predictions/run/report").rglob("*.html")
    ]
    assert len(pages) == 2
    assert any("alert(1)" in page for page in pages)
    assert not any(HOSTILE in page for page in pages)
    assert not (tmp_path / "ran").exists()


def test_comparison_with_ours(report: Report, ours: Path, tmp_path: Path) -> None:
    mine = tmp_path / "out/predictions/mine"
    shutil.copytree(ours, mine)
    write_verdicts(mine, [WRONG])
    theirs = import_run(SAMPLES / "mini", tmp_path / "out", lambda _: None)
    write_verdicts(theirs.folder, [RESOLVED])
    code, out, _ = report("compare", mine, SAMPLES / "mini")
    assert code == 0
    assert "## mine and mini" in out
    assert RESOLVED in out.partition("## mine and mini")[2]
    code, out, _ = report("combine", mine, SAMPLES / "mini", "--name", "both")
    both = tmp_path / "out/predictions/both"
    assert (code, out.splitlines()[-1]) == (0, f"report on it: report.py {both}")
    assert report(both, "--evaluator", "none", "--set", "report.page=false")[0] == 0


def test_what_a_layout_does_not_hold_is_unknown(report: Report, tmp_path: Path) -> None:
    folder = atif(TALK, tmp_path / "theirs")
    (folder / "trial/result.json").write_text(
        json.dumps({"task_name": NAME, "verifier_result": {"rewards": {"reward": 1.0}}})
    )
    code, out, _ = report(folder, "--evaluator", "none")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "patch unknown 1" in lines
    assert "resolved 1 100.0 % of the selected" in lines
    run = read_run(RunStore.of_folder(tmp_path / "out/predictions/theirs"))
    assert run.instances[0].patch_known is False
    assert (
        tmp_path / "out/predictions/theirs/all_preds.jsonl"
    ).read_text().strip() == ""
    verdict = run.instances[0].verdict
    assert verdict is not None
    assert (verdict.status, verdict.official) == (VerdictStatus.RESOLVED, False)
    alone = preds(tmp_path / "alone", [ONE])
    _, out, _ = report(alone, "--evaluator", "none", "--set", "report.page=false")
    assert "cost           unknown" in out


def test_a_package_of_a_run_of_others(tmp_path: Path, cache: Path) -> None:
    store = import_run(SAMPLES / "mini", tmp_path / "out", lambda _: None)
    write_verdicts(store.folder, [RESOLVED])
    meta = write_meta(tmp_path / "meta", {})
    options = package_options("lite", meta, cache, dataset="demo", allow_partial=True)
    said: list[str] = []
    # Whether hints and test knowledge were used, only the authors can say.
    assert (
        package_command(store.folder, tmp_path / "package", options, said.append) == 1
    )
    assert [line.partition("README.md: ")[2] for line in said[3:-1]] == [
        "a box of the checklist is open; check it"
    ]
    readme = next((tmp_path / "package").rglob("README.md")).read_text()
    assert "[x]" not in readme
    assert "another harness (mini-swe-agent)" in readme


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["convert", "FILE"], "Missing argument 'layout'"),
        (["FILE"], "trajectories of mini-swe-agent"),
    ],
)
def test_wrong_requests_give_one_line(
    words: list[str], error: str, report: Report, tmp_path: Path
) -> None:
    (tmp_path / "file.json").write_text("[1]")
    places: dict[str, Any] = {"FILE": tmp_path / "file.json"}
    code, out, said = report(*(places.get(word, word) for word in words))
    assert (code, out) == (2, "")
    assert error in said
    assert said.count("\n") == 1
