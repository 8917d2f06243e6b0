"""Run a coding agent of others that calls its model through the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swe_retry.agent.command_agent import (
    PORT,
    CommandAgent,
    EndedCommand,
    fill,
    scratch_folder,
)
from swe_retry.agent.conversation.result import Ending
from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.agent.named.description import NamedAgent, variables_of
from swe_retry.agent.protocol import AgentResult, Task
from swe_retry.agent.surroundings import SOCKET
from swe_retry.core.errors import InfrastructureError
from swe_retry.llm.chat import AttemptLimitError, BudgetUsedError, ReplayExhaustedError
from swe_retry.llm.client import LiteLLMModel

# How an attempt ends whose calls were refused; anything else ends more than it.
_ENDINGS = {
    AttemptLimitError: Ending.LIMIT,
    BudgetUsedError: Ending.BUDGET,
    ReplayExhaustedError: Ending.REPLAY_EXHAUSTED,
}


@dataclass(frozen=True)
class GatewayAgent(CommandAgent):
    """Runs a command whose calls pass the gate of its attempt, one by one.

    Attributes:
        recipe: of an agent that the harness knows by name.
    """

    recipe: NamedAgent | None = None

    def _run_session(self, task: Task) -> AgentResult:
        with task.host.let_others_work():
            result = self._run_behind_gateway(task)
            task.host.check_killed()
        return result

    def _run_behind_gateway(self, task: Task) -> AgentResult:
        model = task.model
        transcript = task.transcript
        if not isinstance(model, LiteLLMModel):
            raise TypeError(f"{model!r} has no provider to call through the gateway")
        # An attempt with feedback has several sessions.
        lanes = [message.lane for message in transcript.messages]
        with scratch_folder(task) as folder:
            socket = None
            if self.surroundings.behind_socket:
                socket = folder / SOCKET
            gateway = Gateway(
                model,
                self.settings,
                socket=socket,
                call_count=len(transcript.calls),
                first_lane=max(lanes, default=-1) + 1,
                note_call=task.host.note_call,
            )
            try:
                with gateway:
                    ended = self._run_with(gateway, task, folder)
            finally:
                transcript.messages.extend(gateway.messages)
                transcript.calls.extend(gateway.calls)
        refused = gateway.problem
        if ended.result.timed_out:
            # A call is repeated for as long as the run waits for its provider.
            refused = refused or gateway.failed_try
        problem = ended.problem
        if self.recipe and not problem:
            problem = self.recipe.own_end(ended.output)
        notes = [problem]
        if refused:
            notes.append(str(refused))
        notes += _notes(gateway)
        ended.log(task, "; ".join(filter(None, notes)))
        if refused:
            return _refused_result(gateway, refused)
        if not gateway.calls:
            # Many agents end with exit code 0 when no call succeeds.
            problem = problem or f"it ended with exit code 0: {ended.last_words}"
            raise InfrastructureError(
                f"the agent had no answer of a model: {problem}; `harness.py try` shows all its "
                "output"
            )
        return AgentResult(None, problem, ended.ending)

    def _run_with(self, gateway: Gateway, task: Task, folder: Path) -> EndedCommand:
        home = self.surroundings.visible_paths(folder)[1]
        values = {
            **self.placeholders(task, folder),
            "home": str(home),
            "model": gateway.model_name,
            "address": f"http://127.0.0.1:{gateway.port or PORT}",
            "token": gateway.token,
        }
        variables = variables_of(self.settings.api)
        if self.recipe:
            variables |= self.recipe.variables
            for name, text in self.recipe.files.items():
                path = folder / "home" / name
                if not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(fill(text, values))
        for name, text in variables.items():
            variables[name] = fill(text, values)
        return self.run_command(task, folder, values, variables, gateway.overdue)


def _refused_result(gateway: Gateway, refused: Exception) -> AgentResult:
    """Return how the attempt ends; raise what ends more than it."""
    if isinstance(refused, ReplayExhaustedError) and not gateway.calls:
        raise InfrastructureError(f"{refused}; give the agent that was recorded")
    for kind, ending in _ENDINGS.items():
        if isinstance(refused, kind):
            return AgentResult(None, str(refused), ending)
    raise refused


def _notes(gateway: Gateway) -> Iterator[str]:
    if gateway.drift:
        answers = len(gateway.calls)
        yield f"{gateway.drift} of {answers} answers served to a changed request"
    for name, count in sorted(gateway.removed.items()):
        yield f"{name} removed from {count} requests"
