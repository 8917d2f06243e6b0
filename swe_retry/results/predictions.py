"""The predictions of a run: read from its folder, written for the evaluator."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swe_retry.core.hashing import fitting_name, sha256_of
from swe_retry.record.store import RunStore

ALL_PREDS = "all_preds.jsonl"
# swebench joins the names of model and evaluation in the name of a file.
_LONGEST_PAIR = 235
_SHORTEST_NAME = 20
OTHERS = "attempts"
"""The folder for verdicts on patches that are not predicted, and for their logs."""


@dataclass(frozen=True)
class Prediction:
    """One instance's prediction, as an evaluator gets it.

    Attributes:
        patch: the submittable patch; empty if nothing was generated.
        dropped: excluded files of the raw patch.
        resolved: the verdict in the prediction file itself, which the older layout has.
        chosen: False for the patch of an attempt that is evaluated without being predicted.
        patch_known: False if the files of another harness hold no patch.
    """

    instance_id: str
    model_name_or_path: str
    patch: str
    dropped: tuple[str, ...] = ()
    resolved: bool | None = None
    chosen: bool = True
    patch_known: bool = True

    @property
    def is_empty(self) -> bool:
        return self.patch_known and not self.patch.strip()

    @property
    def patch_sha256(self) -> str:
        return sha256_of(self.patch)

    @property
    def file_stem(self) -> str:
        """The path of files about it without an ending; equal patches of attempts share them."""
        if self.chosen:
            return self.instance_id
        return f"{OTHERS}/{self.instance_id}.{self.patch_sha256[:16]}"

    def as_json(self, instance_id: str) -> dict[str, str]:
        """Return the prediction as swebench's files have it."""
        return {
            "instance_id": instance_id,
            "model_name_or_path": self.model_name_or_path,
            "model_patch": self.patch,
        }


def all_preds(
    predictions: Sequence[Prediction],
    official: Mapping[str, str] | None = None,
) -> str:
    """Return ``all_preds.jsonl``; ``official`` has the set's own ids where they differ."""
    official = official or {}
    text = ""
    for prediction in sorted(predictions, key=lambda p: p.instance_id):
        if prediction.patch_known:
            name = prediction.instance_id
            line = prediction.as_json(official.get(name, name))
            text += json.dumps(line) + "\n"
    return text or "\n"


def run_id(store: RunStore, predictions: Sequence[Prediction]) -> str:
    """Return the id of an evaluation of ``predictions``.

    It depends on the patches, because swebench caches verdicts by id and never compares patches. It
    depends on the folder, because runs of one name must not share containers on one engine. Names
    of containers allow fewer characters than names of runs, such as the ``+`` of combined runs.
    """
    patches = [[p.instance_id, p.patch_sha256] for p in predictions]
    text = json.dumps([str(store.folder.resolve()), patches])
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", store.run)
    longest = max((len(p.model_name_or_path) for p in predictions), default=0)
    name = fitting_name(name, max(_SHORTEST_NAME, _LONGEST_PAIR - longest))
    return f"{name}-{sha256_of(text)[:12]}"
