"""Each installation is of a lock with hashes, and no installer sees a key."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import TOP
from tests.support.action import Action

INSTALLER = TOP / ".ci/install.py"
LOCKS = sorted(TOP.glob("requirements*.lock"))
IN_PLACE = "--in-place . --in-place exercises"
# Documents that tell how to install this project, here or on another machine.
GUIDES = ("README.md", "docs/scale.md", "docs/tracing.md", "docs/action.md")
INSTALLS = re.compile(r"\b(pip3?|pipx|uv|uv tool|uv pip) (install|sync)\b")
KEYS = {"OPENAI_API_KEY": "sk-1", "AWS_SECRET": "x", "ANYTHING": "x", "GH_TOKEN": "x"}
NEEDED = {
    "PATH": os.environ["PATH"],
    "HOME": "/home/somebody",
    "PIP_INDEX_URL": "https://index.example/simple",
    "UV_INDEX_URL": "https://index.example/simple",
    "SSL_CERT_FILE": "/etc/ssl/own.pem",
    "REQUESTS_CA_BUNDLE": "/etc/ssl/own.pem",
    "HTTPS_PROXY": "http://proxy.example:3128",
    "no_proxy": "localhost",
}
STUB = """#!{python} -I
import json, os, sys
with open({calls!r}, "a") as file:
    call = {{"argv": sys.argv, "variables": dict(os.environ), "folder": os.getcwd()}}
    file.write(json.dumps(call) + "\\n")
sys.exit(os.path.basename(sys.argv[0]) in {failing!r})
"""


def pins_of(lock: Path) -> dict[str, list[Requirement]]:
    """Return the pins of a lock and of those that it includes, by name."""
    pins: dict[str, list[Requirement]] = {}
    for line in lock.read_text().splitlines():
        if line.startswith("-r "):
            pins |= pins_of(lock.with_name(line.removeprefix("-r ")))
        elif line[0] not in "# ":
            pin = Requirement(line.removesuffix("\\"))
            pins.setdefault(canonicalize_name(pin.name), []).append(pin)
    return pins


def bounds_of(lock: Path) -> Path:
    if lock.name == "requirements-exercises.lock":
        return TOP / "exercises/requirements.txt"
    return lock.with_suffix(".txt")


def requirements_of(path: Path) -> Iterator[Requirement]:
    for line in path.read_text().splitlines():
        if line and not line.startswith(("#", "-r ")):
            yield Requirement(line.partition("#")[0])


def run_installer(
    folder: Path, *arguments: str, failing: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Return the calls of pip and uv, by stubs of both."""
    calls = folder / "calls.jsonl"
    programs = folder / "venv/bin"
    programs.mkdir(parents=True)
    stub = STUB.format(python=sys.executable, calls=str(calls), failing=failing)
    for name in ("python", "uv"):
        (programs / name).write_text(stub)
        (programs / name).chmod(0o755)
    command: list[str | Path] = [sys.executable, "-I", INSTALLER, folder / "venv"]
    command += arguments
    subprocess.run(command, env=KEYS | NEEDED, cwd=TOP, check=False)
    return [json.loads(line) for line in calls.read_text().splitlines()]


def test_an_installer_sees_the_machine_and_the_index_and_no_key(tmp_path: Path) -> None:
    project = ["--project", str(TOP)]
    for call in run_installer(tmp_path, "requirements.lock", *project):
        call["variables"].pop("LC_CTYPE", None)  # Python sets it itself
        assert call["variables"] == NEEDED
        # uv reads the pyproject.toml of its folder.
        assert call["folder"] == "/"


def test_hashes_are_required_and_nothing_is_built_but_the_project(
    tmp_path: Path,
) -> None:
    lock = TOP / "requirements-ray.lock"
    project = ("--project", str(TOP))
    calls = run_installer(tmp_path, lock.name, *project, failing=("uv",))
    uses = [call["argv"] for call in calls]
    assert [Path(argv[0]).name for argv in uses] == ["python", "uv", "python", "python"]
    for argv in uses[:3]:
        assert {"--require-hashes", "--only-binary", ":all:"} <= set(argv)
    assert str(INSTALLER.parents[1] / "requirements-build.lock") in uses[0]
    assert str(lock) in uses[1]
    assert str(lock) in uses[2]
    assert {"--no-index", "--no-deps", "--no-build-isolation", str(TOP)} <= set(uses[3])


def test_nothing_else_is_installed_where_the_tools_are_not_as_locked(
    tmp_path: Path,
) -> None:
    calls = run_installer(tmp_path, "requirements.lock", failing=("python",))
    assert len(calls) == 1


def test_make_installs_locks_alone(tmp_path: Path) -> None:
    targets = ("setup", "setup-dev", "setup-ray", "setup-trace", "demo", "lock")
    command = ["make", "--dry-run", *targets, f"VENV={tmp_path}/venv"]
    steps = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True)
    assert not INSTALLS.search(steps.stdout)
    uses = re.findall(r"\.ci/install\.py (.*)", steps.stdout)
    assert len(uses) == 4
    for use in uses:
        lock = rf"{tmp_path}/venv requirements[\w-]*\.lock"
        assert re.fullmatch(rf"{lock} +{re.escape(IN_PLACE)}", use)


def test_the_newest_releases_go_into_an_environment_of_their_own() -> None:
    command = ["make", "--dry-run", "test-latest"]
    steps = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True)
    uses = re.findall(r"\.ci/install\.py (.* --latest)", steps.stdout)
    assert uses == [".venv-latest requirements-dev.txt --latest"]


def test_ci_the_action_and_documents_install_locks_alone() -> None:
    scripts = [path.read_text() for path in (TOP / ".ci").iterdir() if not path.suffix]
    scripts += [step["run"] for step in Action.read().steps]
    scripts += [(TOP / name).read_text() for name in GUIDES]
    uses = []
    for script in scripts:
        for line in script.splitlines():
            if INSTALLS.search(line) and not line.strip().startswith("#"):
                uses.append(line)
    assert uses, "a document shows how the commands are installed"
    for line in uses:
        assert re.search(r"--constraints? requirements[\w-]*\.lock", line), line
    action = "\n".join(scripts)
    assert '"$GITHUB_ACTION_PATH/.ci/install.py" "$venv" \\\n' in action
    assert '"$GITHUB_ACTION_PATH/requirements.lock"' in action
    assert not re.search(r"requirements[\w-]*\.txt", "\n".join(scripts))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_has_hashes_and_names_no_index(lock: Path) -> None:
    includes = False
    hashes: list[int] = []
    for line in lock.read_text().splitlines():
        if line.startswith("-r requirements"):
            includes = True
        elif line.startswith("    --hash=sha256:"):
            assert re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?", line)
            hashes[-1] += 1
        else:
            assert re.fullmatch(r"[\w.-]+==[\w.+!-]+( ; [^#@:]+)? \\", line)
            hashes.append(0)
    bases = ("requirements.lock", "requirements-build.lock")
    assert includes == (lock.name not in bases)
    assert all(hashes)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_is_within_the_bounds(lock: Path) -> None:
    pins = pins_of(lock)
    for requirement in requirements_of(bounds_of(lock)):
        versions = pins.get(canonicalize_name(requirement.name))
        assert versions, requirement
        for pin in versions:
            (version,) = pin.specifier
            assert requirement.specifier.contains(version.version), pin


def test_a_package_has_one_version_in_all_locks() -> None:
    """For one Python and system: pins of one package differ in what they are for."""
    pins = pins_of(TOP / "requirements-dev.lock")
    for several in pins.values():
        assert len({str(pin.marker) for pin in several}) == len(several), several
    for name, tools in pins_of(TOP / "requirements-build.lock").items():
        if name in pins:
            assert list(map(str, tools)) == list(map(str, pins[name]))


def test_each_requirement_says_what_it_is_for() -> None:
    for bounds in map(bounds_of, LOCKS):
        comment = ""
        for line in bounds.read_text().splitlines():
            if line.startswith("#"):
                comment = line
                continue
            own = line.partition("#")[2]
            if not line.startswith("-r ") and bounds.name == "requirements.txt":
                assert own.strip() or comment, line
                comment = ""


def test_what_builds_the_package_is_locked() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    locked = set(map(str, requirements_of(TOP / "requirements-build.txt")))
    assert {
        str(Requirement(text)) for text in project["build-system"]["requires"]
    } <= locked
