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

from environments.local.bubblewrap import bubblewrap_works
from tests.support import TOP, read_json, write_files
from tests.support.action import EXPRESSION, TOKEN, Action, Done, Runner, run_action
from tests.support.ownworld import make_repository

EXAMPLE = TOP / "docs/examples/retry-harness.yml"
GIVEN = {"issue": "add subtracts", "models": "gpt-4o", "budget-usd": "2"}
TRUST = "--set=project.trust_commands=true"
STUB = """#!{python}
import json, os, pathlib, sys
called = {{"words": sys.argv[1:], "variables": dict(os.environ), "folder": os.getcwd()}}
pathlib.Path({told!r}).write_text(json.dumps(called))
given = json.loads(pathlib.Path({given!r}).read_text())
print(given["printed"])
print("a note", file=sys.stderr)
sys.exit(given["code"])
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("job") / "workspace")


@pytest.fixture
def job(tmp_path: Path, workspace: Path) -> Runner:
    """A job in which the harness is installed, as a stub."""
    call_file = tmp_path / "called.json"
    reply_file = tmp_path / "given.json"
    stub = STUB.format(
        python=sys.executable, told=str(call_file), given=str(reply_file)
    )
    programs = "temp/retry-harness/venv/bin"
    write_files(tmp_path, {f"{programs}/retry-harness": stub})
    (tmp_path / programs / "retry-harness").chmod(0o755)
    (tmp_path / programs / "python").symlink_to(sys.executable)
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
    (job.folder / "given.json").write_text(reply)
    named = {name.replace("_", "-"): value for name, value in inputs.items()}
    done = run_action(job, {**GIVEN, **named}, "run", HOME=str(job.folder))
    if call_file.exists():
        return done, read_json(call_file)
    return done, None


def options(called: Mapping[str, Any]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for word in called["words"]:
        name, _, value = word.partition("=")
        values.setdefault(name, []).append(value)
    return values


def test_inputs_and_outputs() -> None:
    action = Action.read()
    names = "issue models budget-usd attempts setup-cmd test-cmd trust-commands agent"
    assert set(action.inputs) == set(names.split())
    assert {*action.outputs} == {"outcome", "patch", "branch", "cost-usd", "summary"}
    used: set[str] = set()
    for step in action.steps:
        for value in step.get("env", {}).values():
            used.update(EXPRESSION.findall(value))
    assert used == {"github.token", *(f"inputs.{name}" for name in action.inputs)}


def test_scripts_have_no_expressions_and_use_no_other_action() -> None:
    for step in Action.read().steps:
        assert "${{" not in step["run"]
        assert "uses" not in step
        assert step["shell"] == "bash"
    # The script names what the harness itself decides by.
    named = f"from {bubblewrap_works.__module__} import {bubblewrap_works.__name__}"
    assert any(named in step["run"] for step in Action.read().steps)


def test_the_example_is_pinned_and_starts_only_when_it_is_told_to() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    # YAML 1.1 reads `on` as true.
    assert {*workflow[True]} == {"issues", "workflow_dispatch"}
    assert workflow[True]["issues"] == {"types": ["labeled"]}
    assert workflow["permissions"] == {}
    for used in re.findall(r"uses: (.*)", text):
        placeholder = used.startswith("OWNER/REPOSITORY@")
        assert placeholder or re.fullmatch(
            r"actions/[\w-]+@[0-9a-f]{40}  # v[\d.]+", used
        ), used
    solving, publishing = workflow["jobs"].values()
    assert solving["permissions"] == {"contents": "read", "issues": "read"}
    assert "github.event.label.name == 'retry-harness'" in solving["if"]
    assert "outcome == 'plausible'" in publishing["if"]
    steps = [*solving["steps"], *publishing["steps"]]
    assert all("${{" not in step.get("run", "") for step in steps)
    (ours,) = (step for step in steps if step.get("uses", "").startswith("OWNER/"))
    assert {*ours["with"]} <= {*Action.read().inputs} and ours["with"]["budget-usd"]
    keys = [step for step in steps if "secrets." in str(step)]
    assert keys == [ours] and "secrets." not in str(publishing)
    assert solving["timeout-minutes"] and publishing["timeout-minutes"]


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
        assert Path(path).read_text().rstrip("\n") == text.rstrip("\n")
        assert options(called)["--models"] == ["gpt-4o"], text
        assert not list(job.folder.rglob("pwned")), text


def test_inputs_reach_the_harness(job: Runner, workspace: Path) -> None:
    inputs: dict[str, Any] = {
        "attempts": "2",
        "test_cmd": "make 'a b'",
        "agent": "codex",
    }
    _, called = start(job, setup_cmd="pip install -e .\n\n  make $X\n", **inputs)
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
    assert not {"--tries", "--setup-cmd", "--test-cmd", "--agent"} & {*options(called)}
    assert TRUST not in called["words"]
    _, called = start(job, trust_commands="true")
    assert TRUST in called["words"]


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
        assert (done.code, called) == (2, None)
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
    stopped = re.match(r"::stop-commands::(\w{32})\n", done.printed)
    assert stopped and "forged" in done.printed.split(f"::{stopped[1]}::")[0]
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
        outputs = (done.outputs["outcome"], done.outputs["cost-usd"])
        assert (done.code, *outputs) == (code, outcome, cost)
