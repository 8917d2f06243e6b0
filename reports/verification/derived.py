"""Are the files that ``report.py`` writes what they would be if it wrote them now?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from pathlib import Path
from typing import Any

from agent.errors import UserError
from bench.store import RunStore
from reports.evaluators.base import Verdict, VerdictStatus
from reports.predictions import ALL_PREDS, Prediction, all_preds
from reports.results import leaderboard_lists
from reports.verdicts import eval_report, known_verdict, read_verdict_file, verdict_path
from reports.verification.difference import (
    Difference,
    all_differences,
    first_difference,
    first_line,
)


@dataclass(frozen=True)
class DerivedCheck:
    """Checks the files of a report on one run.

    Attributes:
        others: patches of attempts that are not predicted.
        stats: what ``stats.json`` may hold: with the rows of the dataset, and without them.
        same: compares two plain values of ``stats.json``.
    """

    store: RunStore
    predictions: Sequence[Prediction]
    others: Sequence[Prediction]
    stats: Callable[[], Iterator[Mapping[str, Any]]]
    same: Callable[[object, object], bool] = eq

    def differences(self) -> Iterator[Difference]:
        """Yield what differs; files that no report has written yet are passed over."""
        yield from self._all_preds(self.store.folder / ALL_PREDS)
        yield from self._verdicts()
        verdicts = {p.instance_id: self._verdict(p) for p in self.predictions}
        lists = leaderboard_lists(self.predictions, verdicts)
        yield from _json(self.store.folder / "results.json", lambda: iter([lists]))
        yield from _json(self.store.folder / "stats.json", self.stats, self.same)

    def _all_preds(self, path: Path) -> Iterator[Difference]:
        if not path.is_file():
            return
        text = path.read_bytes().decode("utf-8", "replace")
        if words := first_line(text, all_preds(self.predictions)):
            yield Difference(path, words)

    def _verdict(self, prediction: Prediction) -> Verdict:
        known = known_verdict(self.store, prediction)
        if known is not None:
            return known
        empty = not prediction.patch.strip()
        status = VerdictStatus.EMPTY if empty else VerdictStatus.NOT_EVALUATED
        return Verdict(prediction.instance_id, status, "none")

    def _verdicts(self) -> Iterator[Difference]:
        every = (*self.predictions, *self.others)
        by_path = {verdict_path(self.store, prediction): prediction for prediction in every}
        for path in sorted(self.store.verdict("x").parent.rglob("*.json")):
            prediction = by_path.get(path)
            data = read_verdict_file(path) or {}
            words = self._wrong(prediction, data) if prediction else "of no patch in this run"
            if words:
                yield Difference(path, words)

    def _wrong(self, prediction: Prediction, data: Mapping[str, Any]) -> str:
        if data.get("patch_sha256") != prediction.patch_sha256:
            return "is about another patch than the prediction's; evaluate again"
        verdict = known_verdict(self.store, prediction)
        assert verdict is not None
        expected = {
            "resolved": verdict.status is VerdictStatus.RESOLVED,
            "official": verdict.official,
            "dropped_files": list(prediction.dropped),
        }
        found = {key: data.get(key) for key in expected}
        return first_difference(found, expected) or self._against_report(prediction, verdict)

    def _against_report(self, prediction: Prediction, verdict: Verdict) -> str:
        """Compare with swebench's report, where the evaluation left one."""
        data = _read(eval_report(self.store, prediction))
        own = data.get(verdict.instance_id) if isinstance(data, dict) else None
        if not isinstance(own, dict):
            return ""
        resolved = verdict.status is VerdictStatus.RESOLVED
        if resolved is bool(own.get("resolved")):
            return ""
        return f"says {verdict.status.value}, and the report in logs/ says the contrary"


def _json(
    path: Path,
    expected: Callable[[], Iterator[Mapping[str, Any]]],
    same: Callable[[object, object], bool] = eq,
) -> Iterator[Difference]:
    """Yield the first difference of the file at ``path`` to the likest of ``expected``."""
    if not path.is_file():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        yield Difference(path, f"is broken: {error}")
        return
    likest = min((list(all_differences(found, one, "", same)) for one in expected()), key=len)
    if likest:
        yield Difference(path, likest[0])


def _read(path: Path) -> Any:  # noqa: ANN401 - whatever json has
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is broken ({error}); delete it and evaluate again") from error
