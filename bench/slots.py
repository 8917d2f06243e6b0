"""How much work of this machine is done at once, however many instances wait for their models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType

from agent.chat import ChatModel, Message, Reply, Tool, Traits
from agent.errors import StoppedError
from bench.board import Step
from bench.stop import Stop

_PATIENCE = 0.5
"""Seconds between two looks at whether the run is stopping."""


@dataclass
class Slots:
    """A number of slots; whoever comes back from a model goes before whoever begins."""

    count: int
    stop: Stop = field(default_factory=Stop)
    _taken: int = 0
    _returning: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, *, returning: bool, heeding: bool = True) -> None:
        """Wait for a slot.

        Args:
            returning: the caller had one before.
            heeding: raise ``StoppedError`` when the run stops.
        """
        with self._changed:
            self._returning += returning
            try:
                while self._taken >= self.count or (self._returning and not returning):
                    self._look(heeding)
                    self._changed.wait(_PATIENCE)
                self._look(heeding)
                self._taken += 1
            finally:
                self._returning -= returning
                self._changed.notify_all()

    def _look(self, heeding: bool) -> None:
        if heeding and self.stop.reason:
            raise StoppedError(self.stop.reason)

    def give_back(self) -> None:
        """Let somebody else work."""
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()


@dataclass
class Slot:
    """One worker's slot; a context manager that holds it."""

    slots: Slots
    _held: bool = False

    def __enter__(self) -> Slot:
        self._take(returning=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._held:
            self._give_back()

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Let others work meanwhile.

        Raises:
            StoppedError: the run is stopping.
        """
        self._give_back()
        try:
            yield
        except BaseException:
            # Whatever is still to be saved needs no permission.
            self._take(returning=True, heeding=False)
            raise
        self._take(returning=True)

    def _take(self, *, returning: bool, heeding: bool = True) -> None:
        self.slots.take(returning=returning, heeding=heeding)
        self._held = True

    def _give_back(self) -> None:
        self._held = False
        self.slots.give_back()


@dataclass(frozen=True)
class WaitingModel:
    """A model that is waited for without a slot; ``step`` is told what goes on."""

    model: ChatModel
    slot: Slot
    step: Callable[[Step], None]

    @property
    def traits(self) -> Traits:
        """See ``ChatModel``."""
        return self.model.traits

    def count(self, text: str) -> int:
        """See ``ChatModel``."""
        return self.model.count(text)

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Reply:
        """See ``ChatModel``."""
        self.step(Step.ASKING)
        with self.slot.given_back():
            reply = self.model.complete(messages, tools)
        self.step(Step.EDITING)
        return reply
