"""Candidates that were made elsewhere, as attempts: their patches are applied, not written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swe_retry.agent.conversation.result import Ending
from swe_retry.agent.named import OUTSIDE
from swe_retry.agent.protocol import AgentResult, Task
from swe_retry.core.git import git_result
from swe_retry.core.hashing import sha256_of
from swe_retry.llm.chat import Reply
from swe_retry.llm.gate import Gate
from swe_retry.llm.options import ModelChoice
from swe_retry.llm.replay import ReplayModel
from swe_retry.record.records import Origin
from swe_retry.runner.modelsource import ModelSource, Turn


@dataclass(frozen=True)
class RecordedCandidate:
    """A patch of one instance; ``origin`` says which attempt of which run it is."""

    origin: Origin
    model: str
    patch: str


RecordedCandidates = Mapping[str, Sequence[RecordedCandidate]]
"""Candidates by instance."""


def hash_candidates(candidates: RecordedCandidates) -> str:
    plain = {}
    for name, of_instance in candidates.items():
        rows = []
        for candidate in of_instance:
            row = (str(candidate.origin), candidate.model, candidate.patch)
            rows.append(row)
        plain[name] = rows
    return sha256_of(json.dumps(plain, sort_keys=True))


@dataclass
class PatchModel(ReplayModel):
    """Stands for the model of an attempt whose patch is given; it has no reply."""

    calls: Sequence[Reply] = ()
    patch: str = ""


@dataclass(frozen=True)
class CandidateModels:
    """Gives candidates as attempts, and other models for what is written about them."""

    candidates: RecordedCandidates
    other_models: ModelSource

    def turn(
        self,
        instance_id: str,
        attempt: int,
        choice: ModelChoice,
        temperature: float,
        gate: Gate,
    ) -> Turn:
        if attempt < 1:
            return self.other_models.turn(
                instance_id,
                attempt,
                choice,
                temperature,
                gate,
            )
        candidate = self.candidates[instance_id][attempt - 1]
        model = PatchModel(patch=candidate.patch)
        return Turn(
            model,
            candidate.model,
            OUTSIDE,
            traits=model.traits,
            origin=candidate.origin,
        )


@dataclass(frozen=True)
class PatchAgent:
    """Applies the given patch; git refuses paths outside the checkout."""

    def work(self, task: Task) -> AgentResult:
        assert isinstance(task.model, PatchModel)
        patch = task.model.patch
        if not patch.strip():
            return AgentResult()
        task.host.settle_checkout()
        # Some harnesses strip the last line's end, without which git refuses the patch.
        if not patch.endswith("\n"):
            patch += "\n"
        data = patch.encode("utf-8", "surrogateescape")
        argv = ("apply", "--whitespace=nowarn", "-")
        applied = git_result(*argv, cwd=task.root, stdin=data)
        if applied.returncode == 0:
            return AgentResult()
        problem = applied.stderr.decode("utf-8", "replace").strip()[:500]
        error = f"the patch does not apply: {problem}"
        return AgentResult(error=error, ending=Ending.FAILED)
