"""Run the steps of action.yml as GitHub does, here or in a container, without GitHub."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support import TOP

EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
TOKEN = "ghs_sentinel0123456789abcdef"


@dataclass(frozen=True)
class Action:
    """What action.yml says."""

    inputs: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, str]
    steps: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls) -> Action:
        content = yaml.safe_load((TOP / "action.yml").read_text(encoding="utf-8"))
        assert content["runs"]["using"] == "composite"
        outputs = {name: each["value"] for name, each in content["outputs"].items()}
        return cls(content["inputs"], outputs, content["runs"]["steps"])


def _evaluate(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with its expressions replaced; an expression without a value fails."""
    return EXPRESSION.sub(lambda match: values[match[1]], text)


def _outputs(text: str) -> dict[str, str]:
    """Return what a file of GITHUB_OUTPUT says, in its form for several lines."""
    lines = iter(text.splitlines())
    outputs = {}
    for line in lines:
        name, end = line.split("<<")
        value = []
        part = next(lines)
        while part != end:
            value.append(part)
            part = next(lines)
        outputs[name] = "\n".join(value)
    return outputs


@dataclass(frozen=True)
class Runner:
    """A machine with the folders of a job; this one, unless the commands lead elsewhere.

    Attributes:
        into: what stands before a command.
        folder: all of the job's folders lie below it.
        action: the folder of the project.
    """

    folder: Path
    action: Path = TOP
    into: Sequence[str] = ()

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def temp(self) -> Path:
        return self.folder / "temp"

    def command(
        self, script: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script as the shell of a step does, in the workspace."""
        assignments = [f"{name}={value}" for name, value in variables.items()]
        env = ("env", "-C", str(self.workspace), *assignments)
        return subprocess.run(
            [*self.into, *env, *SHELL, "-c", script],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
            env={key: value for key, value in os.environ.items() if "GIT" not in key},
        )

    def read(self, path: Path | str) -> str:
        result = self.command(f"cat '{path}'")
        assert result.returncode == 0, result.stderr
        return result.stdout


@dataclass(frozen=True)
class Done:
    """What came of an action.

    Attributes:
        code: of the last step that ran.
        printed: standard output and error of all steps.
        seconds: of each step that ran, by its name.
    """

    code: int
    printed: str
    outputs: Mapping[str, str]
    summary: str
    seconds: Mapping[str, float]


def run_action(
    runner: Runner,
    inputs: Mapping[str, str],
    only: str = "",
    **variables: str,
) -> Done:
    """Run the steps in order until one fails; ``only`` names the one to run, by its id.

    ``variables`` are what the calling workflow sets.
    """
    action = Action.read()
    assert set(inputs) <= set(action.inputs)
    values = {"github.token": TOKEN}
    for name, description in action.inputs.items():
        default = str(description.get("default", ""))
        values[f"inputs.{name}"] = inputs.get(name, default)
    files = runner.folder / "files"
    job = {
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "me/calc",
        **variables,
        "GITHUB_ACTION_PATH": str(runner.action),
        "GITHUB_WORKSPACE": str(runner.workspace),
        "RUNNER_TEMP": str(runner.temp),
        "GITHUB_OUTPUT": f"{files}/output",
        "GITHUB_STEP_SUMMARY": f"{files}/summary.md",
    }
    code = 0
    printed = ""
    seconds = {}
    for step in action.steps:
        name = step.get("id", "")
        if only not in ("", name):
            continue
        env = dict(job)
        for key, value in step.get("env", {}).items():
            env[key] = _evaluate(value, values)
        runner.command(
            f"mkdir -p '{files}'; : >'{files}/output'; touch '{files}/summary.md'"
        )
        start = time.monotonic()
        result = runner.command(step["run"], **env)
        seconds[step["name"]] = round(time.monotonic() - start, 1)
        code = result.returncode
        printed += result.stdout + result.stderr
        if name:
            for key, value in _outputs(runner.read(files / "output")).items():
                values[f"steps.{name}.outputs.{key}"] = value
        if code:
            break
    # An output of a step that did not run is empty.
    for output in action.outputs.values():
        values = {**dict.fromkeys(EXPRESSION.findall(output), ""), **values}
    outputs = {key: _evaluate(value, values) for key, value in action.outputs.items()}
    return Done(code, printed, outputs, runner.read(files / "summary.md"), seconds)
