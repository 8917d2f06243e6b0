"""Sentinel keys through what is written and said of a run."""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from bench.cli.cli import run_cli
from core.errors import InfrastructureError, UserError
from core.redaction import Redactor
from llm.provider_errors import Wire, translate_error
from llm.registry import load_litellm
from runs.description import Run as RunDescription
from runs.records import InstanceResult
from runs.storage.store import RunStore
from tests.bench.cli.test_options import Run
from tests.bench.cli.test_options import here as here  # a fixture
from tests.support import TOP
from tests.support.commands import Preloaded
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT

SECRET = "sk-SENTINEL/0123456789"


def test_no_file_of_a_run_holds_a_secret(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "r", redact=Redactor({"MY_API_KEY": SECRET}))
    said = {"a": [{"b": f"x {SECRET} y", SECRET: 1}], "count": 3}
    store.save_instance("i", said, said, f"# said {SECRET}")
    store.save_unfinished(InstanceResult(instance_id="j", reason=f"x {SECRET}"))
    store.save_run(RunDescription.model_validate(said))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        text = path.read_text()
        assert "SENTINEL" not in text, path
        assert "[MY_API_KEY]" in text, path


@pytest.mark.parametrize(
    ("kind", "code"),
    [(UserError, 2), (InfrastructureError, 1), (OSError, 1), (ValueError, 1)],
)
def test_no_exception_shows_a_secret(
    kind: type[Exception],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command() -> None:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise kind(f"refused: {SECRET}") from error

    monkeypatch.setenv("MY_API_KEY", SECRET)
    monkeypatch.setattr(sys, "argv", ["harness.py"])
    assert run_cli(command, "harness.py") == code
    shown = capsys.readouterr()
    assert "refused: [MY_API_KEY]" in shown.err
    assert "SENTINEL" not in shown.err + shown.out


def test_a_key_reaches_no_output_of_a_whole_run(
    tmp_path: Path, cache: Path, provider: Provider, preloaded: Preloaded
) -> None:
    def harness(*words: str) -> str:
        common = ["--dataset", "demo", "--out", str(tmp_path), "--workers", "1"]
        return preloaded.run(
            *common, *words, "--set", f"folders.cache={cache}", env=env
        ).stdout

    env = {**os.environ, "OPENAI_API_KEY": SECRET}
    quoting = {"message": f"Incorrect API key provided: {SECRET}"}
    live = [
        "--models",
        "gpt-4o",
        "--api-base",
        provider.url,
        "--set",
        "calls.retries=1",
        "--tries",
        "1",
    ]
    # Replies never know the key.
    provider.will_answer("textkit/slug.py", EDIT)
    tested = ("--environment", "local", "--instances", "demo__textkit-1")
    said = harness(*live, "--run", "live", *tested)
    # A refusal, a server that is down, a key that is refused.
    provider.answers.clear()
    provider.will_answer(
        Answer(status=400, error=quoting),
        Answer(status=500, error=quoting),
        Answer(status=500, error=quoting),
        Answer(status=401, error=quoting),
    )
    said += harness(*live, "--run", "refused", "--environment", "none")
    assert "[OPENAI_API_KEY]" in said and "refused the key" in said
    prints = "import os, sys; print(os.environ); sys.exit(1)"
    command = f"command:{sys.executable} -c '{prints}'"
    said += harness(
        "--models",
        "my-own",
        "--agent",
        command,
        "--set",
        "agent.env=OPENAI_API_KEY",
        "--instances",
        "demo__bank-1",
        "--run",
        "outside",
        "--environment",
        "none",
        "--tries",
        "1",
    )
    outside = str(tmp_path / "predictions/outside")
    words = [outside, "--evaluator", "local", "--set", f"folders.cache={cache}"]
    said += preloaded.run(*words, script="report.py", env=env).stdout
    files = []
    for p in (*tmp_path.rglob("*"), *(cache / "baselines").rglob("*")):
        if p.is_file():
            files.append(p)
    names = {path.name for path in files}
    assert {"harness.log", "ledger.jsonl", "run.json", "demo__bank-1.jsonl"} <= names
    shown = {str(path): path.read_bytes() for path in files}
    shown["printed"] = said.encode()
    for place, data in shown.items():
        assert b"SENTINEL" not in data, place
    assert any(b"[OPENAI_API_KEY]" in data for data in shown.values())


PASSWORD = "ZQhunter/2+é"  # stands in addresses as %2F, %2B, %C3%A9
QUOTED = quote(PASSWORD, safe="")


Shown = dict[str, str]


@pytest.fixture
def shown_by(here: Run, tmp_path: Path, cache: Path) -> Callable[..., Shown]:
    """Run the command and return by place all that it printed and wrote."""

    def run(*words: str, **env: str) -> Shown:
        common = [
            "--dataset",
            "demo",
            "--instances",
            "demo__textkit-1",
            "--environment",
            "none",
            "--run",
            "r",
            "--out",
            str(tmp_path),
            "--set",
            f"folders.cache={cache}",
            "--tries",
            "1",
            "--set",
            "calls.retries=0",
            "--set",
            "budget.allow_unpriced=true",
        ]
        ours = {"OPENAI_API_KEY": SECRET, "SWE_RETRY_HARNESS_API_PASSWORD": ""}
        result = here(*common, *words, **ours, **env)
        files = [
            p
            for place in ("predictions", "logs")
            for p in (tmp_path / place).rglob("*")
        ]
        shown = {str(p): p.read_text(errors="replace") for p in files if p.is_file()}
        return {**shown, "stdout": result.stdout, "stderr": result.stderr}

    return run


def without_password(shown: Shown, *secrets: str) -> None:
    pair = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    for place, text in shown.items():
        for form in (PASSWORD, QUOTED, pair, "ZQhunter", *secrets):
            assert form not in text, place


def with_login(url: str, login: str = f"me:{QUOTED}") -> str:
    return url.replace("://", f"://{login}@")


def refusals(url: str) -> Answer:
    """Return an answer that quotes the address and the header, as servers and proxies do."""
    pair = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    words = (
        f"no route {with_login(url)}, {with_login(url, f'me:{PASSWORD}')}; Basic {pair}"
    )
    return Answer(status=400, error={"message": words})


@pytest.mark.parametrize("path", ["option", "file", "environment", "proxy", "short"])
def test_a_password_in_an_address_reaches_nothing(
    tmp_path: Path,
    shown_by: Callable[..., Shown],
    provider: Provider,
    path: str,
) -> None:
    address = with_login(provider.url)
    words = ["--models", "gpt-4o"]
    env = {}
    provider.will_answer(refusals(provider.url))
    if path == "option":
        words += ["--api-base", address]
    elif path == "file":
        (tmp_path / "c.yaml").write_text(
            f"calls.api_base: {address}\nmodels.names: gpt-4o\n"
        )
        words = ["--config", str(tmp_path / "c.yaml")]
    elif path == "environment":
        env = {"OPENAI_API_BASE": address, "OPENAI_BASE_URL": address}
    elif path == "proxy":
        words += ["--api-base", provider.url]
        env = {"ftp_proxy": address}
    else:
        short = with_login(provider.url, "me:zq7")
        provider.answers.clear()
        pair = base64.b64encode(b"me:zq7").decode()
        provider.will_answer(
            Answer(status=400, error={"message": f"no route {short} Basic {pair}"})
        )
        words += ["--api-base", short]
    shown = shown_by(*words, **env)
    if path == "environment":
        assert "OPENAI_API_BASE holds a password" in shown["stderr"]
    else:
        assert len(shown) > 6 and "no route" in shown["stdout"], shown["stderr"]
    without_password(shown, "me:zq7", base64.b64encode(b"me:zq7").decode())
    sent = {headers.get("authorization", "") for headers in provider.headers}
    assert any(kind.startswith("Basic ") for kind in sent) or path in (
        "proxy",
        "environment",
    )


def test_a_cut_message_shows_no_half_of_a_password() -> None:
    class RefusedError(Exception):
        status_code = 400

    for before in range(440, 500):
        error = RefusedError("x" * before + with_login("http://h/v1"))
        assert "ZQh" not in str(
            translate_error(load_litellm(), "m", error, Wire(sent=True))
        )


def test_a_cut_line_shows_no_half_of_a_secret(shown_by: Callable[..., Shown]) -> None:
    code = "import os, sys; sys.exit('x' * 290 + os.environ['MY_API_KEY'])"
    agent = f"command:{sys.executable} -c {shlex.quote(code)}"
    words = ["--models", "my-own", "--agent", agent, "--set", "agent.env=MY_API_KEY"]
    shown = shown_by(*words, MY_API_KEY="ZQhunter-key-of-mine")
    without_password(shown)


def test_a_command_that_prints_its_address_shows_no_password(
    shown_by: Callable[..., Shown],
) -> None:
    code = "import os; print(os.environ['MY_URL'], os.environ['MY_URL'].split('@')[0])"
    agent = f"command:{sys.executable} -c {shlex.quote(code)}"
    words = ["--models", "my-own", "--agent", agent, "--set", "agent.env=MY_URL"]
    shown = shown_by(*words, MY_URL=with_login("http://host.example/v1"))
    trajectory = next(text for place, text in shown.items() if "trajectories" in place)
    assert "[MY_URL" in trajectory
    without_password(shown)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--agent", f"command:sh -c 'x http://me:{QUOTED}@h/'"],
            "--agent holds a password",
        ),
        (
            ["--agent", f"command:sh http://me:{QUOTED}@h/ {{nope}}"],
            "--agent holds a password",
        ),
        (
            ["--api-base", "http://me:ZQhunter/2@h/"],
            "--api-base '…@h/': give an address",
        ),
        (
            ["--api-base", "http://me:12/ZQhunter@h/"],
            "--api-base '…@h/': give an address",
        ),
        (["--api-base", "me:ZQhunter@h/"], "--api-base '…@h/': give an address"),
        (["--config", "broken.yaml"], "is not YAML"),
        (["--config", "unknown.yaml"], "there is no setting"),
        (["--set", "models.file=unknown.yaml"], "api-bases: no such key"),
        (["--set", "models.file=broken.yaml"], "is not YAML"),
        (["--set", "models.file=format.yaml"], "edit_format"),
        (["--set", f"scale.ray=http://me:{QUOTED}@h/", "--nope"], "No such option"),
        (["--dataset", f"https://me:{QUOTED}@h/data"], "dataset"),
    ],
)
def test_no_message_shows_a_password(
    tmp_path: Path,
    shown_by: Callable[..., Shown],
    words: list[str],
    said: str,
) -> None:
    address = with_login("http://h/")
    (tmp_path / "broken.yaml").write_text(f"api-base: {address}: x\n")
    (tmp_path / "unknown.yaml").write_text(f"api-bases: {address}\n")
    (tmp_path / "format.yaml").write_text(
        f"models: {{a: {{edit_format: '{address}'}}}}\n"
    )
    shown = shown_by("--models", "gpt-4o", *words)
    assert said in shown["stderr"], shown["stderr"]
    without_password(shown)


def test_every_text_option_is_recorded_without_its_user(
    tmp_path: Path, shown_by: Callable[..., Shown]
) -> None:
    words = ["--replay", str(TOP / "demo/replies"), "--models", "scripted-a,scripted-b"]
    address = with_login("http://h/v1") + "?key=ZQhunter-in-a-query"
    shown = shown_by(*words, "--set", f"scale.ray={address}", "--api-base", address)
    options = json.loads((tmp_path / "predictions/r/run.json").read_text())["settings"]
    assert options["calls"]["api_base"] == "http://***@h/v1?***"
    assert options["scale"]["ray"].startswith("http://***@h/v1")
    without_password(
        {place: text for place, text in shown.items() if "run.json" in place}
    )
