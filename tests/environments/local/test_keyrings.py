"""No key passes from the caller to test code, or from one test run to a later one."""

from __future__ import annotations

import ctypes
import json
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.environments.base import EnvironmentKind, run_once
from swe_retry.environments.local.bubblewrap import bubblewrap_works, sandbox_argv_with
from swe_retry.environments.local.environment import LocalEnvironment, LocalSession
from swe_retry.environments.local.launcher import key_filter
from swe_retry.report.evaluation.evaluation_settings import EvaluatorKind
from swe_retry.report.report import report_command
from swe_retry.testing.project import project_of
from tests.support.evaluated import report_settings
from tests.support.provider import Provider
from tests.support.runs import live, options
from tests.support.start import run_command

LAUNCHER = (
    Path(__file__).resolve().parents[3] / "swe_retry/environments/local/launcher.py"
)
NUMBERS = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(platform.machine())
SEARCH = (
    "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
    "add, keyctl = {numbers}\n"
    "out = ctypes.create_string_buffer(64)\n"
    "for ring in (-3, -4, -5):\n"
    "    found = c.syscall(keyctl, 10, ring, b'user', b'harness:probe', 0)\n"
    "    print('found' if found > 0 else 'nothing', ctypes.get_errno())\n"
    "print('added' if c.syscall(add, b'user', b'harness:mine', b'x', 1, -4) > 0 else 'refused')\n"
)

needs_keys = pytest.mark.skipif(
    NUMBERS is None, reason="no numbers of system calls are known"
)


@pytest.fixture
def secret() -> Any:
    """A key in this process's session keyring and in its user's, as a login leaves them."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert NUMBERS is not None
    add, keyctl = NUMBERS
    probe = (b"user", b"harness:probe", b"secret", 6)
    made = [libc.syscall(add, *probe, ring) for ring in (-3, -4)]
    if min(made) < 0:
        pytest.skip("keys cannot be added on this machine")
    yield
    for ring, key in zip((-3, -4), made, strict=True):
        libc.syscall(keyctl, 9, key, ring)


def code() -> str:
    return SEARCH.replace("{numbers}", str(NUMBERS))


def launch(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", str(LAUNCHER), *command],
        capture_output=True,
        text=True,
        check=False,
    )


@needs_keys
def test_without_the_launcher_the_key_is_found(secret: None) -> None:
    """Otherwise the other tests would show nothing."""
    done = subprocess.run(
        [sys.executable, "-c", code()], capture_output=True, text=True, check=True
    )
    assert "found" in done.stdout and "added" in done.stdout


@needs_keys
def test_a_launched_command_reaches_no_keyring(secret: None) -> None:
    done = launch(sys.executable, "-c", code())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == ["nothing 1"] * 3 + ["refused"]


@needs_keys
@pytest.mark.parametrize("shut_in", [True, False])
def test_test_code_reaches_no_keyring(
    secret: None,
    demo: Any,
    tmp_path: Path,
    cache: Path,
    shut_in: bool,
) -> None:
    if shut_in and not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    made = LocalEnvironment(cache / "environments", print).start(project_of(*demo))
    assert isinstance(made, LocalSession)
    object.__setattr__(made, "shut_in", shut_in)
    try:
        script = {"probe.py": code().encode()}
        result = run_once(made, script, "python probe.py", 60)
    finally:
        made.stop()
    assert result.exit_code == 0, result.output
    assert "found" not in result.output and "refused" in result.output


@pytest.mark.parametrize("network", [True, False])
def test_the_sandbox_does_not_list_keys(network: bool) -> None:
    if not bubblewrap_works() or not Path("/proc/keys").exists():
        pytest.skip("there is no bubblewrap, or no list of keys")
    assert Path("/proc/keys").read_text(), "there are no keys to be hidden"
    argv = sandbox_argv_with(["sh", "-c", "cat /proc/key*"], {}, (), network=network)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


@needs_keys
def test_a_foreign_architecture_is_refused() -> None:
    """Another ABI has other numbers for these calls, which a filter of numbers lets pass."""
    if platform.machine() != "x86_64":
        pytest.skip("x32 numbers are those of x86-64")
    x32 = (
        "import ctypes, sys; c = ctypes.CDLL(None, use_errno=True)\n"
        "print(c.syscall(0x40000000 + 39), ctypes.get_errno())\n"
    )
    done = launch(sys.executable, "-c", x32)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["-1", "38"]


def test_the_filter_of_each_architecture() -> None:
    assert len(key_filter("x86_64")) == 8 * (4 + 2 + 6 + 2 + 8 + 1)
    assert len(key_filter("aarch64")) == 8 * (4 + 6 + 2 + 8 + 1)
    assert key_filter("riscv64") == b""


def test_a_command_that_does_not_exist_is_an_error() -> None:
    done = launch("/no/such/command")
    assert done.returncode != 0 and "No such file" in done.stderr


CARRY = """import ctypes
import glob
import os

_c = ctypes.CDLL(None, use_errno=True)
_add, _keyctl = {numbers}
_seen = b"CARRIED " + b" ".join(os.fsencode(p) for p in glob.glob("tests/*.py"))
for _ring in (-3, -4, -5):
    _c.syscall(_add, b"user", b"harness:carried", _seen, len(_seen), _ring)
"""
FIND = """import ctypes

_c = ctypes.CDLL(None, use_errno=True)
_add, _keyctl = {numbers}
_text = ctypes.create_string_buffer(512)
for _ring in (-3, -4, -5):
    _key = _c.syscall(_keyctl, 10, _ring, b"user", b"harness:carried", 0)
    _c.syscall(_keyctl, 11, _key, _text, 512)
raise AssertionError("read from a keyring: [" + _text.value.decode() + "]")
"""


def reply(source: str) -> str:
    old = '"""Names for addresses."""\n'
    new = source.replace("{numbers}", str(NUMBERS)) + old
    return f"textkit/slug.py\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n"


@needs_keys
def test_nothing_of_an_evaluation_reaches_a_later_attempt(
    secret: None, tmp_path: Path, cache: Path, provider: Provider
) -> None:
    """An attempt and its evaluation leave a key; a later attempt that finds it fails."""
    name = "demo__textkit-1"
    run_options = options(tmp_path, cache, name)
    chosen = live(provider, environment=EnvironmentKind.LOCAL, tries=1)
    provider.will_answer("textkit/slug.py", reply(CARRY))
    assert run_command(replace(chosen, run="first"), run_options, lambda _: None) == 0
    report = report_settings(cache, EvaluatorKind.LOCAL, repos=None)
    assert report_command([tmp_path / "predictions/first"], report, lambda _: None) == 0
    provider.answers.clear()
    provider.will_answer("textkit/slug.py", reply(FIND))
    assert run_command(replace(chosen, run="second"), run_options, lambda _: None) == 0
    requests = json.dumps(provider.requests)
    assert "read from a keyring: []" in requests
    assert "CARRIED" not in requests
