"""The protocol of agents: an agent edits one checkout and reports how it ended.

``swe_retry.agent.builtin`` is the built-in agent; ``swe_retry.agent.command_agent`` runs any
command. Other agents are Python entry points of the group ``swe_retry_harness.agents``, or named as
``module:attribute`` (docs/agents.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from swe_retry.agent.conversation.result import Ending, Result
from swe_retry.agent.conversation.setup import ConversationSetup, harness_setup
from swe_retry.agent.conversation.testreport import TestReport
from swe_retry.agent.lint.findings import Change, Finding
from swe_retry.agent.lint.linter import Linter
from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.surroundings import Surroundings, Transcript
from swe_retry.core.plaintext import Say
from swe_retry.core.worktree import Changes as Changes
from swe_retry.llm.chat import ChatModel
from swe_retry.llm.gate import Gate, OpenGate


class Host(Protocol):
    """What a run does for the agent of one attempt.

    This one has no run: nobody waits, and nothing is limited or reviewed.
    """

    def draw_map(self) -> str:
        """Return a map of the repository within the run's budget; it may be empty."""
        return ""

    def let_others_work(self) -> AbstractContextManager[None]:
        """Let others work meanwhile, as long as a command works."""
        return nullcontext()

    def note_call(self) -> None:
        """Show that the agent of a command calls its model."""
        return

    def open_gate(self) -> Gate:
        """Return a gate for calls of the attempt."""
        return OpenGate()

    def settle_checkout(self) -> None:
        """Prepare the checkout for writers that do not ask a model before they write."""
        return

    def allow_reuse(self) -> None:
        """Allow the next attempt to renew the checkout: only the harness writes to it."""
        return

    def check_killed(self) -> None:
        """Raise a StoppedError if a forced shutdown killed the command that just ended."""
        return

    def new_findings(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        """Return the new findings of the linter in files that the agent changed."""
        return Linter().new_findings(changes)

    def run_tests(self, changes: Changes) -> TestReport:
        """Run the tests on the tree with these changes; without tests nothing is known."""
        return TestReport(None)

    def surround(self, surroundings: Surroundings) -> Surroundings:
        """Return where a command runs: with the environment of the tests, if there is one."""
        return surroundings

    def review_tree(self) -> str:
        """Return what lint and tests find wrong with the tree, as a message; empty if nothing."""
        return ""


@dataclass(frozen=True)
class OpenHost(Host):
    """The host of an agent without a run; ``test`` runs the tests where there are some."""

    map_source: Callable[[], str] = str
    test: Callable[[Changes], TestReport] | None = None

    def draw_map(self) -> str:
        return self.map_source()

    def run_tests(self, changes: Changes) -> TestReport:
        if self.test is None:
            return TestReport(None)
        return self.test(changes)


@dataclass(frozen=True)
class Task:
    """The input of one attempt.

    Attributes:
        root: the checkout, which the agent edits in place.
        files: the tracked files.
        model: answers requests, for agents that do not call models themselves; others can work
            during each of its calls.
        model_name: litellm's name of the model.
        edit_format: the name of the model's edit format; agents may ignore it.
        transcript: filled by the agent.
        log: writes a line to the instance's log.
        setup: what the built-in agent's messages hold; other agents may ignore it.
        architect: plans what the model edits; None where it plans itself.
        host: what the run does for the agent.
    """

    root: Path
    message: str
    files: FileIndex
    model: ChatModel
    model_name: str
    edit_format: str
    temperature: float
    transcript: Transcript
    log: Say
    setup: ConversationSetup = field(default_factory=harness_setup)
    architect: ChatModel | None = None
    host: Host = field(default_factory=OpenHost)

    @property
    def repo_map(self) -> str:
        """A map of the repository within the run's budget; it may be empty."""
        return self.host.draw_map()


@dataclass(frozen=True)
class AgentResult:
    """How an agent's work ended.

    Attributes:
        result: the outcomes; None lets the harness check the tree.
        ending: an abnormal end where ``result`` is None.
    """

    result: Result | None = None
    error: str = ""
    ending: Ending | None = None


Work = AgentResult
"""The name that other packages' agents may use."""


@runtime_checkable
class Agent(Protocol):
    """Edits a checkout."""

    def work(self, task: Task) -> AgentResult:
        """Work on ``task.message`` in ``task.root``; the resulting tree is the candidate.

        Raises:
            InfrastructureError: an engine, network or disk failed; the attempt uses no try.
            UserError: the run cannot continue.
            Exception: any other exception is recorded; the attempt counts as an error.
        """
