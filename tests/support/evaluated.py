"""Demo runs with patches to evaluate or verdicts like those of swebench, and their packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import yaml

from swe_retry.core.errors import UserError
from swe_retry.core.settings import settings_of
from swe_retry.core.sources import SourcedValue, check_settings
from swe_retry.demo.setup import build_mirrors
from swe_retry.environments.base import EnvironmentKind
from swe_retry.instances.dataset import Dataset, load_dataset
from swe_retry.instances.split import split_row
from swe_retry.record.description import DatasetFacts, Run
from swe_retry.record.store import RunStore
from swe_retry.report.evaluation.evaluate import RunEvaluation
from swe_retry.report.evaluation.evaluation_settings import (
    EvaluatorKind,
    ReportSettings,
)
from swe_retry.report.evaluation.evaluator import EvaluationTask, Evaluator
from swe_retry.report.package.commands import SPLITS, package_command
from swe_retry.report.pages.tables import run_tables
from swe_retry.report.report import report_command
from swe_retry.report.statistics.collect import collect
from swe_retry.report.statistics.denominators import split_of
from swe_retry.report.statsfile import stats_json
from swe_retry.results.predictions import Prediction, all_preds
from swe_retry.results.read import read_predictions, read_run
from swe_retry.results.rundata import rounds
from swe_retry.results.verdicts import Verdict, VerdictStatus, save_verdict
from swe_retry.runner.settings import FolderSettings
from tests.support import change_json as change_json
from tests.support import read_json, write_json
from tests.support.runs import config, options
from tests.support.start import run_command

META: dict[str, Any] = {
    "name": "Retry harness",
    "date": "2026-01-31",
    "folder": "retry_scripted",
    "site": "https://example.org/harness",
    "report": "https://example.org/report",
    "authors": ["A. Author", "B. Author"],
    "first_author_site": "https://example.org/~a",
    "affiliations": ["University of Examples"],
    "logo": "picture.svg",
    "model": ["scripted-a", "scripted-b"],
    "org": "Example",
    "os_model": False,
    "os_system": True,
    "agent": "Retry harness",
    "agent_org": "Example",
    "model_display": "Scripted",
    "model_org": "Nobody",
    "artifacts": "https://example.org/artifacts",
    "web_browsing": False,
}


def demo() -> Dataset:
    """The six demo instances."""
    return load_dataset("demo", "test")


def replay_demo(out: Path, cache: Path) -> Path:
    """Replay the demo without running tests and return the run's folder."""
    chosen = config(environment=EnvironmentKind.NONE, all_attempts=True)
    run = options(out, cache, repos=build_mirrors(cache / "demo-mirrors"))
    assert run_command(chosen, run, lambda _: None) == 0
    return out / "predictions" / "r"


def write_verdicts(
    folder: Path,
    resolved: Collection[str],
    evaluator: str = "docker",
) -> None:
    """Write a verdict, a report and a test output for every prediction with a patch."""
    store = RunStore.of_folder(folder)
    for prediction in read_predictions(store):
        name = prediction.instance_id
        if not prediction.patch:
            continue
        status = VerdictStatus.UNRESOLVED
        if name in resolved:
            status = VerdictStatus.RESOLVED
        report = {
            name: {"resolved": name in resolved, "patch_successfully_applied": True}
        }
        verdict = Verdict(
            instance_id=name,
            status=status,
            evaluator=evaluator,
            log=whole_output(f"PASSED {name}\n"),
            report=report,
        )
        save_verdict(store, prediction, verdict, None)


def whole_output(tests: str) -> str:
    """Return what the script of an instance prints with the output of its tests."""
    return f">>>>> Start Test Output\n{tests}>>>>> End Test Output\n>>>>> Test Exit Code: 0\n"


def write_other_verdicts(
    store: RunStore, status: VerdictStatus = VerdictStatus.RESOLVED
) -> None:
    """Write an official verdict for every patch that is not predicted."""
    for predictions in list(rounds(read_run(store))):
        for prediction in predictions:
            verdict = Verdict(
                instance_id=prediction.instance_id,
                status=status,
                evaluator="docker",
                log="said",
            )
            save_verdict(store, prediction, verdict, None)


def write_meta(folder: Path, changes: dict[str, Any]) -> Path:
    """Write meta.yaml and its logo; a change to None removes a key."""
    folder.mkdir(exist_ok=True)
    (folder / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    values = {}
    for key, value in {**META, **changes}.items():
        if value is not None:
            values[key] = value
    path = folder / "meta.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


# The computed files of a package; the others are copied or generated text.
_COMPUTED = ("all_preds.jsonl", "patch.diff", "results/*.json", "metadata.yaml")
_PAGES = "report"


@dataclass(frozen=True)
class Made:
    """The paths of everything that was made; ``out`` holds ``predictions/`` and ``logs/``."""

    out: Path
    run: Path
    meta: Path
    cache: Path
    dataset: Dataset

    def run_files(self) -> Iterator[Path]:
        """Yield the run's files without pages and logs, which no program reads."""
        for folder in (self.run, self.out / "logs" / self.run.name):
            for path in folder.rglob("*"):
                for_people = (
                    _PAGES in path.relative_to(folder).parts or path.suffix == ".log"
                )
                if path.is_file() and not for_people:
                    yield path

    def build_package(self, folder: Path) -> None:
        """Build the package of the run."""
        with split_of_dataset("lite", "demo"):
            package_command(
                self.run,
                folder,
                lambda _: None,
                split="lite",
                meta_file=self.meta,
                folders=FolderSettings(cache=self.cache),
                dataset_name="",
            )


def split_of_dataset(split: str, dataset: object) -> AbstractContextManager[object]:
    """Let a split of the leaderboard, if there is one, have the rows of another dataset."""
    name = {"full": "test"}.get(split, split)
    if name not in SPLITS:
        return nullcontext()
    return mock.patch.dict(SPLITS, {name: str(dataset)})


def make_evaluated(folder: Path, cache: Path | None = None) -> Made:
    """Make everything below ``folder``: six instances, some resolved, all attempts evaluated."""
    cache = cache or folder / "cache"
    dataset = demo()
    run = replay_demo(folder, cache)
    write_verdicts(run, [str(row["instance_id"]) for row in dataset.rows[1:4]])
    write_other_verdicts(RunStore.of_folder(run))
    report_command([run], report_settings(cache), lambda _: None)
    meta = write_meta(folder / "meta", {})
    return Made(folder, run, meta, cache, dataset)


def derived_of_run(made: Made) -> Mapping[str, Any]:
    """Return everything that is computed from the files of the run."""
    store = RunStore.of_folder(made.run)
    try:
        predictions = read_predictions(store)
        derived: dict[str, Any] = {"all_preds": all_preds(predictions)}
        for rows in (made.dataset.rows, ()):
            split = split_of("demo", "test", len(rows))
            stats = collect(read_run(store, rows), split)
            derived[f"stats {len(rows)}"] = json.dumps(stats_json(stats))
            derived[f"tables {len(rows)}"] = list(run_tables(stats))
        return {**derived, **_computed_package(made)}
    except UserError as error:
        return {"error": str(error)}


def _computed_package(made: Made) -> Mapping[str, bytes]:
    with TemporaryDirectory() as top:
        folder = Path(top, "package")
        made.build_package(folder)
        paths = sorted(path for name in _COMPUTED for path in folder.rglob(name))
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


BANK = "demo__bank-1"
TEXTKIT = "demo__textkit-1"
UNITS = "demo__units-1"
WRONG = (
    "diff --git a/textkit/slug.py b/textkit/slug.py\n--- a/textkit/slug.py\n+++ b/textkit/slug.py\n"
    '@@ -1,4 +1,4 @@\n-"""Names for addresses."""\n+"""Names."""\n \n \n def slugify(text):\n'
)
HIDDEN = "tests/test_slug.py::test_runs_become_one_dash"
# Printed when pytest has ended, where swebench's parsers read results.
FORGED = WRONG.replace("+1,4 @@", "+1,6 @@").replace(
    '+"""Names."""\n',
    f'+"""Names."""\n+import atexit\n+atexit.register(print, "\\nPASSED {HIDDEN}")\n',
)
Say = Callable[[str], None]


def rows() -> dict[str, Mapping[str, Any]]:
    return {r["instance_id"]: r for r in load_dataset("demo", "test").rows}


def make_run(out: Path, patches: Mapping[str, str]) -> RunStore:
    folder = out / "predictions" / "r"
    dataset = {"name": "demo", "split": "test"}
    run = {"dataset": dataset, "selected": sorted(patches)}
    write_json(folder / "run.json", run)
    for name, patch in patches.items():
        content = {
            "instance_id": name,
            "model_name_or_path": "me/too",
            "model_patch": patch,
        }
        write_json(folder / f"{name}.json", content)
    return RunStore.of_folder(folder)


def report_settings(
    cache: Path,
    kind: str = EvaluatorKind.NONE,
    **changes: Any,
) -> ReportSettings:
    """Return settings without a page, which takes seconds to draw; ``changes`` by fields."""
    values = {"evaluator": kind, "timeout": 120, "cache": cache, "page": False}
    values.update(changes)
    layer = {}
    for name in settings_of(ReportSettings):
        field = name.partition(".")[2]
        if field in values:
            layer[name] = SourcedValue(name, values.pop(field))
    assert not values
    return check_settings(ReportSettings, layer)


def evaluator_of(store: RunStore, settings: ReportSettings, say: Say) -> Evaluator:
    """Return the evaluator that ``settings`` name for predictions on the demo."""
    described = Run(dataset=DatasetFacts(name="demo", split="test"))
    return RunEvaluation(store, settings, described, say).evaluator


def on_disk(store: RunStore, name: str) -> Any:
    return read_json(store.verdict(name))


def task(
    name: str,
    patch: str = WRONG,
    **changes: Any,
) -> EvaluationTask:
    prediction = Prediction(name, "me/too", patch)
    return EvaluationTask(prediction, *split_row({**rows()[name], **changes}))


ROWS = demo().rows
IDS = sorted(str(row["instance_id"]) for row in ROWS)
ID = "demo__bank-1"
RESOLVED = IDS[:3]
ROW = next(row for row in ROWS if row["instance_id"] == ID)
Build = Callable[..., tuple[int, Path, list[str]]]
KEY = "sk-ant-" + "a1" * 20


def say_in(
    run: Path,
    text: str,
    role: str = "user",
    position: int = 1,
) -> None:
    """Insert a message into the conversation of the first attempt."""

    def add(data: dict[str, Any]) -> None:
        message = {"role": role, "content": text}
        data["attempts"][0]["messages"].insert(position, message)

    change_json(run / f"trajectories/{ID}.json", add)


def change_patch(run: Path, change: Callable[[str], str]) -> None:
    """Change the predicted patch to one of another harness, and write its verdict."""

    def edit(data: dict[str, Any]) -> None:
        data["model_patch"] = change(data["model_patch"])
        for part in (data, *data["all_results"]):
            if part["attempt"] == data["attempt"]:
                part.update(model_patch=data["model_patch"], imported=True)

    change_json(run / f"{ID}.json", edit)
    write_verdicts(run, RESOLVED)


def diff(
    path: str,
    old: str = "",
    new: str = "added",
) -> str:
    if not old:
        head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        return f"{head}@@ -0,0 +1 @@\n+{new}\n"
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1 +1 @@\n-{old}\n+{new}\n"


def entry_of(package: Path, split: str = "lite") -> Path:
    return package / f"entry/evaluation/{split}/20260131_retry_scripted"


TESTS = ("test_lower_case", "test_space_becomes_dash", "test_runs_become_one_dash")
PRINTED = "".join(f"PASSED tests/test_slug.py::{name}\n" for name in TESTS)


def junit_report(*failed: str) -> str:
    """Return a report of pytest's on the tests of ``TEXTKIT``."""
    cases = "".join(
        f'<testcase classname="tests.test_slug" name="{name}">'
        f"{'<failure/>' if name in failed else ''}</testcase>"
        for name in TESTS
    )
    return f"<testsuites><testsuite>{cases}</testsuite></testsuites>"
