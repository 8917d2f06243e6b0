"""Verdicts and their files, which ``report.py`` writes and the harness never reads."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StrictStr, computed_field

from swe_retry.core.atomic import write_json_atomic, write_text_atomic
from swe_retry.core.hashing import fitting_name
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.redaction import Redactor
from swe_retry.core.untrusted import damage_at
from swe_retry.llm.chat import AnyText
from swe_retry.record.keys import quoted_name
from swe_retry.record.patches import patch_paths
from swe_retry.record.records import Recorded
from swe_retry.record.store import RunStore
from swe_retry.results.predictions import OTHERS, Prediction

if TYPE_CHECKING:
    from swe_retry.instances.split import Evaluation

# The files of one evaluation, as swebench names them.
OUTPUT_FILE, REPORT_FILE, PATCH_FILE = "test_output.txt", "report.json", "patch.diff"
RUN_LOG = "run_instance.log"
BY_SWEBENCH = ("docker", "modal")
"""Evaluators that run the installed swebench in its own images; version 0.12 also had ``modal``."""
OFFICIAL_TOOLS = ("multi-swe-bench", "sb-cli")
"""Evaluators that run the official program of another task set, or swebench's own service.

The classes are in ``swe_retry.report.evaluation.official``.
"""
MANUAL_TOOLS = ("pro", "live", "live-python", "rebench", "rebench-v2", "gym", "smith")
"""Official programs that users run themselves; version 0.12 ran them and saved their verdicts."""
# Bytes of the name of a log, with 9 for its ending.
_LONGEST = 246


class VerdictStatus(StrEnum):
    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    EMPTY = "empty"
    NOT_EVALUATED = "not_evaluated"


FIX = "delete it and evaluate again"
Time = Annotated[StrictStr, Field(pattern=r"^(\d{4}|$)")]
"""Begins with the year; empty if it is unknown."""


class Verdict(Recorded):
    """The verdict on a patch, as its file has it, with facts of the instance's row.

    Attributes:
        evaluator: its name.
        reason: why it was not evaluated, or what swebench could not read, in one line.
        image: of the tests, as ``NAME@DIGEST``; empty if they ran in none.
        evaluated: the time in UTC; empty if it was not recorded.
        swebench: the version that graded the output; empty if another tool did.
        tool: the revision or version of that other tool.
        log: the test output; in a file of its own.
        report: swebench's report on the instance; in a file of its own.
    """

    instance_id: StrictStr
    status: VerdictStatus
    evaluator: StrictStr
    reason: StrictStr = ""
    image: StrictStr = ""
    evaluated: Time = ""
    swebench: StrictStr = ""
    tool: StrictStr = ""
    patch_sha256: StrictStr = ""
    dropped_files: tuple[AnyText, ...] = ()
    gold_files: tuple[AnyText, ...] = ()
    repo: StrictStr | None = None
    created_at: Time = ""
    log: Annotated[AnyText, Field(exclude=True)] = ""
    report: Annotated[JsonObject | None, Field(exclude=True)] = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def resolved(self) -> bool:
        return self.status is VerdictStatus.RESOLVED

    @computed_field  # type: ignore[prop-decorator]
    @property
    def official(self) -> bool:
        """Whether the official evaluator of the task set gave it."""
        return self.evaluator in (*BY_SWEBENCH, *OFFICIAL_TOOLS, *MANUAL_TOOLS)

    @property
    def conclusive(self) -> bool:
        return self.status is not VerdictStatus.NOT_EVALUATED

    @property
    def final(self) -> bool:
        """Whether no evaluator can improve it: it is official, or the patch is empty."""
        return self.status is VerdictStatus.EMPTY or (self.conclusive and self.official)

    @property
    def outcome(self) -> bool | None:
        """Whether it is resolved; None if nothing was evaluated."""
        if not self.conclusive:
            return None
        return self.resolved

    def write(self, path: Path) -> None:
        write_json_atomic(path, Redactor.of_environment().of(self.as_json()))


def save_verdict(
    store: RunStore,
    prediction: Prediction,
    verdict: Verdict,
    evaluation: Evaluation | None,
) -> None:
    """Write a verdict, and its log and report under ``logs/<run>/``."""
    saved = verdict.but(
        patch_sha256=prediction.patch_sha256, dropped_files=prediction.dropped
    )
    if evaluation:
        created = str(evaluation.row.get("created_at") or "")
        has_year = re.match(r"\d{4}", created, re.ASCII)
        saved = saved.but(
            gold_files=patch_paths(evaluation.patch),
            repo=evaluation.row.get("repo"),
            created_at=created if has_year else "",
        )
    saved.write(verdict_path(store, prediction))
    # Files of an earlier patch must not be taken for those of this patch.
    log = eval_log(store, prediction)
    report = eval_report(store, prediction)
    log.unlink(missing_ok=True)
    report.unlink(missing_ok=True)
    if verdict.log:
        write_eval_log(log, verdict.log)
    if verdict.report is not None:
        write_json_atomic(report, Redactor.of_environment().of(verdict.report))


def write_eval_log(path: Path, output: str) -> None:
    """Write what hidden tests printed, without the secrets of this machine."""
    write_text_atomic(path, Redactor.of_environment()(output))


def verdict_path(store: RunStore, prediction: Prediction) -> Path:
    """Return the path of the verdict on a prediction, or on another attempt's patch."""
    return store.verdict(prediction.file_stem)


def eval_log(store: RunStore, prediction: Prediction) -> Path:
    if not prediction.chosen:
        return store.logs / f"{prediction.file_stem}.eval.log"
    model = prediction.model_name_or_path.replace("/", "__")
    name = f"{prediction.instance_id}.{model}"
    return store.logs / f"{fitting_name(name, _LONGEST)}.eval.log"


def eval_report(store: RunStore, prediction: Prediction) -> Path:
    return store.logs / f"{prediction.file_stem}.{REPORT_FILE}"


def forget_others(store: RunStore, keep: Iterable[Prediction]) -> None:
    """Delete what was saved on patches that are not predicted, except on those in ``keep``."""
    files: set[Path] = set()
    for folder in (store.verdict("x").parent, store.logs):
        files.update((folder / OTHERS).glob("*.json"))
        files.update((folder / OTHERS).glob("*.log"))
    for prediction in keep:
        for path_of in (verdict_path, eval_log, eval_report):
            files.discard(path_of(store, prediction))
    for path in files:
        path.unlink()


def known_verdict(store: RunStore, prediction: Prediction) -> Verdict | None:
    """Return the saved verdict on this patch, or the one in a prediction of the older layout."""
    name = prediction.instance_id
    path = verdict_path(store, prediction)
    saved = read_verdict(path)
    if saved is not None and saved.patch_sha256 == prediction.patch_sha256:
        if saved.instance_id != name:
            problem = (
                f"is the verdict on {quoted_name(saved.instance_id)}, and not on {name}"
            )
            raise damage_at(path, ("instance_id",), problem, FIX)
        return saved
    if prediction.resolved is None:
        return None
    status = VerdictStatus.UNRESOLVED
    if prediction.resolved:
        status = VerdictStatus.RESOLVED
    evaluator = "as recorded in the prediction"
    return Verdict(instance_id=name, status=status, evaluator=evaluator)


def presumed_verdict(prediction: Prediction) -> Verdict:
    """Return the verdict without an evaluation: an empty patch resolves nothing."""
    status = VerdictStatus.NOT_EVALUATED
    reason = ""
    if prediction.is_empty:
        status = VerdictStatus.EMPTY
    elif not prediction.patch_known:
        reason = "its files hold no patch"
    return Verdict(
        instance_id=prediction.instance_id,
        status=status,
        evaluator="none",
        reason=reason,
    )


def read_verdict(path: Path) -> Verdict | None:
    """Return the verdict in a file, on any patch; None if there is none."""
    return Verdict.of_file(path, "a verdict", FIX)


def leaderboard_lists(
    predictions: Sequence[Prediction], verdicts: Mapping[str, Verdict]
) -> dict[str, list[str]]:
    """Return the content of ``results.json``: ids in the lists of the leaderboard, sorted."""
    empty = []
    by_status = defaultdict(list)
    for prediction in sorted(predictions, key=lambda p: p.instance_id):
        name = prediction.instance_id
        by_status[verdicts[name].status].append(name)
        if prediction.is_empty:
            empty.append(name)
    return {
        "no_generation": empty,
        "no_logs": by_status[VerdictStatus.NOT_EVALUATED],
        "resolved": by_status[VerdictStatus.RESOLVED],
    }
