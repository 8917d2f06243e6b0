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

from bench.cli.commands import run_command
from bench.config import ModelChoice, SelectionRule, TestChoice
from bench.instances.dataset import load_dataset
from core.processes import run_limited
from demo.images import build_images
from demo.setup import build_mirrors
from environments.base import EnvironmentKind
from tests.conftest import ShareVenvs
from tests.support import TOP
from tests.support.provider import Provider
from tests.support.runs import config, options
from tests.support.runs import config as run_config
from tests.support.runs import options as run_options

HARNESS = ("core", "llm", "agent", "environments", "runs", "bench")
OURS = (*HARNESS, "reports", "exercises", "demo", "harness.py", "report.py")
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
    found = dict(next(r for r in rows if r["instance_id"] == "demo__textkit-1"))
    found["patch"] = DIFF.format("textkit/ZQHIDDEN_GOLD.py", SENTINELS["patch"])
    found["test_patch"] = DIFF.format(
        "tests/ZQHIDDEN_TEST_PATCH.py", SENTINELS["test_patch"]
    )
    found["FAIL_TO_PASS"] = [
        f"tests/ZQHIDDEN_TEST_PATCH.py::{SENTINELS['FAIL_TO_PASS']}"
    ]
    found["PASS_TO_PASS"] = json.dumps([SENTINELS["PASS_TO_PASS"]])
    found["hints_text"] = SENTINELS["hints_text"]
    found["eval_script"] = (
        "cd /testbed\nexport NOTE=tests/ZQHIDDEN_TEST_PATCH.py\n"
        "git checkout 123 tests/ZQHIDDEN_TEST_PATCH.py\n"
        f"git apply - <<'EOF_1'\n{found['test_patch']}EOF_1\n"
        ": '>>>>> Start Test Output'\npython -m pytest -rA tests/ZQHIDDEN_TEST_PATCH.py\n"
        ": '>>>>> End Test Output'\ngit checkout 123 tests/ZQHIDDEN_TEST_PATCH.py\n"
    )
    return found


def validity_of(valid: str, flaky: str) -> dict[str, Any]:
    """Return a validity file with a sentinel wherever it may name tests, patches or reasons."""
    trial = {
        "resolved": False,
        "failed": ["ZQHIDDEN_FAILED"],
        "reason": "ZQHIDDEN_REASON",
    }
    more = {
        "flaky_tests": ["ZQHIDDEN_FLAKY"],
        "reason": "ZQHIDDEN_WHY",
        "image": "ZQHIDDEN_IMAGE",
    }
    entry = {"gold": [trial], "empty": [trial], **more}
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
        build_images(["demo__textkit-1"])
    dataset = tmp_path / "rows.json"
    flaky = {**row(), "instance_id": "demo__textkit-9"}
    dataset.write_text(json.dumps([row(), flaky]))
    validity = tmp_path / "validity.json"
    validity.write_text(
        json.dumps(validity_of(row()["instance_id"], "demo__textkit-9"))
    )
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
    said: list[str] = []
    assert run_command(chosen, run, said.append) == 0
    files = [
        p
        for p in [*tmp_path.rglob("*")]
        if p.is_file() and p not in (dataset, validity)
    ]
    assert any(p.suffix == ".md" for p in files)
    assert len(provider.requests) == (4 if kind is EnvironmentKind.NONE else 10)
    prediction = json.loads(
        (tmp_path / "out/predictions/r/demo__textkit-1.json").read_text()
    )
    assert prediction["test_outcome"] is (
        None if kind is EnvironmentKind.NONE else True
    )
    described = json.loads((tmp_path / "out/predictions/r/run.json").read_text())
    assert described["only_valid"]["left_out"] == {"demo__textkit-9": "flaky"}
    haystacks = {str(p): p.read_bytes().decode("utf-8", "replace") for p in files}
    haystacks["requests"] = json.dumps(provider.requests)
    haystacks["commands"] = repr(commands)
    haystacks["said"] = "\n".join([*said, *capfd.readouterr()])
    for place, text in haystacks.items():
        assert "ZQHIDDEN" not in text + place, place


def _spy(monkeypatch: pytest.MonkeyPatch, commands: list[object]) -> None:
    """Record every process that the harness starts and every command for a container."""
    real = subprocess.Popen.__init__

    def popen(
        self: Any,
        args: Any,
        *rest: Any,
        **named: Any,
    ) -> None:
        commands.append((args, named.get("env")))
        real(self, args, *rest, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", popen)
    from environments.docker.containers import Container

    for name in ("put", "bash"):
        monkeypatch.setattr(Container, name, noting(getattr(Container, name), commands))


def noting(method: Callable[..., Any], commands: list[object]) -> Callable[..., Any]:
    def noted(self: Any, *args: Any, **named: Any) -> Any:
        commands.append((args, named))
        return method(self, *args, **named)

    return noted


def test_the_spy_sees_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[object] = []
    _spy(monkeypatch, commands)
    run_limited(["echo", "SENTINEL"], tmp_path, {}, 10)
    assert "SENTINEL" in repr(commands)


def test_a_run_opens_no_verdict(tmp_path: Path, cache: Path) -> None:
    """``report.py`` may write verdicts beside a run that goes on."""
    opened: list[str] = []
    watching = [True]

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if watching[0] and event in ("open", "os.rename"):
            opened.extend(str(one) for one in given[:2])

    sys.addaudithook(hook)  # for the rest of the process
    ids = ("demo__textkit-1", "demo__textkit-2")
    try:
        verdicts = tmp_path / "predictions/r/verdicts"
        verdicts.mkdir(parents=True)
        for name in ids:
            (verdicts / f"{name}.json").write_text("{")
        opened.clear()
        for redo in ("", ids[0]):
            chosen = run_options(tmp_path, cache, *ids, redo=redo)
            assert (
                run_command(run_config(environment=EnvironmentKind.NONE), chosen, print)
                == 0
            )
        assert any(path.endswith("run.json") for path in opened)
        assert not [path for path in opened if "verdicts" in path]
    finally:
        watching[0] = False


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, with the names that it takes from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                node.module,
                *(f"{node.module}.{alias.name}" for alias in node.names),
            }
    return found


def test_imports_run_one_way() -> None:
    ground = ("core", "llm", "agent")
    for path in [path for room in ground for path in (TOP / room).rglob("*.py")]:
        allowed = ground[: ground.index(path.relative_to(TOP).parts[0]) + 1]
        upward = {
            m
            for m in imports(path)
            if m.split(".")[0] in OURS and not m.startswith(allowed)
        }
        assert not upward, f"{path}: {upward}"
    for path in [path for room in HARNESS for path in (TOP / room).rglob("*.py")]:
        assert not {m for m in imports(path) if m.split(".")[0] == "reports"}, path
    # Benchmarks know gold patches, so no module for users may import them.
    for top in OURS:
        for path in (TOP / top).rglob("*.py") if (TOP / top).is_dir() else [TOP / top]:
            assert not {m for m in imports(path) if m.split(".")[0] == "benchmarks"}, (
                path
            )


def test_only_the_loader_and_reports_can_name_the_hidden_half() -> None:
    allowed = set()
    for name in ("instance", "hidden", "dataset"):
        allowed.add(TOP / f"bench/instances/{name}.py")
    for folder in HARNESS:
        for path in (TOP / folder).rglob("*.py"):
            if path not in allowed:
                assert "bench.instances.instance.Evaluation" not in imports(path), path
                assert "bench.instances.instance.Evaluation" not in imports(path), path
                # `agent` imports nothing from `bench`, so its `rows` have another meaning.
                hidden = (
                    {"rows", "split_row"}
                    if folder in ("runs", "bench")
                    else {"split_row"}
                )
                assert not hidden & _attributes(path), path


def _attributes(path: Path) -> set[str]:
    return {
        n.attr
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Attribute)
    }
