"""Coding agents that do not start, and what is printed of an agent that is tried."""

from __future__ import annotations

import re
import shlex

import pytest

from swe_retry.agent.command_agent import last_lines
from swe_retry.cli.trial import try_agent
from swe_retry.core.errors import UserError
from tests.agent.gateway.conftest import (
    NEW,
    GatewayRuns,
    agent_config,
    needs_bubblewrap,
)
from tests.support.runs import but, options

NODE = """node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/opt/codex.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2
"""
BUN = """1 | throw new Error("no home")
error: no home
      at /opt/agent.js:1:7

Bun v1.3.1 (Linux x64)
"""
PYTHON = """Traceback (most recent call last):
  File "/opt/agent", line 3, in <module>
    main()
  File "/opt/agent", line 2, in main
    raise ImportError("No module named 'mcp'")
ImportError: No module named 'mcp'
"""
RUST = """
thread 'main' panicked at src/main.rs:4:5:
no configuration
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""


@pytest.mark.parametrize(
    ("output", "end"),
    [
        (NODE, "Error: Cannot find module '/opt/codex.js'"),
        (BUN, "error: no home"),
        (PYTHON, "ImportError: No module named 'mcp'"),
        ("\x1b[31mnot logged in\x1b[0m\nrun: agent login\n", "run: agent login"),
        ("    only indented\n", "only indented"),
        ("", ""),
    ],
)
def test_the_last_lines_are_those_of_the_agent_and_not_of_its_runtime(
    output: str, end: str
) -> None:
    assert last_lines(output).endswith(end)
    assert "\x1b" not in last_lines(output)


def test_more_than_the_last_line_is_said() -> None:
    assert "no configuration" in last_lines(RUST)
    assert "not logged in" in last_lines("not logged in\nrun: agent login\n")


@needs_bubblewrap
@pytest.mark.parametrize(
    ("code", "end"),
    [
        (f"printf '%s' {shlex.quote(NODE)} >&2; exit 1", "with exit code 1: "),
        (f"printf '%s' {shlex.quote(NODE)}; exit 1", "with exit code 1: "),
        (f"printf '%s' {shlex.quote(NODE)}; exit 0", "with exit code 0: "),
    ],
)
def test_an_agent_that_does_not_start_says_why_itself(
    runs: GatewayRuns, code: str, end: str
) -> None:
    agent = f"command:{shlex.join(['sh', '-c', code])}"
    config = agent_config("messages", agent=agent)
    lines: list[str] = []
    assert try_agent(options(runs.folder, runs.cache).of(config), lines.append) == 1
    text = "\n".join(lines)
    (problem,) = [line for line in lines if line.startswith("ended ")]
    assert end in problem
    assert "Cannot find module '/opt/codex.js'" in problem
    assert "requireStack: []" in text, "all its output is printed"
    assert "cost      $0" in text
    assert "none: no change is left" in text
    lines.clear()
    runs.start(config, say=lines.append)
    assert "Cannot find module '/opt/codex.js'" in runs.unfinished()["reason"]
    assert "same command continues" not in lines[-1]
    assert "then repeat the command" in lines[-1]


@needs_bubblewrap
def test_a_template_has_the_address_and_the_token(runs: GatewayRuns) -> None:
    argv = ["sh", "-c", 'echo "$0 $1"', "{address}/v1", "<{token}>"]
    config = agent_config("messages", agent=f"command:{shlex.join(argv)}")
    lines: list[str] = []
    try_agent(options(runs.folder, runs.cache).of(config), lines.append)
    assert re.search(r"http://127\.0\.0\.1:8080/v1 <[0-9a-f]{32}>", "\n".join(lines))
    alone = but(config, agent_api=())
    with pytest.raises(UserError, match=r"unknown placeholder \{address\}"):
        try_agent(options(runs.folder, runs.cache).of(alone), lines.append)


@needs_bubblewrap
def test_an_agent_is_tried(runs: GatewayRuns) -> None:
    lines: list[str] = []
    with runs.serve():
        config = agent_config("messages", "stream")
        assert try_agent(options(runs.folder, runs.cache).of(config), lines.append) == 0
    text = "\n".join(lines)
    assert "ended     exit code 0" in text
    assert "cost      $0.0092" in text
    assert "the agent has ended" in text, "what it printed"
    assert NEW in text.partition("--- the predicted patch ---")[2]
