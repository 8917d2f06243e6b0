"""Options from the command line and from files; help, completion, dry runs, messages."""

from __future__ import annotations

import base64
import os
import pty
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import (
    EnvironmentKind,
    ModelChoice,
    RunConfig,
    RunSettings,
)
from swe_retry.cli.harness import main as harness
from swe_retry.core.processes import without_secrets
from swe_retry.core.redaction import DOTENV_VARIABLE, Redactor
from swe_retry.core.sources import check_settings, of_texts
from swe_retry.environments.base import ResourceLimits
from swe_retry.environments.choice import make_environment
from swe_retry.environments.local.environment import LocalEnvironment
from tests.fixtures import ShareVenvs
from tests.support import TOP, read_json
from tests.support.commands import Preloaded
from tests.support.provider import Provider
from tests.support.runs import EDIT, config

ID = "demo__textkit-1"
NOWHERE = "http://127.0.0.1:9/v1"


Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture
def here(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run the command in this process, which has imported everything already."""

    def run_here(*argv: str, **env: str) -> Done:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["harness.py", *argv])
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        code = harness()
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(argv, code, printed.out, printed.err)

    return run_here


def demo(out: Path, options: str = "") -> list[str]:
    """Return a command line of a run of the demo in ``out``."""
    folders = f"--out {out} --set folders.cache={out}/cache"
    return shlex.split(f"--dataset demo --environment none {folders} {options}")


def replayed(out: Path, options: str = "") -> list[str]:
    """Return a command line of a run that needs no model."""
    replay = f"--models scripted-a,scripted-b --replay {TOP}/swe_retry/demo/replies"
    return demo(out, f"{replay} {options}")


def live(out: Path, url: str, options: str = "") -> list[str]:
    """Return a command line of a run of one instance that asks a server."""
    return demo(out, f"--models gpt-4o --instances {ID} --api-base {url} {options}")


def refusal(done: Done) -> str:
    """Return the one line of a refused command."""
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    return line


# --- starting over


def test_what_a_deleted_run_leaves_is_named_and_removed(
    tmp_path: Path, provider: Provider, here: Run
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    argv = live(tmp_path, provider.url, "--run h1")
    assert here(*argv).returncode == 0
    shutil.rmtree(tmp_path / "predictions/h1")
    line = refusal(here(*argv))
    assert "1 journal of an earlier run h1" in line
    assert str(tmp_path / "logs/h1/journals") in line
    assert not (tmp_path / "predictions/h1").exists(), "nothing is made"
    clean = ["clean", "h1", "--out", str(tmp_path)]
    listed = here(*clean)
    assert "harness.py clean --all removes it" in listed.stderr
    assert "give --yes to confirm" in refusal(here(*clean, "--all"))
    removed = here(*clean, "--all", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert not (tmp_path / "logs/h1").exists()
    assert here(*argv).returncode == 0, "a fresh start"


def test_clean_all_asks_on_a_terminal(
    tmp_path: Path, here: Run, preloaded: Preloaded
) -> None:
    argv = replayed(tmp_path, f"--run h1 --instances {ID}")
    here(*argv)
    clean = shlex.split(f"clean h1 --out {tmp_path} --all")
    for answer, remains in {"n\n": True, "y\n": False}.items():
        master, slave = pty.openpty()
        child = preloaded.start(*clean, terminal=slave)
        os.close(slave)
        os.write(master, answer.encode())
        child.wait(30)
        os.close(master)
        assert (tmp_path / "predictions/h1").exists() is remains


# --- another address


def test_the_address_of_a_server_may_change_and_is_logged(
    tmp_path: Path, provider: Provider, here: Run
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    settings = "--run r --set calls.retries=0"
    unreachable = live(tmp_path, NOWHERE, settings)
    assert here(*unreachable).returncode == 1
    reachable = live(tmp_path, provider.url, settings)
    moved = here(*reachable)
    assert moved.returncode == 0, moved.stderr
    change = f"--api-base was {NOWHERE} at the last start, and is {provider.url}"
    assert change in moved.stdout
    described = read_json(tmp_path / "predictions/r/run.json")
    addresses = [start["api_base"] for start in described["starts"]]
    assert addresses == [NOWHERE, provider.url]


# --- files of options


def test_a_configuration_file_gives_options_and_the_command_line_wins(
    tmp_path: Path, here: Run
) -> None:
    out = tmp_path / "out"
    (tmp_path / "run.yaml").write_text(
        "# a comment\n"
        "models: {names: [scripted-a, scripted-b], tries: 2}\n"
        f"instances: {{dataset: demo, ids: {ID}, prior: []}}\n"
        "choice.stop: all\n"
        "tests.environment: none\nbudget: {usd: 5}\n"
        f"calls.replay: {TOP / 'swe_retry/demo/replies'}\n"
        f"folders: {{out: {out}, cache: {out / 'cache'}, run: from-file}}\n"
    )
    done = here("--config", "run.yaml", "--tries", "1")
    assert done.returncode == 0, done.stderr
    described = read_json(out / "predictions/from-file/run.json")
    assert described["config"]["tries"] == 1
    assert described["config"]["all_attempts"] is True
    settings = described["settings"]
    models = {"names": ["scripted-a", "scripted-b"], "tries": 1}
    assert settings["models"] == models
    assert settings["budget"] == {"usd": "5"}
    assert settings["choice"] == {"stop": "all"}
    assert "builtin" not in settings, "defaults are not recorded"


MISTAKES = {
    "models.tris: 3": "there is no setting models.tris; did you mean models.tries?",
    "tries: 3": "there is no setting tries; did you mean models.tries?",
    "models: {tries: many}": "models.tries many: must be a valid integer",
    "project: {apply: 3}": "project.apply 3: must be a valid boolean",
    "models: {tries: {a: b}}": "models.tries a=b: must be a valid integer",
    "models: gpt-4o": "did you mean models.names or models.tries or",
    "- models": "give settings",
    "models: a\nmodels: b": "stands twice",
    "models: [": "is not YAML",
}


def test_mistakes_in_a_configuration_file_are_named(tmp_path: Path, here: Run) -> None:
    for content, message in MISTAKES.items():
        (tmp_path / "c.yaml").write_text(content)
        done = here("--config", "c.yaml", "--dataset", "demo")
        assert message in refusal(done)


def test_continue_reuses_what_the_run_recorded(tmp_path: Path, here: Run) -> None:
    argv = replayed(tmp_path, f"--run r --instances {ID}")
    first = here(*argv)
    assert first.returncode == 0, first.stderr
    for run in (f"r --out {tmp_path}", f"{tmp_path}/predictions/r"):
        again = here("--continue", *run.split())
        assert again.returncode == 0, again.stderr
        assert "1 instance selected, 1 done before" in again.stdout
    larger = here("--continue", "predictions/r", "--instances", f"{ID},demo__units-1")
    counts = "2 instances selected, 1 done before, 1 to do"
    assert counts in larger.stdout
    other = here("--continue", "predictions/r", "--tries", "2")
    difference = "run r was started with different settings: models.tries was 3, is 2"
    assert difference in refusal(other)
    absent = here("--continue", "nowhere", "--out", str(tmp_path))
    assert "there is no run" in refusal(absent)


def test_a_password_in_an_address_is_not_recorded(
    tmp_path: Path, provider: Provider, here: Run
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    secret = "hunter2-hunter2"
    address = provider.url.replace("http://", f"http://me:{secret}@")
    argv = live(tmp_path, address, "--run r")
    done = here(*argv)
    assert done.returncode == 0, done.stderr
    texts = [done.stdout, done.stderr]
    for path in tmp_path.rglob("*"):
        if path.is_file() and "cache" not in path.parts:
            texts.append(path.read_text(errors="replace"))
    assert len(texts) > 7
    assert not any(secret in text for text in texts)
    settings = read_json(tmp_path / "predictions/r/run.json")["settings"]
    assert settings["calls"]["api_base"].startswith("http://***@127.0.0.1:")
    sent = {headers["authorization"] for headers in provider.headers}
    login = base64.b64encode(f"me:{secret}".encode()).decode()
    assert sent == {f"Basic {login}"}
    continuing = ["--continue", "r", "--out", str(tmp_path)]
    message = "are not recorded; give --api-base again"
    assert message in refusal(here(*continuing))
    assert here(*continuing, "--api-base", address).returncode == 0


def test_the_report_finds_cache_and_repositories_of_the_run(
    tmp_path: Path,
    here: Run,
    preloaded: Preloaded,
    share_venvs: ShareVenvs,
) -> None:
    cache = tmp_path / "elsewhere"
    share_venvs(cache / "environments")
    options = f"--run r --instances {ID} --set folders.cache={cache}"
    argv = replayed(tmp_path, options)
    usual_cache = argv.index(f"folders.cache={tmp_path}/cache")
    del argv[usual_cache - 1 : usual_cache + 1]
    assert here(*argv).returncode == 0
    home = tmp_path / "home"
    homes = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    report = preloaded.run(
        *shlex.split("predictions/r --evaluator local --set report.page=false"),
        cwd=tmp_path,
        script="report.py",
        env={**os.environ, **homes},
    )
    assert report.returncode == 0, report.stdout
    assert list((cache / "environments/instances").iterdir())
    assert not (home / "cache/swe-retry-harness").exists()


def test_variables_of_the_file_are_secret_whatever_they_are_called() -> None:
    environ = {
        DOTENV_VARIABLE: "MODE",
        "MODE": "a-value-of-mine",
        "PATH": "/bin",
    }
    redact = Redactor.of_environment(environ)
    assert redact("a-value-of-mine") == "[MODE]"
    assert without_secrets(environ) == {"PATH": "/bin"}


def test_the_default_name_of_a_run_names_agent_and_models() -> None:
    def run_name(run: str = "", **changes: Any) -> str:
        return config(run=run, **changes).run_name

    models = (
        ModelChoice.parse("openai/gpt-4o", any_name=True),
        ModelChoice.parse("b", any_name=True),
    )
    of_codex = tuple(replace(model, edit_format="codex") for model in models)
    script = "command:./run.sh {x}"
    assert run_name(models=models) == "gpt-4o--b"
    assert run_name(models=models, agent=script) == "command-.-run.sh--gpt-4o--b"
    assert run_name(models=models, agent="codex") == "codex--gpt-4o--b"
    assert run_name(models=of_codex) == "codex--gpt-4o--b"
    assert run_name(models=models, run="r") == "r"


def test_limits_of_commands_are_settings_that_the_run_records(tmp_path: Path) -> None:
    texts = ["tests.memory=0.5", "tests.processes=50"]
    settings = check_settings(RunSettings, of_texts(RunSettings, texts))
    limits = settings.tests.limits
    assert (limits.memory, limits.processes) == (1 << 29, 50)
    deciding = RunConfig(settings).deciding()
    assert (deciding["tests.memory"], deciding["tests.processes"]) == (0.5, 50)
    local = make_environment(EnvironmentKind.LOCAL, tmp_path, print, limits=limits)
    assert isinstance(local, LocalEnvironment)
    assert local.limits == limits
    assert RunSettings().tests.limits == ResourceLimits()
    assert (ResourceLimits().mark, limits.mark) == ("", ":536870912:50")
