"""Run the steps of action.yml as GitHub does, here or in a container, without GitHub."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        said = yaml.safe_load((TOP / "action.yml").read_text(encoding="utf-8"))
        assert said["runs"]["using"] == "composite"
        outputs = {name: one["value"] for name, one in said["outputs"].items()}
        return cls(said["inputs"], outputs, said["runs"]["steps"])


def evaluated(text: str, known: Mapping[str, str]) -> str:
    """Return ``text`` with its expressions replaced; an expression that is not known fails."""
    return EXPRESSION.sub(lambda found: known[found[1]], text)


def values_of(text: str) -> dict[str, str]:
    """Return what a file of GITHUB_OUTPUT says, in its form for several lines."""
    lines = iter(text.splitlines())
    values = {}
    for line in lines:
        name, end = line.split("<<")
        value = []
        while (part := next(lines)) != end:
            value.append(part)
        values[name] = "\n".join(value)
    return values


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
        named = [f"{name}={value}" for name, value in variables.items()]
        words = [
            *self.into,
            "env",
            "-C",
            str(self.workspace),
            *named,
            *SHELL,
            "-c",
            script,
        ]
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
            env={key: value for key, value in os.environ.items() if "GIT" not in key},
        )

    def read(self, path: Path | str) -> str:
        done = self.command(f"cat '{path}'")
        assert done.returncode == 0, done.stderr
        return done.stdout


@dataclass(frozen=True)
class Done:
    """What came of an action.

    Attributes:
        code: of the last step that ran.
        printed: standard output and error of all steps.
        seconds: of each step that ran, by its name.
    """

    code: int = 0
    printed: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)


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
    done = Done()
    assert set(inputs) <= set(action.inputs)
    defaults = {
        name: str(one.get("default", "")) for name, one in action.inputs.items()
    }
    known = {f"inputs.{name}": value for name, value in {**defaults, **inputs}.items()}
    known["github.token"] = TOKEN
    files = runner.folder / "files"
    places = {
        "GITHUB_ACTION_PATH": runner.action,
        "GITHUB_WORKSPACE": runner.workspace,
        "RUNNER_TEMP": runner.temp,
        "GITHUB_OUTPUT": files / "output",
        "GITHUB_STEP_SUMMARY": files / "summary.md",
    }
    server = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "me/calc"}
    job = {
        **server,
        **variables,
        **{name: str(place) for name, place in places.items()},
    }
    for step in action.steps:
        name = step.get("id", "")
        if only not in ("", name):
            continue
        own = {
            key: evaluated(value, known) for key, value in step.get("env", {}).items()
        }
        runner.command(
            f"mkdir -p '{files}'; : >'{files}/output'; touch '{files}/summary.md'"
        )
        start = time.monotonic()
        ended = runner.command(step["run"], **{**job, **own})
        seconds = {**done.seconds, step["name"]: round(time.monotonic() - start, 1)}
        printed = done.printed + ended.stdout + ended.stderr
        done = replace(done, code=ended.returncode, printed=printed, seconds=seconds)
        if name:
            found = values_of(runner.read(files / "output"))
            known |= {
                f"steps.{name}.outputs.{key}": value for key, value in found.items()
            }
        if done.code:
            break
    # An output of a step that did not run is empty.
    texts = (EXPRESSION.findall(value) for value in action.outputs.values())
    known = {**{one: "" for found in texts for one in found}, **known}
    outputs = {name: evaluated(value, known) for name, value in action.outputs.items()}
    return replace(done, outputs=outputs, summary=runner.read(files / "summary.md"))
