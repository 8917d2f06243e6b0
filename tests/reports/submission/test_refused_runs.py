"""Runs that cannot be packaged, and their messages."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import run_script
from tests.support.evaluated import (
    IDS,
    RESOLVED,
    Build,
    change_json,
    entry_of,
    write_verdicts,
)

Refusal = Callable[..., str]


def drop(run: Path, name: str) -> None:
    (run / f"{name}.json").unlink()


def unjudge(run: Path, name: str) -> None:
    (run / f"verdicts/{name}.json").unlink()


def test_an_incomplete_run_is_packaged_only_when_asked_for(
    build: Build, refusal: Refusal, run: Path
) -> None:
    drop(run, IDS[0])
    unjudge(run, IDS[1])
    refused = refusal()
    assert re.search(f"1 of the 6 .* no prediction, as {IDS[0]}.*partial", refused)
    code, folder, said = build(partial=True)
    assert code == 0, said
    assert json.loads((entry_of(folder) / "results/results.json").read_text()) == {
        "no_generation": [IDS[0]],
        "no_logs": [IDS[1]],
        "resolved": [IDS[2]],
    }
    assert "Without a patch: 1; without an evaluation's report: 1." in (
        entry_of(folder) / "README.md"
    ).read_text().replace("\n", " ")


def local(run: Path) -> None:
    write_verdicts(run, RESOLVED, "local")


def nothing_judged(run: Path) -> None:
    shutil.rmtree(run / "verdicts")


def one_not_judged(run: Path) -> None:
    unjudge(run, IDS[2])


def no_run_file(run: Path) -> None:
    (run / "run.json").unlink()


def no_transcript(run: Path) -> None:
    (run / f"{IDS[1]}.md").unlink()


def contradiction(run: Path) -> None:
    change_json(
        run.parent.parent / f"logs/r/{IDS[0]}.report.json",
        lambda data: data[IDS[0]].update(resolved=False),
    )


def broken_report(run: Path) -> None:
    (run.parent.parent / f"logs/r/{IDS[0]}.report.json").write_text("{}")


def other_dataset(run: Path) -> None:
    change_json(
        run / "run.json",
        lambda data: data["dataset"].update(name="SWE-bench/SWE-bench_Verified"),
    )


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (local, "evaluated by local, which is not official"),
        (nothing_judged, "the run is not evaluated"),
        (one_not_judged, "not evaluated: evaluate the run"),
        (no_run_file, "no run.json"),
        (no_transcript, "is missing: a package needs the trajectory"),
        (contradiction, "the verdict says resolved, but .* does not"),
        (broken_report, "is not a report on"),
        (other_dataset, "submit it with --split verified, not lite"),
    ],
)
def test_a_run_that_gives_no_package_leaves_nothing(
    spoil: Callable[[Path], None],
    said: str,
    refusal: Refusal,
    run: Path,
    tmp_path: Path,
) -> None:
    spoil(run)
    assert re.search(said, refusal(dataset=""))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["meta", "out"]


def test_a_package_that_is_there_is_not_written_over(
    build: Build, refusal: Refusal
) -> None:
    before = (entry_of(build()[1]) / "README.md").stat().st_mtime_ns
    assert "exists already" in refusal(name="Other")
    path = entry_of(build(place="other")[1])
    assert (path.parents[4] / "package").is_dir()
    assert (
        entry_of(path.parents[4] / "package") / "README.md"
    ).stat().st_mtime_ns == before


@pytest.mark.parametrize("words", [["package", "run", "d"], []])
def test_the_command_line_names_what_is_missing(
    words: list[str], tmp_path: Path
) -> None:
    result = run_script(*words, script="report.py", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
