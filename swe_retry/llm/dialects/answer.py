"""Pure: what an answer of a provider says, and the tokens that it counts."""

from __future__ import annotations

from dataclasses import dataclass

from swe_retry.llm.chat import ToolCall


@dataclass(frozen=True)
class Tokens:
    """The provider's count of one call.

    Attributes:
        prompt: all tokens of the request, cached and newly cached ones included.
        completion: all tokens of the answer, reasoning included.
        cached: read from the provider's cache.
        written: written to the cache for five minutes.
        written_hour: written to it for an hour, which costs more.
        cost: dollars as the provider states them, where it does.
        tier: the service tier of the call, as the provider names it.
    """

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0
    written_hour: int = 0
    reasoning: int = 0
    cost: float | None = None
    tier: str = ""

    @property
    def is_possible(self) -> bool:
        if not self.prompt or self.reasoning > self.completion:
            return False
        stored = self.cached + self.written + self.written_hour
        return stored <= self.prompt


@dataclass(frozen=True)
class Answer:
    """What an answer of a provider says.

    Attributes:
        tokens: None where the provider reports none, impossible ones, or others than are listed.
        complete: the answer has its end.
        error: of an answer that ends in an error although it began well.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tokens: Tokens | None = None
    model: str = ""
    truncated: bool = False
    complete: bool = False
    error: str = ""
    reasoning: str = ""
