"""Choose what to work on: what is not done yet, or exactly what is to be redone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.errors import UserError
from bench.hub import Hub
from bench.statuses import AttemptStatus, InstanceStatus
from bench.store import RunStore

NOT_PLAUSIBLE = "not_plausible"
# These go on from their journals: nothing that was paid for is bought again.
_GO_ON = frozenset({InstanceStatus.BUDGET, InstanceStatus.INFRA_ERROR, InstanceStatus.INTERRUPTED})
WORDS = (NOT_PLAUSIBLE, *(status.value for status in InstanceStatus))


@dataclass(frozen=True)
class Redo:
    """What ``--redo`` names: statuses, and ids of instances."""

    words: frozenset[str]
    ids: frozenset[str]

    @classmethod
    def parse(cls, text: str, ids: Collection[str]) -> Redo:
        """Read a comma list of statuses and of ``ids``.

        Raises:
            UserError: a word is neither.
        """
        words = {word.strip() for word in text.split(",") if word.strip()}
        if unknown := sorted(words - {*WORDS, *ids}):
            raise UserError(
                f"--redo {unknown[0]!r}: give {', '.join(WORDS)}, or ids of the selected instances"
            )
        return cls(frozenset(words & {*WORDS}), frozenset(words & {*ids}))

    def takes(self, instance_id: str, result: Mapping[str, Any]) -> bool:
        """Tell whether an instance with this prediction, or unfinished trajectory, is meant."""
        status = str(result.get("status", ""))
        if instance_id in self.ids or status in self.words:
            return True
        if status == InstanceStatus.PLAUSIBLE.value:
            return False
        attempts = result.get("all_results") or result.get("attempts") or []
        failed = any(a.get("status") == AttemptStatus.ERROR.value for a in attempts)
        finished = "all_results" in result
        return (NOT_PLAUSIBLE in self.words and finished) or (
            InstanceStatus.ERROR.value in self.words and failed
        )


def prepare(store: RunStore, hub: Hub, redo: Redo, ids: Sequence[str]) -> list[str]:
    """Put aside what is to be redone and return the ids, in the order of ``ids``."""
    chosen = []
    for name in ids:
        result = store.result(name)
        if result is None or not redo.takes(name, result):
            continue
        chosen.append(name)
        if result.get("status") not in {status.value for status in _GO_ON} or name in redo.ids:
            hub.recover(name)
            hub.journal(name).retire()
        store.put_aside(name)
    return chosen
