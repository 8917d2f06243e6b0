"""A pair of models: an architect, who plans in plain text, and an editor, who writes the edits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.conversation.base import Ending
from agent.conversation.context import ContextFullError
from agent.formats.apply import EngineFormat
from agent.formats.base import Edit, ReplyScope
from agent.protocol import AgentResult
from llm.chat import (
    BudgetUsedError,
    ChatModel,
    Message,
    ReplayExhaustedError,
    Reply,
    TimeUsedError,
    Tool,
    Traits,
    refusal,
)
from llm.tokens import count_tokens

_RAISED: Mapping[Ending, Callable[[str], Exception]] = {
    Ending.REFUSED: refusal,
    Ending.BUDGET: BudgetUsedError,
    Ending.TIME: TimeUsedError,
    Ending.CONTEXT: ContextFullError,
    Ending.REPLAY_EXHAUSTED: ReplayExhaustedError,
}


class PlanFormat(EngineFormat):
    """Keeps the last reply as ``plan``: nothing in it is an edit."""

    name = "plan"
    plan = ""

    def instructions(self, fence: str) -> str:
        return ""

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        self.plan = reply.content
        return ()

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        raise ValueError("a plan writes no file")


@dataclass(frozen=True)
class Alike:
    """A model of a pair, with the properties and the token counter of both."""

    model: ChatModel
    traits: Traits
    label: str

    def count(self, text: str) -> int:
        return count_tokens(self.label, text)

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Reply:
        return self.model.complete(messages, tools)


def alike(models: Sequence[ChatModel], label: str) -> Sequence[ChatModel]:
    """Return models, editor first, so that a replay, which has one for both, decides as they do."""
    if len(models) == 1:
        return models
    known = [one.traits.context for one in models if one.traits.context is not None]
    traits = replace(models[0].traits, context=min(known, default=None))
    return [Alike(one, traits, label) for one in models]


def raise_ending(work: AgentResult) -> None:
    """Let the conversation of the architect end as that of its editor did."""
    if work.result and (made := _RAISED.get(work.result.ending)):
        raise made(work.error)
