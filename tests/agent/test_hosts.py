"""What each agent asks its host for, and how a command gets feedback."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from swe_retry.agent.agents import load_agent
from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.builtin import BuiltinAgent
from swe_retry.agent.command_agent import CommandAgent
from swe_retry.agent.conversation.result import Ending
from swe_retry.agent.protocol import AgentResult, Host, OpenHost, Task
from swe_retry.core.errors import StoppedError
from swe_retry.llm.chat import BudgetUsedError, Reply
from swe_retry.llm.gate import (
    CallOutcome,
    Failed,
    Gate,
    OpenGate,
    PlannedCall,
)
from swe_retry.llm.replay import ReplayModel
from tests.agent.test_command_agent import a_task
from tests.support import read_json, write_json

# Prints its message, and counts its sessions in a file.
CODE = "import sys; print(open(sys.argv[1]).read()); open('n', 'a').write('x')\n"


@dataclass
class ListingGate(OpenGate):
    """Lists what passes; refuses calls from a number on."""

    host: ListingHost

    def begin(self, call: PlannedCall) -> str:
        self.host.events.append("begin")
        if len(self.host.calls) >= self.host.budget:
            raise BudgetUsedError("the budget is used up")
        self.host.calls.append(call)
        return "ticket"

    def end(self, ticket: str, outcome: CallOutcome) -> bool:
        self.host.events.append("end")
        self.host.outcomes.append(outcome)
        return True


@dataclass
class ListingHost(Host):
    """Lists what it is asked for; finds ``problems`` with trees, one after the other."""

    problems: list[str] = field(default_factory=list)
    budget: int = 99
    killed: bool = False
    events: list[str] = field(default_factory=list)
    calls: list[PlannedCall] = field(default_factory=list)
    outcomes: list[CallOutcome] = field(default_factory=list)

    def draw_map(self) -> str:
        self.events.append("map")
        return "the map"

    def let_others_work(self) -> AbstractContextManager[None]:
        return self._others()

    @contextmanager
    def _others(self) -> Iterator[None]:
        self.events.append("others work")
        yield
        self.events.append("others wait")

    def note_call(self) -> None:
        self.events.append("call")

    def open_gate(self) -> Gate:
        self.events.append("gate")
        return ListingGate(self)

    def settle_checkout(self) -> None:
        self.events.append("settle")

    def allow_reuse(self) -> None:
        self.events.append("reuse")

    def check_killed(self) -> None:
        self.events.append("killed?")
        if self.killed:
            raise StoppedError("killed")

    def review_tree(self) -> str:
        self.events.append("review")
        if self.problems:
            return self.problems.pop(0)
        return ""


def command(code: str, rounds: int = 0) -> CommandAgent:
    argv = [sys.executable, "-c", code, "{message_file}"]
    settings = AgentSettings(timeout=20, feedback=rounds)
    agent = load_agent(f"command:{shlex.join(argv)}", settings)
    assert isinstance(agent, CommandAgent)
    return agent


def task_of(root: Path, host: Host) -> Task:
    return replace(a_task(root), host=host)


SESSION = ["others work", "gate", "begin", "killed?", "end", "others wait"]


def test_without_a_run_a_host_does_nothing(tmp_path: Path) -> None:
    task = a_task(tmp_path)
    assert task.host == OpenHost()
    with task.host.let_others_work():
        assert command(CODE, rounds=3).work(task) == AgentResult()
    assert (tmp_path / "n").read_text() == "x", "there is nobody to find a problem"
    assert task.host.draw_map() == ""
    assert OpenHost(lambda: "a map").draw_map() == "a map"
    assert ReplayModel([Reply("a")]).complete([]) == Reply("a")
    assert isinstance(task.host.open_gate(), OpenGate)


def test_a_command_books_one_call_for_each_session(tmp_path: Path) -> None:
    host = ListingHost(["first problem", "second problem"])
    task = task_of(tmp_path, host)
    assert command(CODE, rounds=5).work(task) == AgentResult()
    assert host.events == [
        "settle",
        *SESSION,
        "review",
        *SESSION,
        "review",
        *SESSION,
        "review",
    ]
    assert [call.model for call in host.calls] == [task.model_name] * 3
    assert len({call.request_sha256 for call in host.calls}) == 3
    answered = [outcome for outcome in host.outcomes if isinstance(outcome, Reply)]
    assert answered == list(task.transcript.calls)
    messages = task.transcript.messages
    requests = [message.content for message in messages if message.role == "user"]
    assert requests[0] == task.message
    assert "first problem" in requests[1]
    assert "second problem" in requests[2]
    first_line = task.message.splitlines()[0]
    for request in requests:
        assert first_line in request


def test_there_are_at_most_so_many_rounds(tmp_path: Path) -> None:
    host = ListingHost(["a problem"] * 9)
    command(CODE, rounds=2).work(task_of(tmp_path, host))
    assert (tmp_path / "n").read_text() == "xxx"
    assert host.events.count("review") == 2


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_command_that_fails_gets_no_feedback(tmp_path: Path, rounds: int) -> None:
    host = ListingHost(["a problem"])
    failing = command("raise SystemExit(3)", rounds)
    result = failing.work(task_of(tmp_path, host))
    assert result.ending is Ending.FAILED
    assert "review" not in host.events


def test_a_budget_refuses_a_session_before_it_runs(tmp_path: Path) -> None:
    host = ListingHost(["a problem"], budget=1)
    task = task_of(tmp_path, host)
    result = command(CODE, rounds=1).work(task)
    assert result.result is not None
    assert result.result.ending is Ending.BUDGET
    assert result.error == "the budget is used up"
    assert (tmp_path / "n").read_text() == "x"
    assert len(host.calls) == 1
    assert len(host.outcomes) == 1


def test_a_killed_command_may_be_billed(tmp_path: Path) -> None:
    host = ListingHost(killed=True)
    with pytest.raises(StoppedError):
        command(CODE, rounds=1).work(task_of(tmp_path, host))
    assert host.outcomes == [Failed("killed", transient=False, billed=True)]


def test_the_built_in_agent_waits_for_its_model_and_allows_reuse(
    tmp_path: Path,
) -> None:
    host = ListingHost()
    model = ReplayModel([Reply("That is all.")], waiting=host.let_others_work)
    task = replace(task_of(tmp_path, host), model=model, edit_format="diff")
    BuiltinAgent().work(task)
    assert host.events[:4] == ["reuse", "map", "others work", "others wait"]
    assert "the map" in task.transcript.messages[1].content


class Stranger:
    """An agent of another package."""

    def work(self, task: Task) -> AgentResult:
        seen = [task.repo_map, task.model.complete([]).content]
        write_json(task.root / "seen", seen)
        return AgentResult()


def test_an_agent_of_another_package_may_write_at_once(tmp_path: Path) -> None:
    host = ListingHost()
    agent = load_agent("tests.agent.test_hosts:Stranger")
    model = ReplayModel([Reply("waited for")], waiting=host.let_others_work)
    task = replace(task_of(tmp_path, host), model=model)
    assert agent.work(task) == AgentResult()
    assert host.events == ["settle", "map", "others work", "others wait"]
    assert "reuse" not in host.events
    assert read_json(tmp_path / "seen") == ["the map", "waited for"]
