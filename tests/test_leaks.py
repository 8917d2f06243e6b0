"""No held-out knowledge reaches the agent: a whole run is searched for sentinels."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import ModelChoice, SelectionRule, TestChoice
from swe_retry.core.processes import run_limited
from swe_retry.demo.images import build_images
from swe_retry.demo.setup import build_mirrors
from swe_retry.environments.base import EnvironmentKind
from swe_retry.instances.dataset import load_dataset
from tests.architecture import ROOMS, closure, imported_names, tree
from tests.fixtures import ShareVenvs
from tests.support import TOP
from tests.support.provider import Provider
from tests.support.runs import config, options, read
from tests.support.start import run_command

ID = "demo__textkit-1"
BELOW_ROWS = ROOMS[: ROOMS.index("swe_retry/record")]
SENTINELS = {
    "patch": "ZQHIDDEN_GOLD",
    "test_patch": "ZQHIDDEN_TEST_PATCH",
    "FAIL_TO_PASS": "ZQHIDDEN_F2P",
    "PASS_TO_PASS": "ZQHIDDEN_P2P",
    "hints_text": "ZQHIDDEN_HINT",
}
DIFF = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-1\n+{1}\n"
SCRIPT = "```python\nimport sys\n\nimport textkit\n\nsys.exit(2)\n```\n"
EDIT = (
    "textkit/slug.py\n```python\n<<<<<<< SEARCH\n    letters = []\n=======\n    letters = list()\n"
    ">>>>>>> REPLACE\n```\n"
)


def row() -> dict[str, Any]:
    """Return a demo instance with a sentinel in every hidden field and in the eval_script."""
    rows = load_dataset("demo", "test").rows
    fields = dict(next(r for r in rows if r["instance_id"] == ID))
    fields["patch"] = DIFF.format("textkit/ZQHIDDEN_GOLD.py", SENTINELS["patch"])
    tests = "tests/ZQHIDDEN_TEST_PATCH.py"
    fields["test_patch"] = DIFF.format(tests, SENTINELS["test_patch"])
    fields["FAIL_TO_PASS"] = [f"{tests}::{SENTINELS['FAIL_TO_PASS']}"]
    fields["PASS_TO_PASS"] = json.dumps([SENTINELS["PASS_TO_PASS"]])
    fields["hints_text"] = SENTINELS["hints_text"]
    fields["eval_script"] = (
        f"cd /testbed\nexport NOTE={tests}\ngit checkout 123 {tests}\n"
        f"git apply - <<'EOF_1'\n{fields['test_patch']}EOF_1\n"
        f": '>>>>> Start Test Output'\npython -m pytest -rA {tests}\n"
        f": '>>>>> End Test Output'\ngit checkout 123 {tests}\n"
    )
    return fields


def validity_of(valid: str, flaky: str) -> dict[str, Any]:
    """Return a validity file with a sentinel wherever it may name tests, patches or reasons."""
    trial = {
        "resolved": False,
        "failed": ["ZQHIDDEN_FAILED"],
        "reason": "ZQHIDDEN_REASON",
    }
    entry = {
        "gold": [trial],
        "empty": [trial],
        "flaky_tests": ["ZQHIDDEN_FLAKY"],
        "reason": "ZQHIDDEN_WHY",
        "image": "ZQHIDDEN_IMAGE",
    }
    instances = {valid: {"state": "valid", **entry}, flaky: {"state": "flaky", **entry}}
    return {
        "schema_version": 1,
        "evaluator": "ZQHIDDEN_EVALUATOR",
        "instances": instances,
    }


@pytest.mark.parametrize(
    "kind",
    [
        EnvironmentKind.NONE,
        EnvironmentKind.LOCAL,
        pytest.param(EnvironmentKind.DOCKER, marks=pytest.mark.docker),
    ],
)
def test_no_sentinel_in_any_message_command_log_or_file(
    kind: EnvironmentKind,
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    share_venvs: ShareVenvs,
) -> None:
    share_venvs(tmp_path / "cache/environments")
    if kind is EnvironmentKind.DOCKER:
        build_images([ID])
    dataset = tmp_path / "rows.json"
    flaky = {**row(), "instance_id": "demo__textkit-9"}
    dataset.write_text(json.dumps([row(), flaky]))
    validity = tmp_path / "validity.json"
    validity.write_text(json.dumps(validity_of(ID, "demo__textkit-9")))
    other = EDIT.replace("list()", "[*()]")
    provider.will_answer("textkit/slug.py", EDIT, "textkit/slug.py", other, SCRIPT)
    commands: list[object] = []
    _spy(monkeypatch, commands)
    chosen = config(
        models=(ModelChoice.parse("gpt-4o", any_name=True),),
        api_base=provider.url,
        environment=kind,
        tests=TestChoice.RELATED,
        replay=None,
        tries=2,
        all_attempts=True,
        select=SelectionRule.EVIDENCE,
    )
    run = options(
        tmp_path / "out",
        tmp_path / "cache",
        dataset=str(dataset),
        repos=build_mirrors(cache / "demo-mirrors"),
        only_valid=validity,
    )
    output: list[str] = []
    assert run_command(chosen, run, output.append) == 0
    # The last request asks for a script that tells the two candidates apart.
    expected: tuple[int, bool | None] = (11, True)
    if kind is EnvironmentKind.NONE:
        expected = (4, None)
    outcome = read(tmp_path / "out", ID)["test_outcome"]
    assert (len(provider.requests), outcome) == expected
    left_out = read(tmp_path / "out", "run")["only_valid"]["left_out"]
    assert left_out == {"demo__textkit-9": "flaky"}
    haystacks = {
        "requests": json.dumps(provider.requests),
        "commands": repr(commands),
        "output": "\n".join([*output, *capfd.readouterr()]),
    }
    for path in list(tmp_path.rglob("*")):
        if path.is_file() and path not in (dataset, validity):
            haystacks[str(path)] = path.read_bytes().decode("utf-8", "replace")
    assert any(source.endswith(".md") for source in haystacks)
    for source, text in haystacks.items():
        assert "ZQHIDDEN" not in text + source, source


def _spy(monkeypatch: pytest.MonkeyPatch, commands: list[object]) -> None:
    """Record every process that the harness starts and every command for a container."""
    real = subprocess.Popen.__init__

    def popen(self: Any, args: Any, *rest: Any, **named: Any) -> None:
        commands.append((args, named.get("env")))
        real(self, args, *rest, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", popen)
    from swe_retry.environments.docker.containers import Container

    for name in ("put", "bash"):
        monkeypatch.setattr(Container, name, noting(getattr(Container, name), commands))


def noting(method: Callable[..., Any], commands: list[object]) -> Callable[..., Any]:
    def note_call(self: Any, *args: Any, **named: Any) -> Any:
        commands.append((args, named))
        return method(self, *args, **named)

    return note_call


def test_the_spy_sees_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[object] = []
    _spy(monkeypatch, commands)
    run_limited(["echo", "SENTINEL"], tmp_path, {}, 10)
    assert "SENTINEL" in repr(commands)


def test_a_run_opens_no_verdict(tmp_path: Path, cache: Path) -> None:
    """``report.py`` may write verdicts beside a run that goes on."""
    opened: list[str] = []
    watching = [True]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching[0] and event in ("open", "os.rename"):
            opened.extend(str(argument) for argument in arguments[:2])

    sys.addaudithook(hook)  # for the rest of the process
    ids = (ID, "demo__textkit-2")
    try:
        verdicts = tmp_path / "predictions/r/verdicts"
        verdicts.mkdir(parents=True)
        for name in ids:
            (verdicts / f"{name}.json").write_text("{")
        opened.clear()
        unchecked = config(environment=EnvironmentKind.NONE)
        for redo in ("", ids[0]):
            chosen = options(tmp_path, cache, *ids, redo=redo)
            assert run_command(unchecked, chosen, print) == 0
        assert any(path.endswith("run.json") for path in opened)
        assert not [path for path in opened if "verdicts" in path]
    finally:
        watching[0] = False


def test_only_the_loader_and_reports_can_name_the_hidden_half() -> None:
    allowed = set()
    for name in ("split", "dataset"):
        allowed.add(f"swe_retry/instances/{name}.py")
    for name in closure(TOP, "harness.py"):
        hidden = {"split_row"}
        # No row of a data set reaches the rooms below, so their `rows` have another meaning.
        if not name.startswith(BELOW_ROWS):
            hidden.add("rows")
        path = TOP / name
        text = path.read_text(encoding="utf-8")
        # Only what stands in the text can be imported or read; parsing takes longer.
        if name in allowed or not any(word in text for word in ("Evaluation", *hidden)):
            continue
        evaluation = "swe_retry.instances.split.Evaluation"
        assert evaluation not in imported_names(path), name
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute):
                assert node.attr not in hidden, name
