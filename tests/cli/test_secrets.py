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

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.redaction import Redactor
from swe_retry.launch.program import Program
from swe_retry.llm.provider_errors import translate_error
from swe_retry.llm.registry import load_litellm
from swe_retry.llm.wire import Wire
from swe_retry.record.description import Run as RunDescription
from swe_retry.record.result import InstanceResult
from swe_retry.record.store import RunStore
from tests.cli.test_options import Run
from tests.cli.test_options import here as here  # a fixture
from tests.support import TOP
from tests.support.commands import Preloaded
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT

SECRET = "sk-SENTINEL/0123456789"


def test_no_file_of_a_run_holds_a_secret(tmp_path: Path) -> None:
    redact = Redactor({"MY_API_KEY": SECRET})
    store = RunStore(tmp_path, "r", redact=redact)
    content = {"a": [{"b": f"x {SECRET} y", SECRET: 1}], "count": 3}
    store.save_instance("i", content, content, f"# said {SECRET}")
    unfinished = InstanceResult(instance_id="j", reason=f"x {SECRET}")
    store.save_unfinished(unfinished)
    store.save_run(RunDescription.model_validate(content))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        text = path.read_text()
        assert "SENTINEL" not in text, path
        assert "[MY_API_KEY]" in text, path


def failing_command(kind: type[Exception]) -> Callable[[], None]:
    def fail() -> None:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise kind(f"refused: {SECRET}") from error

    return fail


def test_no_exception_shows_a_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    monkeypatch.setattr(sys, "argv", ["harness.py"])
    codes = {
        UserError: 2,
        InfrastructureError: 2,
        OSError: 2,
        ValueError: 1,
    }
    for kind, code in codes.items():
        assert Program(default=failing_command(kind)).main() == code
        printed = capsys.readouterr()
        assert "refused: [MY_API_KEY]" in printed.err
        assert "SENTINEL" not in printed.err + printed.out


def test_a_key_reaches_no_output_of_a_whole_run(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    preloaded: Preloaded,
) -> None:
    env = {**os.environ, "OPENAI_API_KEY": SECRET}

    def run_harness(options: str) -> str:
        folders = f"--out {tmp_path} --set folders.cache={cache}"
        argv = shlex.split(f"--dataset demo --workers 1 --tries 1 {folders} {options}")
        return preloaded.run(*argv, env=env).stdout

    error = {"message": f"Incorrect API key provided: {SECRET}"}
    live = f"--models gpt-4o --api-base {provider.url} --set calls.retries=1"
    # Replies never know the key.
    provider.will_answer("textkit/slug.py", EDIT)
    tested = "--environment local --instances demo__textkit-1"
    output = run_harness(f"{live} --run live {tested}")
    # A refusal, a server that is down, a key that is refused.
    provider.answers.clear()
    for status in (400, 500, 500, 401):
        provider.will_answer(Answer(status=status, error=error))
    output += run_harness(f"{live} --run refused --environment none")
    assert "[OPENAI_API_KEY]" in output
    assert "refused the key" in output
    prints = "import os, sys; print(os.environ); sys.exit(1)"
    agent = shlex.quote(f"command:{sys.executable} -c '{prints}'")
    instance = "--instances demo__bank-1 --environment none --run outside"
    agent_key = "--set agent.env=OPENAI_API_KEY"
    output += run_harness(f"--models my-own --agent {agent} {agent_key} {instance}")
    run = f"{tmp_path}/predictions/outside"
    argv = f"{run} --evaluator local --set folders.cache={cache}".split()
    report = preloaded.run(*argv, script="report.py", env=env)
    output += report.stdout
    texts = {"printed": output.encode()}
    for folder in (tmp_path, cache / "baselines"):
        for path in folder.rglob("*"):
            if path.is_file():
                texts[str(path)] = path.read_bytes()
    names = {Path(name).name for name in texts}
    assert {"harness.log", "ledger.jsonl", "run.json", "demo__bank-1.jsonl"} <= names
    for name, text in texts.items():
        assert b"SENTINEL" not in text, name
    assert any(b"[OPENAI_API_KEY]" in text for text in texts.values())


PASSWORD = "ZQhunter/2+é"  # stands in addresses as %2F, %2B, %C3%A9
QUOTED = quote(PASSWORD, safe="")


Texts = dict[str, str]
RunAndRead = Callable[..., Texts]


@pytest.fixture
def run_and_read(here: Run, tmp_path: Path, cache: Path) -> RunAndRead:
    """Run the command and return all that it printed and wrote, by stream and file."""

    def run(*options: str, **env: str) -> Texts:
        folders = f"--out {tmp_path} --set folders.cache={cache}"
        limits = "--set calls.retries=0 --set budget.allow_unpriced=true --tries 1"
        instance = "--instances demo__textkit-1 --environment none --run r"
        common = f"--dataset demo {instance} {folders} {limits}".split()
        keys = {"OPENAI_API_KEY": SECRET, "SWE_RETRY_HARNESS_API_PASSWORD": ""}
        done = here(*common, *options, **keys, **env)
        texts = {"stdout": done.stdout, "stderr": done.stderr}
        for folder in ("predictions", "logs"):
            for path in (tmp_path / folder).rglob("*"):
                if path.is_file():
                    texts[str(path)] = path.read_text(errors="replace")
        return texts

    return run


def login_header(password: str = PASSWORD) -> str:
    login = f"me:{password}"
    return base64.b64encode(login.encode()).decode()


def assert_no_password(texts: Texts, *secrets: str) -> None:
    forms = [PASSWORD, QUOTED, login_header(), "ZQhunter", *secrets]
    for name, text in texts.items():
        for form in forms:
            assert form not in text, name


def with_login(url: str, password: str = QUOTED) -> str:
    return url.replace("://", f"://me:{password}@")


def refuse_with(message: str) -> Answer:
    """Return an answer that quotes the address and the header, as servers and proxies do."""
    error = {"message": f"no route {message}"}
    return Answer(status=400, error=error)


@pytest.mark.parametrize(
    "source",
    ["option", "file", "environment", "proxy", "short"],
)
def test_a_password_in_an_address_reaches_nothing(
    tmp_path: Path,
    run_and_read: RunAndRead,
    provider: Provider,
    source: str,
) -> None:
    address = with_login(provider.url)
    both = f"{address}, {with_login(provider.url, PASSWORD)}"
    provider.will_answer(refuse_with(f"{both}; Basic {login_header()}"))
    options = ["--models", "gpt-4o"]
    env = {}
    if source == "option":
        options += ["--api-base", address]
    elif source == "file":
        config = tmp_path / "c.yaml"
        config.write_text(f"calls.api_base: {address}\nmodels.names: gpt-4o\n")
        options = ["--config", str(config)]
    elif source == "environment":
        env = {"OPENAI_API_BASE": address, "OPENAI_BASE_URL": address}
    elif source == "proxy":
        options += ["--api-base", provider.url]
        env = {"ftp_proxy": address}
    else:
        short = with_login(provider.url, "zq7")
        provider.answers.clear()
        provider.will_answer(refuse_with(f"{short} Basic {login_header('zq7')}"))
        options += ["--api-base", short]
    texts = run_and_read(*options, **env)
    if source == "environment":
        assert "OPENAI_API_BASE holds a password" in texts["stderr"]
    else:
        assert len(texts) > 6
        assert "no route" in texts["stdout"], texts["stderr"]
    assert_no_password(texts, "me:zq7", login_header("zq7"))
    if source not in ("proxy", "environment"):
        sent = [headers.get("authorization", "") for headers in provider.headers]
        assert any(header.startswith("Basic ") for header in sent)


def test_a_cut_message_shows_no_half_of_a_password() -> None:
    class RefusedError(Exception):
        status_code = 400

    litellm = load_litellm()
    address = with_login("http://h/v1")
    for length in range(440, 500):
        error = RefusedError("x" * length + address)
        message = translate_error(litellm, "m", error, Wire(sent=True))
        assert "ZQh" not in str(message)


def python_agent(code: str, variable: str) -> list[str]:
    """Return options of an agent that runs ``code`` and gets a variable."""
    agent = f"command:{sys.executable} -c {shlex.quote(code)}"
    return ["--models", "my-own", "--agent", agent, "--set", f"agent.env={variable}"]


def test_a_cut_line_shows_no_half_of_a_secret(run_and_read: RunAndRead) -> None:
    code = "import os, sys; sys.exit('x' * 290 + os.environ['MY_API_KEY'])"
    options = python_agent(code, "MY_API_KEY")
    texts = run_and_read(*options, MY_API_KEY="ZQhunter-key-of-mine")
    assert_no_password(texts)


def test_a_command_that_prints_its_address_shows_no_password(
    run_and_read: RunAndRead,
) -> None:
    code = "import os; print(os.environ['MY_URL'], os.environ['MY_URL'].split('@')[0])"
    options = python_agent(code, "MY_URL")
    address = with_login("http://host.example/v1")
    texts = run_and_read(*options, MY_URL=address)
    (trajectory,) = [name for name in texts if "trajectories" in name]
    assert "[MY_URL" in texts[trajectory]
    assert_no_password(texts)


BAD_ADDRESS = "--api-base '…@h/': give an address"
MESSAGES = {
    f"--agent \"command:sh -c 'x http://me:{QUOTED}@h/'\"": "--agent holds a password",
    f"--agent 'command:sh http://me:{QUOTED}@h/ {{nope}}'": "--agent holds a password",
    "--api-base http://me:ZQhunter/2@h/": BAD_ADDRESS,
    "--api-base http://me:12/ZQhunter@h/": BAD_ADDRESS,
    "--api-base me:ZQhunter@h/": BAD_ADDRESS,
    "--config broken.yaml": "is not YAML",
    "--config unknown.yaml": "there is no setting",
    "--set models.file=unknown.yaml": "api-bases: no such key",
    "--set models.file=broken.yaml": "is not YAML",
    "--set models.file=format.yaml": "edit_format",
    f"--set scale.ray=http://me:{QUOTED}@h/ --nope": "No such option",
    f"--dataset https://me:{QUOTED}@h/data": "dataset",
}


# Ids of their own: pytest puts the id of a test into a variable, and the harness would
# find the value of a variable in the option.
@pytest.mark.parametrize("options", MESSAGES, ids=range(len(MESSAGES)))
def test_no_message_shows_a_password(
    tmp_path: Path, run_and_read: RunAndRead, options: str
) -> None:
    address = with_login("http://h/")
    (tmp_path / "broken.yaml").write_text(f"api-base: {address}: x\n")
    (tmp_path / "unknown.yaml").write_text(f"api-bases: {address}\n")
    edit_format = f"models: {{a: {{edit_format: '{address}'}}}}\n"
    (tmp_path / "format.yaml").write_text(edit_format)
    texts = run_and_read("--models", "gpt-4o", *shlex.split(options))
    assert MESSAGES[options] in texts["stderr"], texts["stderr"]
    assert_no_password(texts)


def test_every_text_option_is_recorded_without_its_user(
    tmp_path: Path, run_and_read: RunAndRead
) -> None:
    replay = f"--replay {TOP}/swe_retry/demo/replies --models scripted-a,scripted-b"
    address = with_login("http://h/v1") + "?key=ZQhunter-in-a-query"
    addresses = f"--set scale.ray={address} --api-base {address}"
    options = f"{replay} {addresses}".split()
    texts = run_and_read(*options)
    run = tmp_path / "predictions/r/run.json"
    settings = json.loads(run.read_text())["settings"]
    assert settings["calls"]["api_base"] == "http://***@h/v1?***"
    assert settings["scale"]["ray"].startswith("http://***@h/v1")
    assert_no_password({"run.json": texts[str(run)]})
