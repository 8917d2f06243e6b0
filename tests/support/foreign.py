"""Conversations in the layouts of other harnesses, and runs that those make for real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.git import git
from swe_retry.instances.dataset import load_dataset
from tests.support import write_json
from tests.support.provider import Answer, Provider

NAME = "demo__textkit-1"
PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one = 1\n+one = 2\n"


@dataclass(frozen=True)
class Turn:
    """A reply with one action, and what it returned."""

    text: str
    command: str
    seen: str

    @property
    def arguments(self) -> dict[str, str]:
        return {"command": self.command}

    @property
    def call(self) -> dict[str, Any]:
        function = {"name": "bash", "arguments": json.dumps(self.arguments)}
        return {"id": "c", "type": "function", "function": function}


@dataclass(frozen=True)
class Talk:
    """A conversation on one instance."""

    turns: tuple[Turn, ...]
    prompt: str = "Resolve the issue."
    patch: str = PATCH
    name: str = NAME


def mini(
    talk: Talk,
    folder: Path,
    *,
    tools: bool = True,
) -> Path:
    messages: list[dict[str, Any]] = [{"role": "user", "content": talk.prompt}]
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    for turn in talk.turns:
        extra = {
            "cost": 0.25,
            "response": {"usage": usage},
            "actions": [turn.arguments],
        }
        reply: dict[str, Any] = {
            "role": "assistant",
            "content": turn.text,
            "extra": extra,
        }
        seen: dict[str, Any] = {
            "role": "user",
            "content": turn.seen,
            "extra": {"returncode": 0},
        }
        if tools:
            reply["tool_calls"] = [turn.call]
            seen |= {"role": "tool", "tool_call_id": "c"}
        messages += [reply, seen]
    ending = {"exit_status": "Submitted", "submission": talk.patch}
    stats = {"instance_cost": 0.25 * len(talk.turns), "api_calls": len(talk.turns)}
    info = {"model_stats": stats, "config": {"model": {"model_name": "m"}}, **ending}
    messages.append({"role": "exit", "content": talk.patch, "extra": ending})
    data = {"info": info, "messages": messages, "instance_id": talk.name}
    write_json(folder / talk.name / f"{talk.name}.traj.json", data)
    return folder


def mini_text(talk: Talk, folder: Path) -> Path:
    return mini(talk, folder, tools=False)


def atif(talk: Talk, folder: Path) -> Path:
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "user", "message": talk.prompt}
    ]
    for number, turn in enumerate(talk.turns, 2):
        call = {
            "tool_call_id": "c",
            "function_name": "bash",
            "arguments": turn.arguments,
        }
        result = {"source_call_id": "c", "content": turn.seen}
        metrics = {"prompt_tokens": 10, "completion_tokens": 2, "cost_usd": 0.25}
        step = {
            "step_id": number,
            "source": "agent",
            "message": turn.text,
            "metrics": metrics,
        }
        steps.append(
            {**step, "tool_calls": [call], "observation": {"results": [result]}}
        )
    data = {
        "schema_version": "ATIF-v1.6",
        "session_id": talk.name,
        "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": steps,
    }
    write_json(folder / "trial/agent/trajectory.json", data)
    return folder


def extensions(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the extensions of ours in a JSON value."""
    if isinstance(value, list):
        for part in value:
            yield from extensions(part)
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "swe_retry_harness":
                yield part
            yield from extensions(part)


VENVS = "FOREIGN_VENVS"
"""Names a folder with the virtual environments ``mini`` and ``harbor``."""

PACKAGES = {
    # litellm imports mcp without requiring it.
    "mini": ("mini-swe-agent==2.4.6", "mcp"),
    "harbor": ("harbor==0.25.0",),
}
ROWS = {str(row["instance_id"]): row for row in load_dataset("demo", "test").rows}
RESOLVED = "demo__textkit-1"
WRONG = "demo__bank-1"
CRASHED = "demo__units-1"
SUBMIT = (
    "git add -A && git diff --cached > /tmp/p.$$ && git reset -q && "
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /tmp/p.$$ && rm /tmp/p.$$"
)
SED = "sed -i 's/other.deposit(amount)/other.deposit(amount)  # later/' bank/account.py"
_ENV = {
    "PATH": os.environ["PATH"],
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_CONFIGURED": "true",
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
}


def python_of(name: str, folder: Path) -> Path:
    """Return the Python of a virtual environment with the packages of ``name``; made if needed.

    Skips the test where Python 3.12 or the package index is missing.
    """
    environments = os.environ.get(VENVS)
    if environments and (Path(environments) / name / "bin/python").exists():
        return Path(environments) / name / "bin/python"
    new = sorted(Path("~/.pyenv/versions").expanduser().glob("3.12*/bin/python"))
    newer = shutil.which("python3.12") or (new[-1] if new else None)
    if newer is None or name not in PACKAGES:
        pytest.skip(
            f"{name} needs Python 3.12, or a virtual environment in the folder {VENVS}"
        )
    made = folder / name
    subprocess.run([newer, "-m", "venv", made], check=True)
    install: list[str | Path] = [made / "bin/pip", "install", "-q", *PACKAGES[name]]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        pytest.skip(f"the package index does not give {', '.join(PACKAGES[name])}")
    return made / "bin/python"


def checkout(name: str, mirrors: Path, folder: Path) -> Path:
    """Clone the demo repository of an instance."""
    target = folder / name
    git(
        "clone",
        "-q",
        mirrors / f"{ROWS[name]['repo'].replace('/', '__')}.git",
        target,
        cwd=folder,
    )
    return target


def _call(command: str) -> Answer:
    call = ("bash", json.dumps({"command": command}))
    return Answer("I run it.", tool_calls=(call,), tokens=(1000, 50))


def run_mini(python: Path, mirrors: Path, folder: Path) -> Path:
    """Let mini-swe-agent work on three instances: one resolved, one wrong, one crashed."""
    out = folder / "mini-run"
    program = Path(__file__).with_name("mini_program.py")
    out.mkdir()
    keys = ("instance_id", "problem_statement", "repo", "base_commit")
    rows = []
    for n in (RESOLVED, WRONG, CRASHED):
        rows.append(
            {
                **{key: ROWS[n][key] for key in keys},
                "checkout": str(checkout(n, mirrors, folder)),
            }
        )
    write_json(folder / "rows.json", rows)
    gold = ROWS[RESOLVED]["patch"]
    with Provider() as provider:
        provider.will_answer(
            Answer("I only talk.", tokens=(900, 20)),
            _call("cat textkit/slug.py"),
            _call(f"git apply <<'EOF'\n{gold}EOF\ngit diff"),
            _call(SUBMIT),
            _call(SED),
            _call(SUBMIT),
            Answer(status=400),
        )
        command: list[str | Path] = [python, program, out, provider.url]
        command.append(folder / "rows.json")
        environment = {**_ENV, "HOME": str(folder)}
        subprocess.run(command, env=environment, capture_output=True, check=True)
    return out
