"""Options from the command line and from files; help, completion, dry runs, messages."""

from __future__ import annotations

import base64
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core.processes import without_secrets
from core.redaction import DOTENV_VARIABLE, Redactor
from harness import main as harness
from tests.conftest import ShareVenvs
from tests.support import TOP, read_json
from tests.support.commands import Preloaded
from tests.support.provider import Provider
from tests.support.runs import EDIT

ID = "demo__textkit-1"
NOWHERE = "http://127.0.0.1:9/v1"


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run the command in this process, which has imported everything already."""

    def run_here(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["harness.py", *words])
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        code = harness()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(words, code, said.out, said.err)

    return run_here


def replayed(out: Path, *words: str) -> list[str]:
    """Return a command line of a run that needs no model."""
    return [
        "--dataset",
        "demo",
        "--models",
        "scripted-a,scripted-b",
        "--environment",
        "none",
        "--replay",
        str(TOP / "demo/replies"),
        "--out",
        str(out),
        "--set",
        "folders.cache=" + str(out / "cache"),
        *words,
    ]


# --- 8. starting over


def test_what_a_deleted_run_leaves_is_named_and_removed(
    tmp_path: Path, provider: Provider, here: Run
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    words = [
        "--dataset",
        "demo",
        "--instances",
        ID,
        "--models",
        "gpt-4o",
        "--api-base",
        provider.url,
        "--environment",
        "none",
        "--run",
        "h1",
        "--out",
        str(tmp_path),
        "--set",
        "folders.cache=" + str(tmp_path / "cache"),
    ]
    assert here(*words).returncode == 0
    shutil.rmtree(tmp_path / "predictions/h1")
    again = here(*words)
    assert again.returncode == 2
    journals = tmp_path / "logs/h1/journals"
    assert (
        "1 journal of an earlier run h1" in again.stderr
        and str(journals) in again.stderr
    )
    assert not (tmp_path / "predictions/h1").exists(), "nothing is made"
    clean = ["clean", "h1", "--out", str(tmp_path)]
    assert "harness.py clean --all removes it" in here(*clean).stderr
    asked = here(*clean, "--all")
    assert asked.returncode == 2 and "give --yes to confirm" in asked.stderr
    removed = here(*clean, "--all", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert not (tmp_path / "logs/h1").exists()
    assert here(*words).returncode == 0, "a fresh start"


def test_clean_all_asks_on_a_terminal(
    tmp_path: Path, here: Run, preloaded: Preloaded
) -> None:
    here(*replayed(tmp_path, "--run", "h1", "--instances", ID))
    for answer, left in (("n\n", True), ("y\n", False)):
        master, slave = pty.openpty()
        words = ["clean", "h1", "--out", str(tmp_path), "--all"]
        child = preloaded.start(*words, terminal=slave)
        os.close(slave)
        os.write(master, answer.encode())
        child.wait(30)
        os.close(master)
        assert (tmp_path / "predictions/h1").exists() is left


# --- 9. another address


def test_the_address_of_a_server_may_change_and_is_logged(
    tmp_path: Path, provider: Provider, here: Run
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    words = [
        "--dataset",
        "demo",
        "--models",
        "gpt-4o",
        "--environment",
        "none",
        "--run",
        "r",
        "--out",
        str(tmp_path),
        "--set",
        "folders.cache=" + str(tmp_path / "cache"),
        "--set",
        "calls.retries=0",
        "--instances",
        ID,
    ]
    assert here(*words, "--api-base", NOWHERE).returncode == 1
    moved = here(*words, "--api-base", provider.url)
    assert moved.returncode == 0, moved.stderr
    change = f"--api-base was {NOWHERE} at the last start, and is {provider.url}"
    assert change in moved.stdout
    starts = read_json(tmp_path / "predictions/r/run.json")["starts"]
    assert [start["api_base"] for start in starts] == [NOWHERE, provider.url]


# --- 10. files of options


def test_a_configuration_file_gives_options_and_the_command_line_wins(
    tmp_path: Path, here: Run
) -> None:
    out = tmp_path / "out"
    (tmp_path / "run.yaml").write_text(
        "# a comment\nmodels: {names: [scripted-a, scripted-b], tries: 2}\n"
        f"instances: {{dataset: demo, ids: {ID}, prior: []}}\nchoice.stop: all\n"
        "tests.environment: none\nbudget: {usd: 5}\n"
        f"calls.replay: {TOP / 'demo/replies'}\n"
        f"folders: {{out: {out}, cache: {out / 'cache'}, run: from-file}}\n"
    )
    done = here("--config", "run.yaml", "--tries", "1")
    assert done.returncode == 0, done.stderr
    config = read_json(out / "predictions/from-file/run.json")["config"]
    assert (config["tries"], config["all_attempts"]) == (1, True)
    settings = read_json(out / "predictions/from-file/run.json")["settings"]
    assert settings["models"] == {"names": ["scripted-a", "scripted-b"], "tries": 1}
    assert settings["budget"] == {"usd": "5"}
    assert settings["choice"] == {"stop": "all"}
    assert "builtin" not in settings, "defaults are not recorded"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "models.tris: 3",
            "there is no setting models.tris; did you mean models.tries?",
        ),
        ("tries: 3", "there is no setting tries; did you mean models.tries?"),
        ("models: {tries: many}", "models.tries many: must be a valid integer"),
        ("project: {apply: 3}", "project.apply 3: must be a valid boolean"),
        ("models: {tries: {a: b}}", "models.tries a=b: must be a valid integer"),
        ("models: gpt-4o", "did you mean models.names or models.tries or"),
        ("- models", "give settings"),
        ("models: a\nmodels: b", "stands twice"),
        ("models: [", "is not YAML"),
    ],
)
def test_mistakes_in_a_configuration_file_are_named(
    tmp_path: Path, here: Run, content: str, words: str
) -> None:
    (tmp_path / "c.yaml").write_text(content)
    done = here("--config", "c.yaml", "--dataset", "demo")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert words in line


def test_continue_reuses_what_the_run_recorded(tmp_path: Path, here: Run) -> None:
    first = here(*replayed(tmp_path, "--run", "r", "--instances", ID))
    assert first.returncode == 0, first.stderr
    again = here("--continue", "r", "--out", str(tmp_path))
    assert again.returncode == 0, again.stderr
    assert "1 instance selected, 1 done before" in again.stdout
    by_folder = here("--continue", str(tmp_path / "predictions/r"))
    assert "1 instance selected, 1 done before" in by_folder.stdout
    more = here("--continue", "predictions/r", "--instances", f"{ID},demo__units-1")
    assert (
        "2 instances selected, 1 done before, 0 plausible in earlier runs, 1 to do"
        in more.stdout
    )
    other = here("--continue", "predictions/r", "--tries", "2")
    assert other.returncode == 2
    assert (
        "run r was started with different settings: models.tries was 3, is 2"
        in other.stderr
    )
    assert here("--continue", "nowhere", "--out", str(tmp_path)).returncode == 2


def test_a_password_in_an_address_is_not_recorded(
    tmp_path: Path, provider: Provider, here: Run
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    secret = "hunter2-hunter2"
    address = provider.url.replace("http://", f"http://me:{secret}@")
    words = [
        "--dataset",
        "demo",
        "--models",
        "gpt-4o",
        "--environment",
        "none",
        "--run",
        "r",
        "--out",
        str(tmp_path),
        "--set",
        "folders.cache=" + str(tmp_path / "cache"),
        "--instances",
        ID,
        "--api-base",
        address,
    ]
    done = here(*words)
    assert done.returncode == 0, done.stderr
    files = [p for p in tmp_path.rglob("*") if p.is_file() and "cache" not in p.parts]
    assert len(files) > 5
    for text in (
        done.stdout,
        done.stderr,
        *(p.read_text(errors="replace") for p in files),
    ):
        assert secret not in text
    assert read_json(tmp_path / "predictions/r/run.json")["settings"]["calls"][
        "api_base"
    ].startswith("http://***@127.0.0.1:")
    sent = {headers["authorization"] for headers in provider.headers}
    assert sent == {f"Basic {base64.b64encode(f'me:{secret}'.encode()).decode()}"}
    again = here("--continue", "r", "--out", str(tmp_path))
    assert again.returncode == 2
    assert "are not recorded; give --api-base again" in again.stderr
    given = ["--continue", "r", "--out", str(tmp_path), "--api-base", address]
    assert here(*given).returncode == 0


def test_the_report_finds_cache_and_repositories_of_the_run(
    tmp_path: Path, here: Run, preloaded: Preloaded, share_venvs: ShareVenvs
) -> None:
    cache = tmp_path / "elsewhere"
    share_venvs(cache / "environments")
    words = replayed(tmp_path, "--run", "r", "--instances", ID)
    words = [word for word in words if not word.startswith("folders.cache=")]
    words[words.index("--set") + 1 : words.index("--set") + 1] = [
        f"folders.cache={cache}"
    ]
    assert here(*words).returncode == 0
    home = tmp_path / "home"
    report = preloaded.run(
        "predictions/r",
        "--evaluator",
        "local",
        "--set",
        "report.page=false",
        cwd=tmp_path,
        script="report.py",
        env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")},
    )
    assert report.returncode == 0, report.stdout
    assert [*(cache / "environments/instances").iterdir()]
    assert not (home / "cache/swe-retry-harness").exists()


def test_variables_of_the_file_are_secret_whatever_they_are_called() -> None:
    environ = {DOTENV_VARIABLE: "MODE", "MODE": "a-value-of-mine", "PATH": "/bin"}
    assert Redactor.of_environment(environ)("a-value-of-mine") == "[MODE]"
    assert without_secrets(environ) == {"PATH": "/bin"}
