"""Whether all ways to evaluate a patch agree, against the verdicts of ``swebench eval``.

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

from benchmarks.instance_images import read_rows
from benchmarks.regression import TestBench, end_cleanly, word
from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import EnvironmentKind, UnavailableError
from swe_retry.instances.instance import Instance
from swe_retry.instances.split import split_row
from swe_retry.launch.program import Program
from swe_retry.record.patches import submittable_patch
from swe_retry.report.evaluation.trees import PatchError, apply_patch
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.runner.modelsource import read_recording
from swe_retry.testing.testsettings import Tests

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
        return len(set(self.by.values()) - {_NONE, _UNTESTED}) <= 1


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
    row_by_id = read_rows(rows)
    for name in ids or ():
        if name not in row_by_id:
            raise UserError(f"{rows} has no row {name}; give ids that it has")
    chosen = [row_by_id[name] for name in ids or row_by_id]
    out = out.expanduser().resolve()
    out.mkdir(parents=True, exist_ok=True)
    table: list[Verdicts] = []
    if gold:
        evaluation = Gold(out, mirrors.resolve(), workers, timeout)
        table += print_each(evaluation.verdicts(chosen))
    if recorded is not None:
        limits = Tests(timeout=300, baseline_timeout=600)
        bench = TestBench(Mirrors(mirrors), out / "cache", limits)
        for row in chosen:
            table += print_each(candidates(row, recorded, bench))
    differing = [verdicts.patch for verdicts in table if not verdicts.agree]
    names = ", ".join(differing) or "none"
    print(f"{len(table)} patches, {len(differing)} evaluated differently: {names}")
    sys.exit(bool(differing))


def print_each(table: Iterable[Verdicts]) -> Iterator[Verdicts]:
    """Print verdicts as they arrive."""
    for verdicts in table:
        cells = []
        for evaluator, verdict in verdicts.by.items():
            cells.append(f"{evaluator} {verdict:<10}")
        if not verdicts.agree:
            cells.append("DISAGREE")
        print(f"{verdicts.patch:<32} {'  '.join(cells)}", flush=True)
        yield verdicts


@dataclass(frozen=True)
class Gold:
    """Evaluates gold patches with the commands that a user would run."""

    out: Path
    mirrors: Path
    workers: int
    timeout: int

    def verdicts(self, rows: Sequence[JsonObject]) -> Iterator[Verdicts]:
        """Yield the verdicts of swebench and ``report.py`` on the gold patches of ``rows``."""
        # Without a fixed test, right and wrong patches have the same results.
        fixed = [row for row in rows if row["FAIL_TO_PASS"]]
        for row in rows:
            if row not in fixed:
                name = row["instance_id"]
                print(f"{name}: the gold patch fixes no test here; not evaluated")
        if not fixed:
            return
        # Both commands keep verdicts and notice only changes of the patch.
        for pattern in ("swebench", f"predictions/{_MODEL}-*", f"logs/{_MODEL}-*"):
            for folder in self.out.glob(pattern):
                shutil.rmtree(folder)
        dataset = self.out / "gold.jsonl"
        lines = "".join(f"{json.dumps(row)}\n" for row in fixed)
        dataset.write_text(lines, encoding="utf-8")
        swebench = self._run_swebench(dataset)
        reports = {}
        for evaluator in ("docker", "local"):
            reports[evaluator] = self._run_report(dataset, fixed, evaluator)
        for row in fixed:
            name = row["instance_id"]
            verdicts = {"swebench": _swebench_verdict(swebench, name)}
            for evaluator, folder in reports.items():
                verdicts[evaluator] = _verdict(folder / "verdicts" / f"{name}.json")
            yield Verdicts(f"{name} gold", verdicts)

    def _run_swebench(self, dataset: Path) -> Path:
        """Return the folder with the reports."""
        folder = self.out / "swebench"
        folder.mkdir(exist_ok=True)
        code = "from swebench.cli.cli import main; main()"
        options = ["--gold", "--run-id", _MODEL, "-j", self.workers, "-t", self.timeout]
        self._run(["-c", code, "eval", dataset, *options], folder, "swebench.log")
        return folder

    def _run_report(
        self, dataset: Path, rows: Sequence[JsonObject], evaluator: str
    ) -> Path:
        """Return the folder of the run."""
        folder = self.out / "predictions" / f"{_MODEL}-{evaluator}"
        for row in rows:
            prediction = {
                "instance_id": row["instance_id"],
                "model_name_or_path": _MODEL,
                "model_patch": row["patch"],
            }
            write_json_atomic(folder / f"{row['instance_id']}.json", prediction)
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
        return folder

    def _run(self, arguments: Sequence[object], cwd: Path, log: str) -> None:
        """Run Python; the table shows a missing verdict if it fails."""
        argv = [sys.executable, *map(str, arguments)]
        with (self.out / log).open("wb") as output:
            subprocess.run(
                argv,
                cwd=cwd,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )


def _swebench_verdict(folder: Path, name: str) -> str:
    for path in folder.glob(f"**/{_MODEL}/{name}/report.json"):
        report = json.loads(path.read_text())
        if report[name]["resolved"]:
            return "resolved"
        return "unresolved"
    return _NONE


def _verdict(path: Path) -> str:
    if path.is_file():
        content = json.loads(path.read_text())
        status = str(content["status"])
        if status in ("resolved", "unresolved"):
            return status
    return _NONE


def candidates(row: JsonObject, recorded: Path, bench: TestBench) -> Iterator[Verdicts]:
    """Yield the regression tests' results on the recorded attempts' patches by environment."""
    instance, _ = split_row(row)
    path = recorded / f"{instance.instance_id}.json"
    if not path.is_file():
        return
    changes = {}
    for number, attempt in read_recording(path).items():
        changes[number] = _changes(instance, attempt.model_patch, bench)
    outcomes = {}
    for kind in (EnvironmentKind.DOCKER, EnvironmentKind.LOCAL):
        outcomes[kind.value] = _outcomes(instance, kind, changes, bench)
    for number in changes:
        verdicts = {name: by_number[number] for name, by_number in outcomes.items()}
        yield Verdicts(f"{instance.instance_id} {number}", verdicts)


def _changes(instance: Instance, patch: str, bench: TestBench) -> Changes | None:
    """Return the files that a patch changes, without excluded files."""
    bench.work.mkdir(parents=True, exist_ok=True)
    try:
        with bench.checkout(instance) as base:
            return apply_patch(base, submittable_patch(patch).patch)
    except PatchError:
        return None


def _outcomes(
    instance: Instance,
    kind: EnvironmentKind,
    changes: Mapping[int, Changes | None],
    bench: TestBench,
) -> dict[int, str]:
    outcomes = dict.fromkeys(changes, _NONE)
    try:
        with bench.tests_of(instance, kind) as checks:
            for number, changed_files in changes.items():
                if changed_files:
                    outcomes[number] = word(checks.outcome(changed_files))
    except (UnavailableError, InfrastructureError) as error:
        print(f"{instance.instance_id} {kind.value}: {error}", flush=True)
        return dict.fromkeys(changes, _NONE)
    return outcomes


if __name__ == "__main__":
    sys.exit(Program(module="benchmarks.verdict_table", default=main).main())
