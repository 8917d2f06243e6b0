"""Check that all ways to evaluate a patch agree: ``python -m benchmarks.verdict_table``.

    python -m benchmarks.verdict_table --rows instances.jsonl --mirrors MIRRORS --out DIR [ID...]

Gold patches are evaluated by ``swebench eval`` and by ``report.py --evaluator docker`` and
``local``. The regression tests run on the patches of recorded attempts, in Docker and locally. The
rows are those of ``benchmarks.instance_images``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.cli import run_cli
from bench.instances.instance import Instance, split_row
from bench.regression.suite import TestLimits
from bench.repos.mirrors import Mirrors
from benchmarks.evaluation_rows import Row
from benchmarks.instance_images import read_rows
from benchmarks.regression import TestBench, end_cleanly, word
from core.atomic import write_json_atomic
from core.errors import InfrastructureError, UserError
from core.worktree import Changes
from environments.base import EnvironmentKind, UnavailableError
from reports.evaluation.local import PatchError, apply_patches
from runs.modelsource import read_recording
from runs.patches import submittable_patch

_REPOSITORY = Path(__file__).resolve().parent.parent
_MODEL = "gold"
_NONE = "-"
_UNTESTED = "untested"


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on one patch by evaluator; ``-`` and ``untested`` are unknown."""

    patch: str
    by: Mapping[str, str]

    @property
    def agree(self) -> bool:
        """Whether all known verdicts are equal."""
        return (
            len({said for said in self.by.values() if said not in (_NONE, _UNTESTED)})
            <= 1
        )


def main(
    rows: Annotated[Path, typer.Option(help="Rows of benchmarks.instance_images.")],
    mirrors: Annotated[Path, typer.Option(help="Folder of bare mirrors.")],
    out: Annotated[Path, typer.Option(help="Folder for runs, logs and environments.")],
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids; default: all rows.")
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option(help="Folder of trajectories with recorded patches.")
    ] = None,
    gold: Annotated[bool, typer.Option(help="Evaluate the gold patches.")] = True,
    workers: Annotated[
        int, typer.Option(help="Number of parallel evaluations in Docker.")
    ] = 1,
    timeout: Annotated[
        int, typer.Option(help="Time limit of one instance's tests in seconds.")
    ] = 1800,
) -> None:
    """Print a table of verdicts; exit with 1 if two disagree."""
    end_cleanly()
    known = read_rows(rows)
    missing = [name for name in ids or () if name not in known]
    if missing:
        raise UserError(f"{rows} has no row {missing[0]}; give ids that it has")
    chosen = [known[name] for name in ids or known]
    out = out.expanduser().resolve()
    out.mkdir(parents=True, exist_ok=True)
    found: list[Verdicts] = []
    if gold:
        found += shown(Gold(out, mirrors.resolve(), workers, timeout).verdicts(chosen))
    if recorded is not None:
        place = TestBench(Mirrors(mirrors), out / "cache", TestLimits(300, 600))
        for row in chosen:
            found += shown(candidates(row, recorded, place))
    apart = [one.patch for one in found if not one.agree]
    print(
        f"{len(found)} patches, {len(apart)} evaluated differently: {', '.join(apart) or 'none'}"
    )
    sys.exit(bool(apart))


def shown(verdicts: Iterable[Verdicts]) -> Iterator[Verdicts]:
    """Print verdicts as they arrive."""
    for one in verdicts:
        said = "  ".join(
            f"{evaluator} {what:<10}" for evaluator, what in one.by.items()
        )
        print(f"{one.patch:<32} {said}{'' if one.agree else '  DISAGREE'}", flush=True)
        yield one


@dataclass(frozen=True)
class Gold:
    """Evaluates gold patches with the commands that a user would run."""

    out: Path
    mirrors: Path
    workers: int
    timeout: int

    def verdicts(self, rows: Sequence[Row]) -> Iterator[Verdicts]:
        """Yield the verdicts of swebench and ``report.py`` on the gold patches of ``rows``."""
        # Without a fixed test, right and wrong patches have the same results.
        fixed = [row for row in rows if row["FAIL_TO_PASS"]]
        for row in rows:
            if row not in fixed:
                print(
                    f"{row['instance_id']}: the gold patch fixes no test here; not evaluated"
                )
        if not fixed:
            return
        # Both commands keep verdicts and notice only changes of the patch.
        for name in (
            "swebench",
            *(f"{top}/{_MODEL}-*" for top in ("predictions", "logs")),
        ):
            for folder in self.out.glob(name):
                shutil.rmtree(folder)
        dataset = self.out / "gold.jsonl"
        dataset.write_text(
            "".join(f"{json.dumps(row)}\n" for row in fixed), encoding="utf-8"
        )
        by = {
            "swebench": self._swebench(dataset, fixed),
            "docker": self._report(dataset, fixed, "docker"),
            "local": self._report(dataset, fixed, "local"),
        }
        for row in fixed:
            name = row["instance_id"]
            yield Verdicts(
                f"{name} gold", {key: said[name] for key, said in by.items()}
            )

    def _swebench(self, dataset: Path, rows: Sequence[Row]) -> dict[str, str]:
        folder = self.out / "swebench"
        folder.mkdir(exist_ok=True)
        code = "from swebench.cli.cli import main; main()"
        options = ["--gold", "--run-id", _MODEL, "-j", self.workers, "-t", self.timeout]
        self._run(["-c", code, "eval", dataset, *options], folder, "swebench.log")
        return {row["instance_id"]: _said(folder, row["instance_id"]) for row in rows}

    def _report(
        self,
        dataset: Path,
        rows: Sequence[Row],
        evaluator: str,
    ) -> dict[str, str]:
        folder = self.out / "predictions" / f"gold-{evaluator}"
        for row in rows:
            name = row["instance_id"]
            prediction = {"model_name_or_path": _MODEL, "model_patch": row["patch"]}
            write_json_atomic(
                folder / f"{name}.json", {"instance_id": name, **prediction}
            )
        command = [_REPOSITORY / "report.py", folder, "--evaluator", evaluator]
        command += ["-d", dataset, "-w", self.workers]
        for setting in (
            f"folders.repos={self.mirrors}",
            f"folders.cache={self.out / 'cache'}",
            f"evaluation.timeout={self.timeout}",
            "report.page=false",
        ):
            command += ["--set", setting]
        self._run(command, _REPOSITORY, f"report-{evaluator}.log")
        verdicts = {row["instance_id"]: folder / "verdicts" for row in rows}
        return {
            name: _verdict(place / f"{name}.json") for name, place in verdicts.items()
        }

    def _run(
        self,
        argv: Sequence[object],
        cwd: Path,
        log: str,
    ) -> None:
        """Run Python; the table shows a missing verdict if it fails."""
        with (self.out / log).open("wb") as output:
            words = [sys.executable, *map(str, argv)]
            subprocess.run(
                words, cwd=cwd, stdout=output, stderr=subprocess.STDOUT, check=False
            )


def _said(folder: Path, name: str) -> str:
    report = next(folder.glob(f"**/{_MODEL}/{name}/report.json"), None)
    if report is None:
        return _NONE
    if json.loads(report.read_text())[name]["resolved"]:
        return "resolved"
    return "unresolved"


def _verdict(path: Path) -> str:
    status = _NONE
    if path.is_file():
        status = str(json.loads(path.read_text())["status"])
    if status in ("resolved", "unresolved"):
        return status
    return _NONE


def candidates(row: Row, recorded: Path, place: TestBench) -> Iterator[Verdicts]:
    """Yield the regression tests' results on the recorded attempts' patches by environment."""
    instance, _ = split_row(row)
    path = recorded / f"{instance.instance_id}.json"
    if not path.is_file():
        return
    attempts = read_recording(path)
    patches = {number: attempt.model_patch for number, attempt in attempts.items()}
    changes = {
        number: _changes(instance, patch, place) for number, patch in patches.items()
    }
    kinds = (EnvironmentKind.DOCKER, EnvironmentKind.LOCAL)
    by = {kind: _outcomes(instance, kind, changes, place) for kind in kinds}
    for number in changes:
        said = {kind.value: by[kind][number] for kind in kinds}
        yield Verdicts(f"{instance.instance_id} {number}", said)


def _changes(instance: Instance, patch: str, place: TestBench) -> Changes | None:
    """Return the files that a patch changes, without excluded files."""
    place.work.mkdir(parents=True, exist_ok=True)
    try:
        with place.checkout(instance) as base:
            return apply_patches(base, [submittable_patch(patch).patch])
    except PatchError:
        return None


def _outcomes(
    instance: Instance,
    kind: EnvironmentKind,
    changes: Mapping[int, Changes | None],
    place: TestBench,
) -> dict[int, str]:
    try:
        with place.tests_of(instance, kind) as checks:
            return {
                n: word(checks.outcome(c)) if c else _NONE for n, c in changes.items()
            }
    except (UnavailableError, InfrastructureError) as error:
        print(f"{instance.instance_id} {kind.value}: {error}", flush=True)
        return dict.fromkeys(changes, _NONE)


if __name__ == "__main__":
    sys.exit(run_cli(main, "benchmarks.verdict_table"))
