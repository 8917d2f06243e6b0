"""Where the command of an agent runs, and the transcript of what it said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from swe_retry.core.processes import CommandResult, Tail, run_limited
from swe_retry.core.shutdown import Check
from swe_retry.core.worktree import size_of
from swe_retry.llm.chat import Message, Reply

SOCKET = "gateway"
_HEAD_BYTES = 20_000
_TAIL_BYTES = 30_000
_ERROR_BYTES = 4_000


@dataclass
class Transcript:
    """What is to be recorded of an attempt, filled by the agent and kept after any end.

    Attributes:
        hidden_paths: what its sandbox hid of the machine's packages.
        readable_copies: installed copies of the project that it could read all the same.
    """

    messages: list[Message] = field(default_factory=list)
    calls: list[Reply] = field(default_factory=list)
    hidden_paths: tuple[str, ...] = ()
    readable_copies: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommandRun:
    """One run of an agent's command.

    Attributes:
        argv: the command line, with the paths of ``Surroundings.visible_paths``.
        root: the checkout.
        scratch: has the folders ``home`` and ``tmp``, and the gateway's socket if there is one.
        variables: its environment variables.
        seconds: its time limit.
        must_end: asked every second whether it must be killed.
        check: raises where the run is being killed.
        output: takes what it prints, ``errors`` standard error again.
    """

    argv: tuple[str, ...]
    root: Path
    scratch: Path
    variables: Mapping[str, str]
    seconds: float
    must_end: Callable[[], bool]
    check: Check
    output: Tail = field(default_factory=lambda: Tail(_HEAD_BYTES, _TAIL_BYTES))
    errors: Tail = field(default_factory=lambda: Tail(0, _ERROR_BYTES))

    def within(self, limit: int) -> CommandRun:
        """Return the run that must also end when it has written ``limit`` bytes."""

        def must_end() -> bool:
            written = size_of(self.root) + size_of(self.scratch)
            return written > limit or self.must_end()

        return replace(self, must_end=must_end)

    def start(self, argv: Sequence[str], variables: Mapping[str, str]) -> CommandResult:
        """Run ``argv``, which runs the command."""
        return run_limited(
            argv,
            self.root,
            variables,
            self.seconds,
            self.output,
            too_much=self.must_end,
            errors=self.errors,
            yields=True,
        )


class Surroundings:
    """Where a command runs and what it sees; this one changes nothing."""

    @property
    def behind_socket(self) -> bool:
        """Whether the gateway is reached by ``SOCKET`` in the scratch folder alone."""
        return False

    def visible_paths(self, scratch: Path) -> tuple[Path, Path]:
        """Return where a command finds its scratch folder and its home."""
        return scratch, scratch / "home"

    def hide_copies(self, root: Path, transcript: Transcript) -> Surroundings:
        """Return those that hide installed copies of a fresh checkout, and note them."""
        return self

    def run(self, command: CommandRun) -> CommandResult:
        """Run a command, and leave nothing of it running."""
        return command.start(command.argv, command.variables)
