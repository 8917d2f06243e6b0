"""Agents in the environment in which the instance's tests run."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.named.description import NamedAgent
from swe_retry.attempts.config import RunConfig
from swe_retry.core.errors import UserError
from swe_retry.demo.images import build_images
from swe_retry.environments.base import EnvironmentKind
from tests.agent.gateway.conftest import (
    COSTS,
    EDIT,
    ID,
    NEW,
    GatewayRuns,
    agent_command,
    agent_config,
    cost_of,
    needs_bubblewrap,
)
from tests.agent.gateway.test_named import SED, SUBMIT, TOOLS, config_of, dialect_of
from tests.agent.gateway.test_named import agent as agent  # a fixture
from tests.support import still_running
from tests.support.commands import Preloaded
from tests.support.dialects import AGENT, Turn
from tests.support.environments import IMAGE
from tests.support.ownworld import make_repository
from tests.support.runs import but

# The issue's test, outside of the checkout: it imports what is installed.
TEST = """cat >/tmp/test_issue.py <<END
from textkit.slug import slugify
def test_issue():
    assert slugify("Hello,  World") == "hello-world"
END
cd / && pytest -q -p no:cacheprovider /tmp/test_issue.py"""
LEFT = """python -c 'import textkit; print("from", textkit.__file__)'
echo "user $(id -u)"
[ "$(sh -lc 'echo $PATH')" = "$PATH" ] || echo "a login shell lacks the path"
echo "networks $(grep -c : /proc/net/dev)"
git log --oneline --all | wc -l | sed 's/^/commits /'
for path in $(dirname $(command -v python))/left /usr/left /left; do
    touch $path 2>/dev/null && echo "wrote $path"; done
touch /tmp/left $HOME/left
(setsid sleep 4321.5 >/dev/null 2>&1 &)"""
ENVIRONMENTS = [
    pytest.param(EnvironmentKind.LOCAL, marks=needs_bubblewrap),
    pytest.param(EnvironmentKind.DOCKER, marks=pytest.mark.docker),
]


def shell(command: str) -> tuple[str, dict[str, Any]]:
    return "shell", {"command": command}


TURNS = (
    Turn("I see it fail.", shell(TEST)),
    Turn("I edit.", ("replace", EDIT)),
    Turn("I see it pass.", shell(TEST)),
    Turn("I look around.", shell(LEFT)),
    Turn("It is done."),
)


def config_in(environment: EnvironmentKind, **changes: Any) -> RunConfig:
    if environment is EnvironmentKind.DOCKER:
        build_images([ID])
    return agent_config("chat", environment=environment, agent_timeout=120, **changes)


def tool_results(runs: GatewayRuns) -> list[str]:
    (attempt,) = runs.attempts()
    results = []
    for message in attempt["messages"]:
        if message["role"] == "tool":
            results.append(message["content"])
    return results


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_agent_runs_the_tests_of_its_own_checkout(
    runs: GatewayRuns, environment: EnvironmentKind
) -> None:
    with runs.serve(turns=TURNS) as stub:
        prediction = runs.solve(config_in(environment))
    assert prediction["status"] == "plausible", (prediction["reason"], runs.log())
    before, _, after, left = tool_results(runs)
    assert "1 failed" in before, before
    assert "1 passed" in after, after
    assert "from /testbed/textkit/__init__.py" in left, left
    assert "commits 1\n" in left
    assert "wrote" not in left
    assert "lacks" not in left, left
    assert "networks 1\n" in left
    if environment is EnvironmentKind.DOCKER:
        assert "user 65533\n" in left or os.geteuid()
    assert not still_running("4321.5")
    assert NEW in prediction["model_patch"]
    assert "left" not in prediction["model_patch"]
    assert stub.billed == len(TURNS)
    assert cost_of(prediction) == len(TURNS) * COSTS["chat"]
    replayed = config_in(environment, run="again", replay=runs.recorded)
    again = runs.solve(replayed)
    assert again["model_patch"] == prediction["model_patch"], again["reason"]
    assert stub.billed == len(TURNS)


@pytest.mark.docker
def test_an_agent_that_cannot_start_in_the_image_is_named(runs: GatewayRuns) -> None:
    program = runs.folder / "bin/qwen"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho the libc of this image is old; exit 3\n")
    program.chmod(0o755)
    runs.monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    config = config_in(EnvironmentKind.DOCKER, agent="qwen-code", agent_api=())
    with runs.serve() as stub, pytest.raises(UserError) as refused:
        runs.start(config)
    assert "qwen does not start in the image" in str(refused.value)
    assert "the libc of this image is old" in str(refused.value)
    assert "--environment local" in str(refused.value)
    assert not stub.requests


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_agent_works_on_a_repository_of_the_user_with_its_setup(
    runs: GatewayRuns, preloaded: Preloaded, environment: EnvironmentKind
) -> None:
    repository = make_repository(runs.folder / "calc")
    look = shell("pytest -q -p no:cacheprovider; python -c 'import calc'")
    settings = ["agent.api=openai", "agent.sandbox=closed"]
    if environment is EnvironmentKind.DOCKER:
        settings.append(f"project.image={IMAGE}")
    settings += [f"folders.cache={runs.cache}", f"agent.sandbox_read={AGENT}"]
    options = [*("--repo", repository), *("--issue", "add subtracts")]
    options += ["--environment", environment.value, "--out", runs.folder]
    options += ["--setup-cmd", "true", "--test-cmd", "pytest", "--models", "gpt-4o"]
    options += ["--agent", agent_command("chat"), "--budget-usd", "5"]
    for setting in settings:
        options += ["--set", setting]
    edit = {"path": "lib/calc.py", "old": "a - b", "new": "a + b"}
    turns = (Turn("I look.", look), Turn("I edit.", ("replace", edit)), Turn("Done."))
    with runs.serve(turns=turns):
        command = preloaded.start(*map(str, options), cwd=runs.folder)
        printed, _ = command.communicate()
    assert command.returncode == 0, printed
    (trajectory,) = runs.folder.glob("predictions/*/trajectories/*.json")
    assert "2 passed" in trajectory.read_text()


@dataclass(frozen=True)
class Issue:
    """An instance, and the shell commands of a model that knows its solution.

    Attributes:
        test: runs one test that the solution lets pass.
        dataset: as runs name it, and ``mirrors`` with it.
    """

    instance: str
    test: str
    edit: str
    dataset: str = "demo"
    mirrors: Path | None = None


def read_issues() -> Iterator[Issue]:
    """Yield the demo's, and those of the rows with test lists that ``SWE_ROWS`` names."""
    yield Issue(ID, TEST, SED)
    path = os.environ.get("SWE_ROWS", os.devnull)
    for line in Path(path).read_text().splitlines():
        row = json.loads(line)
        if "FAIL_TO_PASS" in row:
            test = shlex.quote(row["FAIL_TO_PASS"][0])
            lines = [
                apply_line(row["test_patch"]),
                f"python -m pytest -q -p no:cacheprovider {test}",
                apply_line(row["test_patch"], "--reverse"),
            ]
            mirrors = Path(os.environ["SWE_MIRRORS"])
            edit = apply_line(row["patch"])
            yield Issue(row["instance_id"], "\n".join(lines), edit, path, mirrors)


def apply_line(patch: str, option: str = "") -> str:
    return f"git apply {option} - <<'END'\n{patch}\nEND"


def run_in_shell(agent: NamedAgent, command: str) -> tuple[str, dict[str, Any]]:
    name, arguments = TOOLS[agent.name]
    filled = {}
    for key, value in arguments.items():
        filled[key] = command if value == SED else value
    return name, filled


@pytest.mark.agents
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("issue", list(read_issues()), ids=lambda issue: issue.instance)
def test_a_real_agent_runs_the_tests_before_and_after_its_edit(
    runs: GatewayRuns, agent: NamedAgent, issue: Issue, environment: EnvironmentKind
) -> None:
    if agent.name == "aider":
        pytest.skip("it has no shell tool")
    if environment is EnvironmentKind.DOCKER and not issue.mirrors:
        build_images([ID])
    runs.instance = issue.instance
    runs.dataset = issue.dataset
    last = SUBMIT if agent.name == "mini-swe-agent" else None
    turns = (
        Turn("I see it fail.", run_in_shell(agent, issue.test)),
        Turn("I edit.", run_in_shell(agent, issue.edit)),
        Turn("I see it pass.", run_in_shell(agent, issue.test)),
        Turn("It is done.", last),
    )
    chosen = config_of(agent, environment=environment)
    with runs.serve(turns=turns) as stub:
        prediction = runs.solve(chosen, repos=issue.mirrors)
    assert prediction["status"] == "plausible", (prediction["reason"], runs.log())
    results = "\n".join(tool_results(runs))
    # Agents may repeat a conversation.
    assert -1 < results.find("1 failed") < results.rfind("1 passed"), results
    assert prediction["model_patch"]
    assert cost_of(prediction) == stub.billed * COSTS[dialect_of(agent)]
    billed = stub.billed
    again = runs.solve(
        but(chosen, run="again", replay=runs.recorded), repos=issue.mirrors
    )
    assert again["model_patch"] == prediction["model_patch"], again["reason"]
    assert stub.billed == billed
