"""Files of variables: which are read, what is taken from them, and which are not read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from swe_retry.core.processes import without_secrets
from swe_retry.core.redaction import Redactor
from swe_retry.llm.registry import load_litellm
from swe_retry.runner.envfile import load_env_file
from swe_retry.runner.settings import default_cache
from tests.support import TOP
from tests.support.commands import Preloaded
from tests.support.provider import Provider
from tests.support.runner import ID, arguments

TAKEN = (
    "OPENAI_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "HF_TOKEN",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION_NAME",
    "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AZURE_API_VERSION",
    "AZURE_TENANT_ID", "VERTEXAI_PROJECT", "VERTEXAI_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS",
    "WATSONX_URL", "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", "SWEBENCH_API_KEY", "GITHUB_TOKEN",
    "LANGFUSE_PUBLIC_KEY", "LANGFUSE_HOST", "OTEL_EXPORTER_OTLP_HEADERS",
)  # fmt: skip
IGNORED = (
    "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0", "GIT_SSH_COMMAND", "GIT_DIR",
    "GIT_SSL_KEY", "GIT_API_KEY", "PATH", "HOME", "PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD",
    "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "HTTPS_PROXY", "https_proxy", "ALL_PROXY",
    "XDG_CACHE_HOME", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_PROJECT", "DOCKER_HOST", "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CA_BUNDLE",
    "LITELLM_MODE", "SWE_RETRY_HARNESS_DOTENV", "SWE_RETRY_HARNESS_API_KEY", "BASH_ENV", "EDITOR",
    "NODE_OPTIONS", "RAY_ADDRESS", "HF_HOME", "TMPDIR",
)  # fmt: skip


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, with none of the variables set but those that every process has."""
    environ = {}
    for name in ("PATH", "HOME"):
        if name in os.environ:
            environ[name] = os.environ[name]
    monkeypatch.setattr(os, "environ", environ)
    return tmp_path


def write_keys(folder: Path, values: Mapping[str, str]) -> Path:
    """Write a file of variables."""
    path = folder / "keys"
    lines = [f"{name}={value}\n" for name, value in values.items()]
    path.write_text("".join(lines))
    return path


def test_keys_regions_and_addresses_are_set_and_nothing_else(clean: Path) -> None:
    path = os.environ["PATH"]
    before = dict(os.environ)
    values = {name: f"of-the-file-{name}" for name in TAKEN + IGNORED}
    keys = write_keys(clean, values)
    notes: list[str] = []
    load_env_file(keys, notes.append)
    added = set(os.environ) - set(before)
    assert added == {*TAKEN, "SWE_RETRY_HARNESS_DOTENV"}
    assert os.environ["PATH"] == path
    (note,) = notes
    assert "GIT_CONFIG_COUNT" in note
    assert f"and {len(IGNORED) - 20} more" in note
    # Nothing of it reaches set-up, tests and linters, under any name; all of it is redacted.
    assert without_secrets(os.environ) == before
    redact = Redactor.of_environment(os.environ)
    assert redact("of-the-file-AWS_REGION_NAME") == "[AWS_REGION_NAME]"


def test_the_environment_comes_first(clean: Path) -> None:
    os.environ["OPENAI_API_KEY"] = "of-the-environment"
    values = dict.fromkeys(("OPENAI_API_KEY", "GROQ_API_KEY"), "of-the-file")
    load_env_file(write_keys(clean, values), pytest.fail)
    assert os.environ["OPENAI_API_KEY"] == "of-the-environment"
    assert "OPENAI_API_KEY" not in os.environ["SWE_RETRY_HARNESS_DOTENV"]
    assert os.environ["GROQ_API_KEY"] == "of-the-file"


def test_what_litellm_asks_for_is_taken(clean: Path) -> None:
    """One model of each provider in litellm's map names the variables that it needs."""
    litellm = load_litellm()
    models = {}
    for name, entry in litellm.model_cost.items():
        models[entry.get("litellm_provider")] = name
    needed = set()
    for name in models.values():
        checked = litellm.validate_environment(model=name)
        needed.update(checked["missing_keys"])
    assert len(needed) > 20
    keys = write_keys(clean, dict.fromkeys(needed, "x"))
    load_env_file(keys, pytest.fail)
    assert needed <= set(os.environ)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("{home}/config", True),
        ("config", False),
    ],
)
def test_the_users_own_file_lies_where_xdg_says(
    clean: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    read: bool,
) -> None:
    """A relative name does not count: it would lie in the folder that is worked in."""
    monkeypatch.chdir(clean)
    os.environ["HOME"] = str(clean / "empty")
    os.environ["XDG_CONFIG_HOME"] = value.format(home=clean)
    os.environ["XDG_CACHE_HOME"] = "cache"
    file = clean / "config/swe-retry-harness/.env"
    file.parent.mkdir(parents=True)
    file.write_text("GROQ_API_KEY=of-the-file\n")
    load_env_file(None, pytest.fail)
    assert ("GROQ_API_KEY" in os.environ) is read
    assert default_cache() == clean / "empty/.cache/swe-retry-harness"


def test_an_own_file_that_cannot_be_read_is_a_note(clean: Path) -> None:
    os.environ["XDG_CONFIG_HOME"] = str(clean)
    file = clean / "swe-retry-harness/.env"
    file.parent.mkdir()
    file.write_bytes(b"GROQ_API_KEY=\xff\n")
    notes: list[str] = []
    load_env_file(None, notes.append)
    assert "cannot be read" in notes[0]
    assert "GROQ_API_KEY" not in os.environ


def test_a_file_in_the_current_folder_is_named_and_not_read(
    tmp_path: Path, preloaded: Preloaded, provider: Provider
) -> None:
    lines = f"OPENAI_API_KEY=sk-of-the-folder\nOPENAI_API_BASE={provider.url}\nGIT_DIR=/nowhere\n"
    (tmp_path / ".env").write_text(lines)
    env = dict(os.environ)
    env["HOME"] = str(tmp_path / "home")
    env.pop("OPENAI_API_KEY", None)
    options = "--models gpt-4o@diff --environment none --tries 1 --budget-usd 1"
    command = arguments(tmp_path, [ID], options)
    run = partial(preloaded.run, *command, env=env, cwd=tmp_path)
    done = run()
    assert done.returncode == 2, done.stdout
    assert not provider.requests
    (line,) = done.stdout.splitlines()
    assert f"put them in {tmp_path}/home/.config/swe-retry-harness/.env" in line
    assert ".env in this folder is not read unless you give --env-file .env" in line
    dry = run("--dry-run")
    assert "OPENAI_API_KEY; .env in this folder is not read" in dry.stdout
    # The user names it: it is read, and filtered as any.
    provider.will_answer("I do not know.")
    done = run("--env-file", ".env")
    assert provider.requests, done.stdout
    assert "note: .env: not set, because" in done.stdout
    assert "GIT_DIR" in done.stdout
    assert "is not read unless" not in done.stdout
    assert provider.headers[0]["authorization"] == "Bearer sk-of-the-folder"


def test_packages_load_no_file_of_the_folders_above_them(tmp_path: Path) -> None:
    """swebench loads one when it is imported; ``.venv`` may lie in the tree that is worked on."""
    (tmp_path / ".env").write_text(
        "GIT_CONFIG_COUNT=1\nOPENAI_API_BASE=http://127.0.0.1:9\n"
    )
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed/package.py").write_text(
        "from dotenv import load_dotenv\nload_dotenv()\n"
    )
    code = (
        "import os, sys\n"
        "from swe_retry.launch.program import Program\n"
        "sys.argv = ['x']\n"
        "def command() -> None:\n"
        "    import package\n"
        "assert Program(default=command).main() == 0\n"
        "print({'GIT_CONFIG_COUNT', 'OPENAI_API_BASE'} & {*os.environ})\n"
    )
    path = os.pathsep.join([str(TOP), f"{tmp_path}/installed"])
    printed = subprocess.check_output(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
    )
    assert printed == "set()\n"
