"""Candidates that were made elsewhere, as attempts: their patches are applied, not written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from agent.conversation.base import Ending
from agent.named import OUTSIDE
from agent.protocol import AgentResult, Task
from core.git import git_result
from core.hashing import sha256_of
from llm.chat import Message, ReplayExhaustedError, Reply, Tool, Traits, estimate_tokens
from llm.gate import Gate
from llm.options import ModelChoice
from runs.modelsource import ModelSource, Turn


@dataclass(frozen=True)
class GivenCandidate:
    """A patch of one instance; ``origin`` says which attempt of which run it is."""

    origin: str
    model: str
    patch: str


Given = Mapping[str, Sequence[GivenCandidate]]
"""Candidates by instance."""


def given_sha256(given: Given) -> str:
    plain = {name: [asdict(one) for one in found] for name, found in given.items()}
    return sha256_of(json.dumps(plain, sort_keys=True))


@dataclass(frozen=True)
class GivenPatch:
    """Stands for the model of an attempt whose patch is given; nobody can ask it."""

    patch: str
    traits: Traits = field(default_factory=Traits)

    def count(self, text: str) -> int:
        return estimate_tokens(text)

    def complete(
        self, messages: Sequence[Message], tools: Sequence[Tool] = ()
    ) -> Reply:
        raise ReplayExhaustedError("the candidate is given; no model is asked for it")


@dataclass(frozen=True)
class GivenModels:
    """Gives candidates as attempts, and other models for what is written about them."""

    given: Given
    others: ModelSource

    def turn(
        self,
        instance_id: str,
        attempt: int,
        choice: ModelChoice,
        temperature: float,
        gate: Gate,
    ) -> Turn:
        if attempt < 1:
            return self.others.turn(instance_id, attempt, choice, temperature, gate)
        one = self.given[instance_id][attempt - 1]
        return Turn(GivenPatch(one.patch), f"{one.model} ({one.origin})", OUTSIDE)


@dataclass(frozen=True)
class PatchAgent:
    """Applies the given patch; git refuses paths outside the checkout."""

    def work(self, task: Task) -> AgentResult:
        model = task.model
        patch = model.patch if isinstance(model, GivenPatch) else ""
        if patch.strip():
            # Some harnesses strip the last line's end, without which git refuses the patch.
            whole = patch if patch.endswith("\n") else f"{patch}\n"
            data = whole.encode("utf-8", "surrogateescape")
            argv = ("apply", "--whitespace=nowarn", "-")
            done = git_result(*argv, cwd=task.root, stdin=data)
            if done.returncode:
                why = done.stderr.decode("utf-8", "replace").strip()[:500]
                return AgentResult(
                    error=f"the patch does not apply: {why}", ending=Ending.FAILED
                )
        return AgentResult()
