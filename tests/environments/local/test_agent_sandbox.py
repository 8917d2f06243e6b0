"""``--agent-sandbox``: what a command can reach in the sandbox, with real bubblewrap."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.surroundings import CommandRun
from swe_retry.attempts.benchmark import agent_of
from swe_retry.attempts.config import RunConfig, validate_config
from swe_retry.cli.trial import try_agent
from swe_retry.core.errors import UserError
from swe_retry.environments.local.agentsandbox import AgentBubble
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.environments.programs import HostProgram, folder_to_show
from tests.attempts.test_agents import FIX, ID, outside
from tests.cli.test_options import here as here  # a fixture
from tests.support import write_files, write_json
from tests.support.provider import Provider
from tests.support.runs import but, options, read
from tests.support.start import run_command

needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap_works(), reason="bubblewrap is not installed"
)
PYTHON = tuple(dict.fromkeys(map(Path, (sys.prefix, sys.base_prefix))))
PROBE = """
import glob, json, os, socket, sys
def tried(what, *words):
    try:
        return what(*words)
    except OSError as error:
        return type(error).__name__
def write(path):
    with open(path, 'w') as stream:
        return stream.write('x')
def environments():
    found = [open(path, 'rb').read() for path in glob.glob('/proc/[0-9]*/environ')]
    return [len(found), any(b'ZQSENT' + b'INEL' in data for data in found)]
message, result, outside, shown, port, home = sys.argv[1:]
for path in (outside + '/new', '../new'):  # /tmp is a private one
    tried(write, path)
found = {
    'message': bool(open(message).read()),
    'written': [path for path in ('/usr/new', '/new', '/etc/new', shown, '/dev/new')
        if not isinstance(tried(write, path), str)],
    'secret': tried(open, outside + '/secret'),
    'home': tried(os.listdir, home),
    'shown': open(shown).read(),
    'processes': environments(),
    'connected': tried(socket.create_connection, ('127.0.0.1', int(port)), 2).__class__.__name__,
    'key': os.environ['MY_API_KEY'][::-1],
    'own': [write(os.environ[name] + '/x') for name in ('HOME', 'TMPDIR')],
    'niceness': os.nice(0),
    'session': tried(lambda: open('/proc/self/autogroup').read().split()[-1]),
}
open(result, 'w').write('{"cost": 0.25}')
print(json.dumps(found))
"""


def shut_in(
    code: str,
    *words: str,
    kind: str = "offline",
    **changes: Any,
) -> RunConfig:
    values = {
        "agent_sandbox": "open" if kind == "network" else "closed",
        "agent_sandbox_read": PYTHON,
        **changes,
    }
    return outside(code, *words, **values)


@needs_bubblewrap
@pytest.mark.parametrize("kind", ["network", "offline"])
def test_what_a_command_reaches_that_is_shut_in(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setenv("MY_API_KEY", "ZQ-mine-123")
    monkeypatch.setenv("OTHER_KEY", "ZQSENTINEL")
    (tmp_path / "secret").write_text("hidden")
    readable = tmp_path / "shown.txt"
    readable.write_text("to be read")
    port = provider.url.rsplit(":", 1)[1].split("/")[0]
    home = Path.home()
    arguments = (
        "{message_file}",
        "{result_file}",
        str(tmp_path),
        str(readable),
        port,
        str(home),
    )
    chosen = shut_in(
        PROBE + FIX,
        *arguments,
        kind=kind,
        agent_env=("MY_API_KEY",),
        agent_sandbox_read=(*PYTHON, readable),
    )
    out = tmp_path / "out"
    assert run_command(chosen, options(out, cache, ID), lambda _: None) == 0
    prediction = read(out, ID)
    assert prediction["status"] == "plausible", prediction["reason"]
    assert prediction["cost"] == 0.25
    (attempt,) = read(out, ID, "trajectories")["attempts"]
    seen = json.loads(attempt["messages"][1]["content"])
    above = set()
    for path in (*PYTHON, cache):
        if path.is_relative_to(home):
            above.add(path.relative_to(home).parts[0])
    listed = seen.pop("home")
    if listed != "FileNotFoundError":
        assert set(listed) == above, "nothing but the way to what is shown"
    for folder in (tmp_path, cache):
        assert not list(folder.rglob("new"))
    niceness = os.nice(0) + 10
    assert seen.pop("niceness") == niceness
    assert seen.pop("session") in (str(niceness), "FileNotFoundError")
    processes, sentinel = seen.pop("processes")
    assert processes <= 2, "its own and bubblewrap's"
    assert not sentinel
    connected = "str"
    decided = "closed"
    if kind == "network":
        connected = "socket"
        decided = "open"
    assert seen == {
        "message": True,
        "written": [],
        "secret": "FileNotFoundError",
        "shown": "to be read",
        "connected": connected,
        "key": "321-enim-QZ",
        "own": [1, 1],
    }
    run = read(out, "run")
    assert run["config"]["agent_sandbox"] == kind
    assert run["deciding"]["agent.sandbox"] == decided
    assert run["config"]["agent_sandbox_read"] == [*map(str, PYTHON), str(readable)]


@needs_bubblewrap
def test_wrong_commands_and_paths_are_refused(tmp_path: Path) -> None:
    def refusal(agent: str, *readable: Path) -> str:
        config = but(
            shut_in(""),
            agent=f"command:{agent}",
            agent_sandbox_read=readable,
        )
        with pytest.raises(UserError) as error:
            agent_of(config.with_cache(tmp_path))
        return str(error.value)

    assert "there is no command 'no-such-command'" in refusal("no-such-command")
    for path, problem in (
        ("/no/such", "there is no such path"),
        ("/", "cannot be shown"),
        ("/proc/self", "cannot be shown"),
    ):
        message = refusal("true", Path(path))
        assert path in message
        assert problem in message


def test_without_bubblewrap_it_is_refused(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "swe_retry.environments.local.agentsandbox.bubblewrap_works", lambda: False
    )
    with pytest.raises(UserError, match="install it"):
        run_command(shut_in("pass"), options(tmp_path, cache, ID), lambda _: None)
    lines: list[str] = []
    dry = options(tmp_path, cache, ID, dry_run=True)
    assert run_command(shut_in("pass"), dry, lines.append) == 2
    assert any(line.startswith("missing: agent.sandbox: bubblewrap") for line in lines)


def test_the_sandbox_of_the_builtin_agent_decides_nothing() -> None:
    sandboxed = validate_config(shut_in("", agent="builtin"))
    plain = validate_config(outside("", agent="builtin"))
    assert sandboxed.deciding() == plain.deciding()


@needs_bubblewrap
def test_an_agent_is_tried_in_the_sandbox(tmp_path: Path, cache: Path) -> None:
    lines: list[str] = []
    code = f"import os; print('seen:\\x1b[2J', os.path.exists({str(tmp_path)!r}))\n"
    config = options(tmp_path, cache).of(shut_in(FIX + code))
    assert try_agent(config, lines.append) == 0
    text = "\n".join(lines)
    assert "seen: False" in text
    assert "\x1b" not in text


@needs_bubblewrap
def test_the_options_come_from_files_too(
    tmp_path: Path,
    cache: Path,
    here: Callable[..., Any],
) -> None:
    tool = tmp_path / "tool"
    tool.symlink_to(sys.executable)
    agent = "command:" + shlex.join([str(tool), "-c", FIX])
    interpreters = Path(sys.executable).resolve().parent
    readable = [str(path) for path in (*PYTHON, tool, interpreters)]
    settings = {
        "agent": {
            "name": agent,
            "sandbox": "closed",
            "sandbox_read": readable,
        },
        "models": {"names": "my-a", "tries": 1},
        "instances": {"dataset": "demo", "ids": ID},
        "tests.environment": "none",
        "folders": {"run": "r", "out": str(tmp_path), "cache": str(cache)},
        "budget.allow_unpriced": True,
    }
    write_json(tmp_path / "c.yaml", settings)
    first = here("--config", "c.yaml")
    assert first.returncode == 0, first.stderr
    recorded = read(tmp_path, "run")["settings"]
    assert recorded["agent"]["sandbox_read"] == readable, "links stay links"
    again = here("--continue", "predictions/r")
    assert "1 done before" in again.stdout, again.stderr
    other = here("--continue", "predictions/r", "--set", "agent.sandbox=open")
    assert other.returncode == 2
    assert "agent.sandbox was closed, is open" in other.stderr
    wrong = here("--config", "c.yaml", "--set", "agent.sandbox=off")
    assert wrong.returncode == 2
    assert "agent.sandbox off:" in wrong.stderr


def test_of_a_program_in_the_home_folder_nothing_else_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "bin/codex"
    packages = tmp_path / "lib/node_modules/@google/cli/run.js"
    venv = tmp_path / "venvs/mini/bin/mini"
    for path in (program, packages, venv):
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
    (tmp_path / "venvs/mini/pyvenv.cfg").touch()
    python = tmp_path / "bin/python3"
    python.touch()
    assert folder_to_show(program) == program
    assert folder_to_show(packages) == tmp_path / "lib/node_modules"
    assert folder_to_show(venv) == tmp_path / "venvs/mini"
    assert folder_to_show(python) == python


# Prints where the script lies by its links, and what lies beside it, as node looks for modules.
INTERPRETER = """#!/bin/sh
echo "started $1 by the own interpreter"
cat "$(dirname "$(readlink -f "$1")")/beside"
"""
UV = "share/uv/tools/mini/bin"


@dataclass(frozen=True)
class Layout:
    """An agent as a package manager installs it: scripts, and links by their places."""

    program: str
    interpreter: str
    script: str
    shebang: str
    links: Mapping[str, str]


LAYOUTS = {
    "npm": Layout(
        program=".npm-global/bin/codex",
        interpreter="first/node",
        script=".npm-global/lib/node_modules/codex/bin/codex.js",
        shebang="/usr/bin/env node",
        links={".npm-global/bin/codex": "../lib/node_modules/codex/bin/codex.js"},
    ),
    "nvm": Layout(
        program=".nvm/current/bin/codex",
        interpreter=".nvm/versions/v22/bin/node",
        script=".nvm/versions/v22/lib/node_modules/codex/codex.js",
        shebang="/usr/bin/env -S node",
        links={
            ".nvm/current": "versions/v22",
            ".nvm/versions/v22/bin/codex": "../lib/node_modules/codex/codex.js",
        },
    ),
    "uv": Layout(
        program=".local/bin/mini",
        interpreter="share/uv/python/cpython-3.12.7/bin/python3.12",
        script=f"{UV}/mini",
        shebang="HOME/share/uv/tools/mini/bin/python",
        links={
            ".local/bin/mini": f"../../{UV}/mini",
            "share/uv/python/cpython-3.12": "cpython-3.12.7",
            f"{UV}/python": "../../../python/cpython-3.12/bin/python3.12",
        },
    ),
}


@needs_bubblewrap
@pytest.mark.parametrize("name", list(LAYOUTS))
def test_a_program_starts_as_it_does_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    layout = LAYOUTS[name]
    home = tmp_path / "home"
    texts = {
        layout.interpreter: INTERPRETER,
        layout.script: f"#!{layout.shebang.replace('HOME', str(home))}\n",
        str(Path(layout.script).with_name("beside")): "and what lies beside it",
        "share/uv/tools/mini/pyvenv.cfg": "",
        "share/uv/python/cpython-3.12.7/lib/x": "",
        "secret": "",
    }
    write_files(home, texts)
    for path in texts:
        (home / path).chmod(0o755)
    for path, target in layout.links.items():
        link = home / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    folders = [home / "first", home / ".nvm/current/bin", home / ".local/bin"]
    path = ":".join([*map(str, folders), "/usr/bin:/bin"])
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("HOME", str(home))
    program = HostProgram(home / layout.program, is_agent=True)
    bubble = AgentBubble(tuple(program.folders), network=False, program=program)
    for folder in ("root", "scratch/home", "scratch/tmp"):
        (tmp_path / folder).mkdir(parents=True)
    look = f"{program.path.name}; {program.path}; ls {home}/secret"
    command = CommandRun(
        argv=("sh", "-c", look),
        root=tmp_path / "root",
        scratch=tmp_path / "scratch",
        variables={"PATH": path, "HOME": str(home)},
        seconds=30,
        must_end=lambda: False,
        check=lambda: None,
    )
    result = bubble.run(command)
    assert result.output.count("by the own interpreter") == 2, result.output
    assert result.output.count("and what lies beside it") == 2
    assert "No such file" in result.output, "nothing else of the home folder is seen"
