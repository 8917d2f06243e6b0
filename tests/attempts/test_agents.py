"""Whole runs with outside agents: fresh checkouts, retries, outcomes, hygiene."""

from __future__ import annotations

import json
import shlex
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.protocol import AgentResult, Task
from swe_retry.attempts.config import ModelChoice, RunConfig, validate_config
from swe_retry.core.errors import UserError
from swe_retry.environments.base import EnvironmentKind
from swe_retry.record.patches import patch_paths
from swe_retry.record.store import RunStore
from swe_retry.repositories.checkout import Checkout
from swe_retry.runner.calls.ledger import read_ledger
from swe_retry.runner.settings import Spending
from tests.support.harness import Harness
from tests.support.provider import Provider
from tests.support.runs import but, config

ID = "demo__textkit-1"
FIX = (
    "import pathlib; p = pathlib.Path('textkit/slug.py'); t = p.read_text()\n"
    "new = t.replace('        else:', '        elif letters and letters[-1] != \"-\":')\n"
    "assert new != t; p.write_text(new)\n"
)


def outside(
    code: str,
    *arguments: str,
    **changes: Any,
) -> RunConfig:
    """Return a configuration of an outside agent that runs ``code``."""
    command = shlex.join([sys.executable, "-c", code, *arguments])
    values: dict[str, Any] = {
        "agent": f"command:{command}",
        "models": (
            ModelChoice.parse("my-a", any_name=True),
            ModelChoice.parse("my-b", any_name=True),
        ),
        "replay": None,
        "tries": 1,
        "agent_timeout": 60,
    }
    return config(**{**values, **changes})


def test_a_command_is_tested_and_priced(harness: Harness) -> None:
    spend = "import sys; open(sys.argv[1], 'w').write('{\"cost\": 0.5}')\n"
    chosen = outside(FIX + spend, "{result_file}", environment=EnvironmentKind.LOCAL)
    prediction = harness.solve(chosen, ID)
    expected = {
        "status": "plausible",
        "attempt": 1,
        "model": "my-a",
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": True,
        "cost": 0.5,
        "edited_files": ["textkit/slug.py"],
    }
    assert {name: prediction[name] for name in expected} == expected
    (attempt,) = harness.attempts(ID)
    assert attempt["edit_format"] == "agent"
    assert attempt["error"] == ""
    assert attempt["traits"] is None
    roles = [message["role"] for message in attempt["messages"]]
    assert roles == ["user", "assistant"]


def test_models_alternate_and_each_attempt_begins_afresh(harness: Harness) -> None:
    code = (
        "import sys, pathlib; p = pathlib.Path('textkit/slug.py')\n"
        "assert 'broken(' not in p.read_text()\n"
        "p.write_text(p.read_text() + ('x = 1\\n' if sys.argv[1] == 'my-b' else 'broken(\\n'))"
    )
    prediction = harness.solve(outside(code, "{model}"), ID)
    assert harness.statuses(ID) == ["lint_failed", "plausible_untested"]
    assert prediction["attempt"] == 2
    assert prediction["cost"] is None


def test_edits_of_tests_are_not_predicted(harness: Harness) -> None:
    litter = (
        "import os; open('tests/test_new.py', 'w').write('def test(): pass\\n')\n"
        "open('conftest.py', 'w').close(); os.makedirs('a/__pycache__')\n"
        "open('a/__pycache__/m.pyc', 'wb').write(bytes(range(256)))\n"
        "open('.gitignore', 'a').write('*.log\\n'); open('my.log', 'w').write('much')\n"
    )
    prediction = harness.solve(outside(FIX + litter), ID)
    (attempt,) = harness.attempts(ID)
    assert prediction["status"] == "plausible"
    assert "my.log" not in prediction["model_patch"]
    assert {"conftest.py", "tests/test_new.py"} <= set(attempt["dropped_files"])


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        (
            "raise SystemExit(1)",
            "error",
            "the agent ended with exit code 1",
        ),
        (
            "import time; time.sleep(99)",
            "timeout",
            "the agent was stopped after 3 s",
        ),
    ],
)
def test_the_patch_of_an_agent_that_fails_or_hangs_is_kept(
    harness: Harness, code: str, status: str, error: str
) -> None:
    chosen = outside(FIX + code, agent_timeout=3)
    prediction = harness.solve(chosen, ID, code=1)
    first, _ = harness.attempts(ID)
    assert first["status"] == status
    assert first["error"] == error
    assert prediction["status"] == "error"
    assert prediction["attempt"] == 1
    assert "textkit/slug.py" in prediction["model_patch"]


def test_an_agent_that_does_nothing_is_empty(harness: Harness) -> None:
    prediction = harness.solve(outside("print('no idea')"), ID)
    assert prediction["status"] == "empty"
    assert harness.statuses(ID) == ["empty", "empty"]
    outcomes = [result["edit_outcome"] for result in prediction["all_results"]]
    assert outcomes == [None, None]


GIT = (
    "import subprocess, pathlib, os, shutil\n"
    "IDENTITY = ['-c', 'user.name=x', '-c', 'user.email=x@x']\n"
    "def git(*a): subprocess.run(['git', *IDENTITY, *a], check=True)\n"
)


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
    harness: Harness, code: str
) -> None:
    prediction = harness.solve(outside(FIX + GIT + code), ID)
    assert prediction["status"] == "plausible", prediction["all_results"]
    assert "+        elif letters and letters" in prediction["model_patch"]
    assert "textkit/slug.py" in patch_paths(prediction["model_patch"])


def test_what_the_agent_excludes_is_litter(harness: Harness) -> None:
    code = (
        "open('.git/info/exclude', 'w').write('.notes*')\n"
        "open('.notes.db', 'w').write('x')\n"
        "open('textkit/more.py', 'w').write('x = 1\\n')"
    )
    prediction = harness.solve(outside(FIX + code), ID)
    paths = ["textkit/more.py", "textkit/slug.py"]
    assert sorted(patch_paths(prediction["model_patch"])) == paths
    assert prediction["edited_files"] == paths


def test_a_checkout_that_became_a_link_takes_nobody_elses_repository(
    harness: Harness, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    code = (
        "import os, shutil; root = os.getcwd(); os.chdir('/'); shutil.rmtree(root)\n"
        f"os.symlink({str(other)!r}, root)"
    )
    harness.run(outside(code), ID, out="out", code=1)
    assert list(other.iterdir()) == [other / ".git"]


def test_links_out_of_the_checkout_are_not_read(
    harness: Harness, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ZQSECRET")
    link = "textkit/wrap.py"
    code = f"import os; os.remove('{link}'); os.symlink('{secret}', '{link}')"
    prediction = harness.solve(outside(FIX + code), ID, out="out")
    assert "ZQSECRET" not in json.dumps(prediction)


def test_what_a_run_records_holds_no_secret(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "ZQSECRET")
    harness.run(outside(FIX, agent_env=("MY_API_KEY",)), ID)
    deciding = harness.description["deciding"]
    assert deciding["agent.env"] == ["MY_API_KEY"]
    assert deciding["agent.name"].startswith("command:")
    for path in harness.folder.rglob("*"):
        if path.is_file():
            assert b"ZQSECRET" not in path.read_bytes(), path
    # What an outside agent did cannot be replayed.
    model = ModelChoice.parse("my-a", replay=True)
    replay = config(models=(model,), replay=harness.file(""), run="again")
    with pytest.raises(UserError, match="what an outside agent did cannot be replayed"):
        harness.run(replay, ID)


def test_wrong_combinations_are_refused(
    harness: Harness, tmp_path: Path, provider: Provider
) -> None:
    with pytest.raises(UserError, match="--replay serves models' replies"):
        validate_config(outside("", replay=tmp_path))
    usual = validate_config(config())
    unused = validate_config(config(agent_env=("HOME",)))
    assert unused.deciding() == usual.deciding()
    with pytest.raises(UserError, match=r"agent\.timeout 0: must be at least 1"):
        validate_config(outside("", agent_timeout=0))
    absent = outside("", agent="command:no-such-command-at-all")
    with pytest.raises(UserError, match="no command 'no-such-command-at-all'"):
        harness.run(absent, ID)
    assert not (tmp_path / "predictions").exists()


def test_a_dry_run_asks_for_no_keys(harness: Harness) -> None:
    model = ModelChoice.parse("gpt-4o")
    chosen = outside("", models=(model,))
    lines = harness.run(chosen, ID, dry_run=True)
    text = "\n".join(lines)
    assert "a key for" not in text
    assert "calls: those of the outside agent, 60 s for an attempt" in text
    assert "missing: " not in text
    absent = but(chosen, agent="command:no-such-command-at-all")
    lines = harness.run(absent, ID, code=2, dry_run=True)
    message = "missing: --agent: there is no command 'no-such-command-at-all'"
    assert message in "\n".join(lines)


class Stranger:
    """An agent of somebody else's, judged by the harness."""

    def work(self, task: Task) -> AgentResult:
        path = task.root / "textkit/slug.py"
        text = path.read_text()
        path.write_text(text.replace("else:", "elif letters and letters[-1] != '-':"))
        return AgentResult()


def test_an_agent_by_module_and_attribute(
    harness: Harness,
    tmp_path: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "from tests.attempts.test_agents import Stranger\n"
    (tmp_path / "strange_agent.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    settled: list[Path] = []
    monkeypatch.setattr(
        Checkout, "settle", lambda checkout: settled.append(checkout.root)
    )
    chosen = outside("", agent="strange_agent:Stranger", api_base=provider.url)
    prediction = harness.solve(chosen, ID)
    # It writes before it asks a model, so nothing else would have waited.
    assert settled
    assert prediction["status"] == "plausible"
    assert prediction["edit_outcome"] is True
    assert not provider.requests


def test_what_commands_report_is_charged_and_ends_a_budget(
    harness: Harness,
) -> None:
    spend = "import sys; open(sys.argv[1], 'w').write('{\"cost\": 2}')"
    chosen = outside(spend, "{result_file}", tries=3)
    money = Spending(usd=Decimal(3), allow_unpriced=True)
    prediction = harness.solve(chosen, ID, code=1, money=money)
    assert prediction["status"] == "budget"
    assert harness.statuses(ID) == ["empty", "empty", "budget", "budget"]
    store = RunStore(harness.folder, "r")
    costs = [line.cost for line in read_ledger(store.ledger).values]
    assert costs == [Decimal("2.0"), Decimal("2.0")]
