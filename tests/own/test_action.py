"""action.yml: what it says, and how its last step calls the harness, by a stub of it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from swe_retry.environments.local.bubblewrap import bubblewrap_works
from tests.support import TOP, read_json, write_files
from tests.support.action import EXPRESSION, TOKEN, Action, Done, Runner, run_action
from tests.support.ownworld import make_repository

EXAMPLE = TOP / "docs/examples/retry-harness.yml"
USUAL_INPUTS = {"issue": "add subtracts", "models": "gpt-4o", "budget-usd": "2"}
TRUST = "--set=project.trust_commands=true"
STUB = """#!{python}
import json, os, pathlib, sys
called = {{"arguments": sys.argv[1:], "variables": dict(os.environ), "folder": os.getcwd()}}
pathlib.Path({call_file!r}).write_text(json.dumps(called))
reply = json.loads(pathlib.Path({reply_file!r}).read_text())
print(reply["printed"])
print("a note", file=sys.stderr)
sys.exit(reply["code"])
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("job") / "workspace")


@pytest.fixture
def job(tmp_path: Path, workspace: Path) -> Runner:
    """A job in which the harness is installed, as a stub."""
    call_file = tmp_path / "called.json"
    reply_file = tmp_path / "reply.json"
    stub = STUB.format(
        python=sys.executable,
        call_file=str(call_file),
        reply_file=str(reply_file),
    )
    programs = tmp_path / "temp/retry-harness/venv/bin"
    write_files(programs, {"retry-harness": stub})
    (programs / "retry-harness").chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    (tmp_path / "workspace").symlink_to(workspace)
    return Runner(tmp_path)


def start(
    job: Runner,
    code: int = 0,
    printed: str = "",
    **inputs: str,
) -> tuple[Done, Any]:
    """Return what came of the last step, and how the harness was called."""
    call_file = job.folder / "called.json"
    call_file.unlink(missing_ok=True)
    reply = json.dumps({"code": code, "printed": printed})
    (job.folder / "reply.json").write_text(reply)
    all_inputs = dict(USUAL_INPUTS)
    for name, value in inputs.items():
        all_inputs[name.replace("_", "-")] = value
    done = run_action(job, all_inputs, "run", HOME=str(job.folder))
    if call_file.exists():
        return done, read_json(call_file)
    return done, None


def options(called: Mapping[str, Any]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for argument in called["arguments"]:
        name, _, value = argument.partition("=")
        values.setdefault(name, []).append(value)
    return values


def test_inputs_and_outputs() -> None:
    action = Action.read()
    names = "issue models budget-usd attempts setup-cmd test-cmd trust-commands agent"
    assert set(action.inputs) == set(names.split())
    assert set(action.outputs) == {"outcome", "patch", "branch", "cost-usd", "summary"}
    expressions: set[str] = set()
    for step in action.steps:
        variables = step.get("env", {})
        for value in variables.values():
            expressions.update(EXPRESSION.findall(value))
    of_inputs = {f"inputs.{name}" for name in action.inputs}
    assert expressions == {"github.token", *of_inputs}


def test_scripts_have_no_expressions_and_use_no_other_action() -> None:
    scripts = []
    for step in Action.read().steps:
        assert "${{" not in step["run"]
        assert "uses" not in step
        assert step["shell"] == "bash"
        scripts.append(step["run"])
    # A script names what the harness itself decides by.
    line = f"from {bubblewrap_works.__module__} import {bubblewrap_works.__name__}"
    assert any(line in script for script in scripts)


def test_the_example_is_pinned_and_starts_only_when_it_is_told_to() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    # YAML 1.1 reads `on` as true.
    events = workflow[True]
    assert set(events) == {"issues", "workflow_dispatch"}
    assert events["issues"] == {"types": ["labeled"]}
    assert workflow["permissions"] == {}
    for action in re.findall(r"uses: (.*)", text):
        if not action.startswith("OWNER/REPOSITORY@"):
            pinned = r"actions/[\w-]+@[0-9a-f]{40}  # v[\d.]+"
            assert re.fullmatch(pinned, action), action
    solving, publishing = workflow["jobs"].values()
    assert solving["permissions"] == {"contents": "read", "issues": "read"}
    assert "github.event.label.name == 'retry-harness'" in solving["if"]
    assert "outcome == 'plausible'" in publishing["if"]
    ours = []
    with_secrets = []
    for step in [*solving["steps"], *publishing["steps"]]:
        assert "${{" not in step.get("run", "")
        if step.get("uses", "").startswith("OWNER/"):
            ours.append(step)
        if "secrets." in str(step):
            with_secrets.append(step)
    (our_step,) = ours
    inputs = our_step["with"]
    assert set(inputs) <= set(Action.read().inputs)
    assert inputs["budget-usd"]
    assert with_secrets == ours
    assert "secrets." not in str(publishing)
    assert solving["timeout-minutes"]
    assert publishing["timeout-minutes"]


ADDRESS = "https://github.com/me/calc/issues/12"


def test_an_issue_of_the_server(job: Runner) -> None:
    for issue in ("12", "#12\n", f" {ADDRESS} "):
        _, called = start(job, issue=issue)
        assert options(called)["--issue"] == [ADDRESS]
        assert called["variables"]["GITHUB_TOKEN"] == TOKEN


TEXTS = (
    "/proc/self/environ",
    "-",
    "--apply",
    "$(touch pwned) `touch pwned` '; touch pwned; \" ${{ github.token }}",
    "12\n13",
    "a\nINPUT_MODELS=x\n::set-output name=branch::x\nEND\n",
)


def test_a_text_stays_a_text(job: Runner) -> None:
    for text in TEXTS:
        _, called = start(job, issue=text)
        (path,) = options(called)["--issue"]
        issue = Path(path).read_text()
        assert issue.rstrip("\n") == text.rstrip("\n")
        assert options(called)["--models"] == ["gpt-4o"], text
        assert not list(job.folder.rglob("pwned")), text


def test_inputs_reach_the_harness(job: Runner, workspace: Path) -> None:
    _, called = start(
        job,
        setup_cmd="pip install -e .\n\n  make $X\n",
        attempts="2",
        test_cmd="make 'a b'",
        agent="codex",
    )
    work = Path(called["folder"])
    # Not in the repository, whose files must configure nothing.
    assert work.parent == job.temp / "retry-harness"
    expected = {
        "--repo": [str(job.workspace)],
        "--environment": ["local"],
        "--tries": ["2"],
        "--budget-usd": ["2"],
        "--setup-cmd": ["pip install -e .", "  make $X"],
        "--test-cmd": ["make 'a b'"],
        "--agent": ["codex"],
        "--out": [str(work)],
        "--branch": [f"retry-harness/text-{work.suffix[1:]}"],
    }
    assert expected.items() <= options(called).items()
    assert "GIT_AUTHOR_NAME" not in called["variables"]  # the checkout has a user
    _, called = start(job)
    optional = {"--tries", "--setup-cmd", "--test-cmd", "--agent"}
    assert not optional & set(options(called))
    assert TRUST not in called["arguments"]
    _, called = start(job, trust_commands="true")
    assert TRUST in called["arguments"]


REFUSED_INPUTS = (
    ("issue", "", "issue is empty"),
    ("models", "", "models is empty"),
    ("budget_usd", "", "budget-usd is empty"),
    ("agent", "command:env", "name of an agent only"),
    ("agent", "os:system", "name of an agent only"),
    ("trust_commands", "yes", "true or false"),
)


def test_refused_inputs(job: Runner) -> None:
    for name, value, message in REFUSED_INPUTS:
        refused: dict[str, Any] = {name: value}
        done, called = start(job, **refused)
        assert done.code == 2
        assert called is None
        assert re.fullmatch(rf"::error::.*{message}.*\n", done.printed)
        assert not any(done.outputs.values())


def test_outputs_and_summary_of_a_run(job: Runner, tmp_path: Path) -> None:
    summary = tmp_path / "the summary.md"
    summary.write_bytes(b"x" * 2_000_000)
    result = {
        "outcome": "plausible, untested",
        "reason": "",
        "exit_code": 0,
        "cost_usd": "0.25",
        "patch": "/a b/\nbranch<<E\nforged\nE",
        "branch": None,
        "summary": str(summary),
    }
    counts = '::error::forged\n{"run": "r", "dollars": "0.1"}\n'
    done, _ = start(job, 0, counts + json.dumps(result))
    assert done.code == 0
    assert done.outputs == {
        "outcome": "plausible, untested",
        "patch": result["patch"],
        "branch": "",
        "cost-usd": "0.25",
        "summary": str(summary),
    }
    assert 1_000_000 < len(done.summary) < 1_001_000
    # Until the word that only the step knows, the runner takes no command from the output.
    stopping = re.match(r"::stop-commands::(\w{32})\n", done.printed)
    assert stopping
    between, _, _ = done.printed.partition(f"::{stopping[1]}::")
    assert "forged" in between
    assert "a note" in done.printed


ENDS = (
    (
        1,
        '{"outcome": "not plausible", "cost_usd": "1.5", "branch": null}',
        "not plausible",
        "1.5",
    ),
    (2, "", "", ""),
    (3, "no JSON", "", ""),
    (130, '{"run": "r", "dollars": "0.1"}', "", "0.1"),
)


def test_the_exit_code_is_that_of_the_harness(job: Runner) -> None:
    for code, printed, outcome, cost in ENDS:
        done, _ = start(job, code, printed)
        assert done.code == code
        assert done.outputs["outcome"] == outcome
        assert done.outputs["cost-usd"] == cost
