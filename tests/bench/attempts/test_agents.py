"""Whole runs with outside agents: fresh checkouts, retries, outcomes, hygiene."""

from __future__ import annotations

import json
import shlex
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent.protocol import AgentResult, Task
from bench.cli.commands import run_command
from bench.config import ModelChoice, RunConfig, validate_config
from bench.repos.checkout import Checkout
from core.errors import UserError
from environments.base import EnvironmentKind
from runs.calls.budget import BudgetLimits
from runs.calls.ledger import read_ledger
from runs.patches import patch_paths
from runs.settings import Spending
from runs.storage.store import RunStore
from tests.support.provider import Provider
from tests.support.runs import but, config, options, read

ID = "demo__textkit-1"
FIX = (
    "import pathlib; p = pathlib.Path('textkit/slug.py'); t = p.read_text()\n"
    "new = t.replace('        else:', '        elif letters and letters[-1] != \"-\":')\n"
    "assert new != t; p.write_text(new)\n"
)


def outside(
    code: str,
    *words: str,
    **changes: Any,
) -> RunConfig:
    values: dict[str, Any] = {
        "agent": "command:" + shlex.join([sys.executable, "-c", code, *words]),
        "models": tuple(
            ModelChoice.parse(name, any_name=True) for name in ("my-a", "my-b")
        ),
        "replay": None,
        "tries": 1,
        "agent_timeout": 60,
    }
    return config(**{**values, **changes})


def solve(
    chosen: RunConfig,
    tmp_path: Path,
    cache: Path,
    code: int = 0,
) -> dict[str, Any]:
    assert run_command(chosen, options(tmp_path, cache, ID), lambda _: None) == code
    return read(tmp_path, ID)


def test_a_command_is_tested_and_priced(tmp_path: Path, cache: Path) -> None:
    spend = "import sys; open(sys.argv[1], 'w').write('{\"cost\": 0.5}')\n"
    chosen = outside(FIX + spend, "{result_file}", environment=EnvironmentKind.LOCAL)
    found = solve(chosen, tmp_path, cache)
    assert (found["status"], found["attempt"], found["model"]) == (
        "plausible",
        1,
        "my-a",
    )
    outcomes = [found[f"{name}_outcome"] for name in ("edit", "lint", "test")]
    assert outcomes == [True, True, True]
    assert (found["cost"], found["edited_files"]) == (0.5, ["textkit/slug.py"])
    (attempt,) = read(tmp_path, ID, "trajectories")["attempts"]
    assert (attempt["edit_format"], attempt["error"], attempt["traits"]) == (
        "agent",
        "",
        None,
    )
    assert [m["role"] for m in attempt["messages"]] == ["user", "assistant"]


def test_models_alternate_and_each_attempt_begins_afresh(
    tmp_path: Path, cache: Path
) -> None:
    code = (
        "import sys, pathlib; p = pathlib.Path('textkit/slug.py')\n"
        "assert 'broken(' not in p.read_text()\n"
        "p.write_text(p.read_text() + ('x = 1\\n' if sys.argv[1] == 'my-b' else 'broken(\\n'))"
    )
    found = solve(outside(code, "{model}"), tmp_path, cache)
    assert [r["status"] for r in found["all_results"]] == [
        "lint_failed",
        "plausible_untested",
    ]
    assert (found["attempt"], found["cost"]) == (2, None)


def test_edits_of_tests_are_not_predicted(tmp_path: Path, cache: Path) -> None:
    litter = (
        "import os; open('tests/test_new.py', 'w').write('def test(): pass\\n')\n"
        "open('conftest.py', 'w').close(); os.makedirs('a/__pycache__')\n"
        "open('a/__pycache__/m.pyc', 'wb').write(bytes(range(256)))\n"
        "open('.gitignore', 'a').write('*.log\\n'); open('my.log', 'w').write('much')\n"
    )
    found = solve(outside(FIX + litter), tmp_path, cache)
    (attempt,) = read(tmp_path, ID, "trajectories")["attempts"]
    assert found["status"] == "plausible"
    assert "my.log" not in found["model_patch"]
    assert {"conftest.py", "tests/test_new.py"} <= set(attempt["dropped_files"])


def test_the_patch_of_an_agent_that_fails_is_kept(tmp_path: Path, cache: Path) -> None:
    found = solve(outside(FIX + "raise SystemExit(1)"), tmp_path, cache, code=1)
    first, _ = read(tmp_path, ID, "trajectories")["attempts"]
    assert (first["status"], first["error"]) == (
        "error",
        "the agent ended with exit code 1",
    )
    assert (found["status"], found["attempt"]) == ("error", 1)
    assert "textkit/slug.py" in found["model_patch"]


def test_the_patch_of_an_agent_that_hangs_is_kept(tmp_path: Path, cache: Path) -> None:
    hangs = outside(FIX + "import time; time.sleep(99)", agent_timeout=3)
    found = solve(hangs, tmp_path, cache, code=1)
    first, _ = read(tmp_path, ID, "trajectories")["attempts"]
    assert (first["status"], first["error"]) == (
        "timeout",
        "the agent was stopped after 3 s",
    )
    assert (found["status"], found["attempt"]) == ("error", 1)


def test_an_agent_that_does_nothing_is_empty(tmp_path: Path, cache: Path) -> None:
    found = solve(outside("print('no idea')"), tmp_path, cache)
    assert found["status"] == "empty"
    results = found["all_results"]
    assert [(r["status"], r["edit_outcome"]) for r in results] == [("empty", None)] * 2


GIT = (
    "import subprocess, pathlib, os, shutil\ndef git(*a): subprocess.run(['git', '-c', "
)
GIT += "'user.name=x', '-c', 'user.email=x@x', *a], check=True)\n"


@pytest.mark.parametrize(
    "code",
    [
        "git('commit', '-qam', 'mine')",
        "git('checkout', '-q', '-b', 'other'); git('commit', '-qam', 'mine')",
        "git('update-index', '--assume-unchanged', 'textkit/slug.py')",
        "shutil.rmtree('.git')",
        "shutil.rmtree('.git'); pathlib.Path('.git').write_text('gitdir: /nowhere')",
        "shutil.rmtree('.git'); os.symlink('/', '.git')",
        "pathlib.Path('.git/info/exclude').write_text('*')",
        "git('config', 'core.worktree', '/'); git('config', 'core.bare', 'true')",
        "git('config', 'filter.x.clean', 'true'); "
        "pathlib.Path('.gitattributes').write_text('* filter=x')",
        "git('init', '-q', 'textkit'); git('-C', 'textkit', 'add', '.'); "
        "git('-C', 'textkit', 'commit', '-qm', 'mine')",
        "pathlib.Path('.git/index').write_bytes(b'junk'); pathlib.Path('.git/HEAD').unlink()",
    ],
)
def test_what_it_does_to_the_repository_hides_nothing(
    tmp_path: Path, cache: Path, code: str
) -> None:
    found = solve(outside(FIX + GIT + code), tmp_path, cache)
    assert found["status"] == "plausible", found["all_results"]
    assert "+        elif letters and letters" in found["model_patch"]
    assert "textkit/slug.py" in patch_paths(found["model_patch"])


def test_what_the_agent_excludes_is_litter(tmp_path: Path, cache: Path) -> None:
    code = "open('.git/info/exclude', 'w').write('.notes*'); open('.notes.db', 'w').write('x')\n"
    code += "open('textkit/more.py', 'w').write('x = 1\\n')"
    found = solve(outside(FIX + code), tmp_path, cache)
    assert set(patch_paths(found["model_patch"])) == {
        "textkit/slug.py",
        "textkit/more.py",
    }
    assert found["edited_files"] == ["textkit/more.py", "textkit/slug.py"]


def test_a_checkout_that_became_a_link_takes_nobody_elses_repository(
    tmp_path: Path, cache: Path
) -> None:
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    code = "import os, shutil; root = os.getcwd(); os.chdir('/'); shutil.rmtree(root)\n"
    code += f"os.symlink({str(other)!r}, root)"
    solve(outside(code), tmp_path / "out", cache, code=1)
    assert [path.name for path in other.iterdir()] == [".git"]


def test_links_out_of_the_checkout_are_not_read(tmp_path: Path, cache: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ZQSECRET")
    code = (
        f"import os; os.remove('textkit/wrap.py'); os.symlink({str(secret)!r}, "
        f"'textkit/wrap.py')"
    )
    found = solve(outside(FIX + code), tmp_path / "out", cache)
    assert "ZQSECRET" not in json.dumps(found)


def test_what_a_run_records_holds_no_secret(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "ZQSECRET")
    solve(outside(FIX, agent_env=("MY_API_KEY",)), tmp_path, cache)
    described = read(tmp_path, "run")
    assert described["deciding"]["agent.env"] == ["MY_API_KEY"]
    assert described["deciding"]["agent.name"].startswith("command:")
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert not [p for p in written if b"ZQSECRET" in p.read_bytes()]


def test_wrong_combinations_are_refused(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    with pytest.raises(UserError, match="--replay serves models' replies"):
        validate_config(outside("", replay=tmp_path))
    unused = validate_config(config(agent_env=("HOME",)))
    assert unused.deciding() == validate_config(config()).deciding()
    with pytest.raises(UserError, match=r"agent\.timeout 0: must be at least 1"):
        validate_config(outside("", agent_timeout=0))
    absent = outside("", agent="command:no-such-command-at-all")
    with pytest.raises(UserError, match="no command 'no-such-command-at-all'"):
        run_command(absent, options(tmp_path, cache, ID), lambda _: None)
    assert not (tmp_path / "predictions").exists()


def test_what_an_outside_agent_did_cannot_be_replayed(
    tmp_path: Path, cache: Path
) -> None:
    solve(outside(FIX), tmp_path, cache)
    models = (ModelChoice.parse("my-a", replay=True),)
    again = config(models=models, replay=tmp_path / "predictions/r", run="again")
    with pytest.raises(UserError, match="what an outside agent did cannot be replayed"):
        run_command(again, options(tmp_path, cache, ID), lambda _: None)


def test_a_dry_run_asks_for_no_keys(tmp_path: Path, cache: Path) -> None:
    said: list[str] = []
    chosen = outside("", models=(ModelChoice.parse("gpt-4o"),))
    assert (
        run_command(chosen, options(tmp_path, cache, ID, dry_run=True), said.append)
        == 0
    )
    text = "\n".join(said)
    assert "a key for" not in text
    assert "calls: those of the outside agent, 60 s for an attempt" in text
    assert "missing: " not in text
    absent = but(chosen, agent="command:no-such-command-at-all")
    assert (
        run_command(absent, options(tmp_path, cache, ID, dry_run=True), said.append)
        == 0
    )
    assert (
        "missing: --agent: there is no command 'no-such-command-at-all'"
        in "\n".join(said)
    )


class Stranger:
    """An agent of somebody else's, judged by the harness."""

    def work(self, task: Task) -> AgentResult:
        place = task.root / "textkit/slug.py"
        place.write_text(
            place.read_text().replace("else:", "elif letters and letters[-1] != '-':")
        )
        return AgentResult()


def test_an_agent_by_module_and_attribute(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "strange_agent.py").write_text(
        "from tests.bench.attempts.test_agents import Stranger\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    settled: list[Path] = []
    monkeypatch.setattr(
        Checkout, "settle", lambda checkout: settled.append(checkout.root)
    )
    chosen = outside("", agent="strange_agent:Stranger", api_base=provider.url)
    found = solve(chosen, tmp_path / "out", cache)
    # It writes before it asks a model, so nothing else would have waited.
    assert settled
    assert (found["status"], found["edit_outcome"]) == ("plausible", True)
    assert not provider.requests


def test_what_commands_report_is_charged_and_ends_a_budget(
    tmp_path: Path, cache: Path
) -> None:
    chosen = outside(
        "import sys; open(sys.argv[1], 'w').write('{\"cost\": 2}')", "{result_file}"
    )
    money = Spending(BudgetLimits(usd=Decimal(3)), allow_unpriced=True)
    run = options(tmp_path, cache, ID, money=money)
    assert run_command(but(chosen, tries=3), run, lambda _: None) == 1
    found = read(tmp_path, ID)
    assert found["status"] == "budget"
    assert [r["status"] for r in found["all_results"]] == [
        "empty",
        "empty",
        "budget",
        "budget",
    ]
    lines = list(read_ledger(RunStore(tmp_path, "r").ledger).values)
    assert [line.cost for line in lines] == [Decimal("2.0")] * 2
