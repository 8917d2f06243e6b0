"""Runs that other harnesses make for real, against a model on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.instances.dataset import load_dataset
from core.git import git
from tests.provider import Answer, Provider

VENVS = "FOREIGN_VENVS"
"""Names a folder with the virtual environments ``mini``, ``harbor``, ``inspect`` and ``sa``."""

SWE_AGENT = "SWE_AGENT"
"""Names a checkout of SWE-agent, which the package index does not have."""

PACKAGES = {
    # litellm imports mcp without requiring it.
    "mini": ("mini-swe-agent==2.4.6", "mcp"),
    "harbor": ("harbor==0.25.0",),
    "inspect": ("inspect_ai==0.3.285",),
}
ROWS = {str(row["instance_id"]): row for row in load_dataset("demo", "test").rows}
RESOLVED, WRONG, CRASHED = "demo__textkit-1", "demo__bank-1", "demo__units-1"
SUBMIT = (
    "git add -A && git diff --cached > /tmp/p.$$ && git reset -q && "
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /tmp/p.$$ && rm /tmp/p.$$"
)
SED = "sed -i 's/other.deposit(amount)/other.deposit(amount)  # later/' bank/account.py"
_ENV = {
    "PATH": os.environ["PATH"], "LITELLM_LOCAL_MODEL_COST_MAP": "True", "MSWEA_CONFIGURED": "true",
    "MSWEA_SILENT_STARTUP": "1", "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
}  # fmt: skip
_TEMPLATES = {
    "system_template": "You work in a shell.",
    "instance_template": "Resolve this issue:\n{{problem_statement}}",
    "next_step_template": "It printed:\n{{observation}}",
    "next_step_no_output_template": "It printed nothing.",
}


def python_of(name: str, folder: Path) -> Path:
    """Return the Python of a virtual environment with the packages of ``name``; made if needed.

    Skips the test where Python 3.12 or the package index is missing.
    """
    given = os.environ.get(VENVS)
    if given and (Path(given) / name / "bin/python").exists():
        return Path(given) / name / "bin/python"
    new = sorted(Path("~/.pyenv/versions").expanduser().glob("3.12*/bin/python"))
    newer = shutil.which("python3.12") or (new[-1] if new else None)
    if newer is None or name not in PACKAGES:
        pytest.skip(f"{name} needs Python 3.12, or a virtual environment in the folder {VENVS}")
    made = folder / name
    subprocess.run([newer, "-m", "venv", made], check=True)
    install = [made / "bin/pip", "install", "-q", *PACKAGES[name]]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        pytest.skip(f"the package index does not give {', '.join(PACKAGES[name])}")
    return made / "bin/python"


def checkout(name: str, mirrors: Path, folder: Path) -> Path:
    """Clone the demo repository of an instance."""
    target = folder / name
    git("clone", "-q", mirrors / f"{ROWS[name]['repo'].replace('/', '__')}.git", target, cwd=folder)
    return target


def _call(command: str) -> Answer:
    call = ("bash", json.dumps({"command": command}))
    return Answer("I run it.", tool_calls=(call,), tokens=(1000, 50))


def _block(command: str) -> Answer:
    return Answer(f"I run it.\n\n```bash\n{command}\n```", tokens=(1000, 50))


def run_mini(python: Path, mirrors: Path, folder: Path) -> Path:
    """Let mini-swe-agent work on three instances: one resolved, one wrong, one crashed."""
    out, program = folder / "mini-run", Path(__file__).with_name("mini_program.py")
    out.mkdir()
    keys = ("instance_id", "problem_statement", "repo", "base_commit")
    rows = [
        {**{key: ROWS[n][key] for key in keys}, "checkout": str(checkout(n, mirrors, folder))}
        for n in (RESOLVED, WRONG, CRASHED)
    ]
    (folder / "rows.json").write_text(json.dumps(rows))
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
        command = [python, program, out, provider.url, folder / "rows.json"]
        environment = {**_ENV, "HOME": str(folder)}
        subprocess.run(command, env=environment, capture_output=True, check=True)
    return out


def run_sweagent(place: Path, source: Path, mirrors: Path, folder: Path) -> Path:
    """Let SWE-agent work on two instances in containers: resolved after a rejected reply, wrong.

    Its local deployment writes into the home folder and the root folder, so it runs in a container.
    """
    out = folder / "sweagent-run"
    config: Mapping[str, Any] = {
        "agent": {
            "templates": _TEMPLATES,
            "tools": {
                "bundles": [{"path": str(source / "tools/submit")}],
                "parse_function": {"type": "single_bash_code_block"},
            },
            "model": {"name": "gpt-4o", "per_instance_cost_limit": 3, "total_cost_limit": 9},
        }
    }
    (folder / "sweagent.yaml").write_text(yaml.safe_dump(config))
    gold = ROWS[RESOLVED]["patch"]
    answers = {
        RESOLVED: [
            Answer("I only talk.", tokens=(900, 20)),
            _block("cat textkit/slug.py"),
            _block(f"git apply <<'EOF'\n{gold}EOF\ngit diff"),
            _block("submit"),
        ],
        WRONG: [_block(SED), _block("submit")],
    }
    for name, said in answers.items():
        tree = checkout(name, mirrors, folder)
        (folder / "issue.md").write_text(ROWS[name]["problem_statement"])
        with Provider() as provider:
            provider.will_answer(*said)
            _contained(place, source, folder, tree, name, provider.url, out)
    merged = [place.parent / "sweagent", "merge-preds", out]
    subprocess.run(merged, env={**_ENV, "HOME": str(folder)}, capture_output=True, check=True)
    return out


def _contained(
    python: Path, source: Path, folder: Path, tree: Path, name: str, url: str, out: Path
) -> None:
    options = [
        "--config", f"{folder}/sweagent.yaml", f"--agent.model.api_base={url}",
        "--agent.model.api_key=none", "--env.deployment.type=local",
        "--env.repo.type=preexisting", "--env.repo.repo_name=testbed", "--env.repo.reset=false",
        f"--problem_statement.path={folder}/issue.md", f"--problem_statement.id={name}",
        f"--output_dir={out}",
    ]  # fmt: skip
    real = python.resolve().parents[1]
    mounts = {str(folder), str(source), str(python.parents[1]), str(real)}
    script = f"cp -r {tree} /testbed && {python.parent}/sweagent run {' '.join(options)}"
    command = [
        "docker", "run", "--rm", "--network", "host", "-e", "LITELLM_LOCAL_MODEL_COST_MAP=True",
        *(word for mount in sorted(mounts) for word in ("-v", f"{mount}:{mount}")),
        "python:3.11-slim", "sh", "-c", script,
    ]  # fmt: skip
    subprocess.run(command, capture_output=True, check=True)
