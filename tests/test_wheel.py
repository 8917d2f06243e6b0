"""The wheel: its files, and its commands in an environment of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from uv import find_uv_bin

from swe_retry.record.versions import HARNESS_VERSION
from tests.support import TOP, read_json, run_script, write_files
from tests.support.ownworld import FILES, ISSUE, RIGHT, make_repository, run_git
from tests.support.provider import Provider

pytestmark = pytest.mark.system
ID = "demo__textkit-1"
COMMANDS = {
    "retry-harness": "swe_retry.cli.harness:main",
    "retry-report": "swe_retry.cli.report:main",
}
OTHERS = ("llm", "runs", "agent")
"""Packages of the index with the names of rooms."""
PLUGIN = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "calm-agent"
version = "1"

[project.entry-points."swe_retry_harness.agents"]
calm = "calm_agent:Calm"

[tool.hatch.build.targets.wheel]
only-include = ["calm_agent.py"]
""",
    "calm_agent.py": """\
from swe_retry import AgentResult, Task


class Calm:
    def work(self, task: Task) -> AgentResult:
        module = task.root / "textkit/slug.py"
        module.write_text(module.read_text() + "CALM = True\\n")
        return AgentResult()
""",
}
"""A package of others with an agent."""


def run(
    *argv: object,
    cwd: Path,
    **env: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command that finds nothing of the checkout."""
    inherited = dict(os.environ)
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        inherited.pop(name, None)
    return subprocess.run(
        list(map(str, argv)),
        cwd=cwd,
        env={**inherited, **env},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def uv(*argv: object, cwd: Path, **env: str) -> None:
    done = run(find_uv_bin(), *argv, cwd=cwd, **env)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    lock = TOP / "requirements-build.lock"
    packages = ("--require-hashes", "--target", folder / "x", "--requirement", lock)
    probe = run(find_uv_bin(), "pip", "install", *packages, cwd=folder)
    if probe.returncode:
        pytest.skip(f"no package index: {probe.stderr.strip().splitlines()[-1]}")
    locked = ("--require-hashes", "--build-constraints", lock)
    uv("build", "--wheel", *locked, "--out-dir", folder / "dist", TOP, cwd=folder)
    (made,) = (folder / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of the environment that ``uv tool install .`` makes."""
    home = tmp_path_factory.mktemp("installed")
    folders = {"UV_TOOL_DIR": str(home / "tools"), "UV_TOOL_BIN_DIR": str(home / "bin")}
    options = ("--python", sys.executable, "--constraints", TOP / "requirements.lock")
    uv("tool", "install", "--quiet", *options, TOP, cwd=home, **folders)
    assert {path.name for path in (home / "bin").iterdir()} == set(COMMANDS)
    return home / "tools/swe-retry-harness/bin"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Another folder, whose packages have the names of rooms."""
    for name in ("core", "runs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')\n")
    return tmp_path


def test_the_wheel_has_every_file_of_the_rooms_and_nothing_else(wheel: Path) -> None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    folders = ("swe_retry", "agent")
    listed = subprocess.check_output([*command, *folders], cwd=TOP, text=True)
    files = set()
    for name in filter(None, listed.split("\0")):
        if (TOP / name).is_file():
            files.add(f"swe_retry/{name.removeprefix('swe_retry/')}")
    names = ZipFile(wheel).namelist()
    assert {name for name in names if ".dist-info/" not in name} == files
    assert "swe_retry/py.typed" in files
    assert wheel.name.startswith(f"swe_retry_harness-{HARNESS_VERSION}-")


def test_the_wheel_has_one_package_and_two_commands(wheel: Path) -> None:
    info = f"swe_retry_harness-{HARNESS_VERSION}.dist-info"
    with ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        entries = ConfigParser()
        entries.read_string(archive.read(f"{info}/entry_points.txt").decode())
    assert tops == {"swe_retry", info}
    assert entries.sections() == ["console_scripts"]
    assert dict(entries["console_scripts"]) == COMMANDS


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_source_distribution_builds_the_same_wheel(
    wheel: Path, tmp_path: Path
) -> None:
    uv("build", "--quiet", "--sdist", "--out-dir", tmp_path, TOP, cwd=tmp_path)
    (source,) = tmp_path.glob("*.tar.gz")
    uv("build", "--quiet", "--wheel", "--out-dir", tmp_path, source, cwd=tmp_path)
    (built,) = tmp_path.glob("*.whl")
    assert built.name == wheel.name
    assert contents(built) == contents(wheel)


def files_of(names: tuple[str, ...], python: Path) -> dict[str, str]:
    """Return the hashes of all files that distributions installed."""
    code = (
        "import hashlib, sys\n"
        "from importlib.metadata import files\n"
        "for name in sys.argv[1:]:\n"
        "    for path in files(name):\n"
        "        if path.suffix != '.pyc' and path.locate().is_file():\n"
        "            content = path.locate().read_bytes()\n"
        "            print(hashlib.sha256(content).hexdigest(), path)\n"
    )
    done = run(python, "-c", code, *names, cwd=python.parent)
    assert done.returncode == 0, done.stderr
    hashes = {}
    for line in done.stdout.splitlines():
        digest, path = line.split(" ", 1)
        hashes[path] = digest
    return hashes


def test_packages_with_the_names_of_rooms_stay_as_they_are(
    wheel: Path, commands: Path, there: Path
) -> None:
    """Whichever is installed last: each keeps its files, and all are imported."""
    python = commands / "python"
    ours = files_of(("swe-retry-harness",), python)
    install = ("pip", "install", "--quiet", "--python", python)
    uv(*install, *OTHERS, cwd=there)
    before = files_of(OTHERS, python)
    assert files_of(("swe-retry-harness",), python) == ours
    uv(*install, "--no-deps", "--reinstall", wheel, cwd=there)
    assert files_of(OTHERS, python) == before
    assert {"llm/__init__.py", "runs/__init__.py", "agent.py"} <= before.keys()
    names = ("swe_retry.api", "swe_retry.runner", "swe_retry.agent", "swe_retry.llm")
    code = f"import {', '.join((*OTHERS, *names))}; print(llm.__file__)"
    done = run(python, "-I", "-c", code, cwd=there)
    assert done.stdout.strip().endswith("site-packages/llm/__init__.py"), done.stderr


def test_an_agent_of_another_package_is_found_by_its_entry_point(
    commands: Path, there: Path
) -> None:
    project = write_files(there / "plugin", PLUGIN)
    python = commands / "python"
    uv("pip", "install", "--quiet", "--python", python, project, cwd=there)
    options = f"--dataset demo --instances {ID} --models gpt-4o --tries 1 --agent calm"
    cache = f"--environment none --run calm --set folders.cache={there}/cache"
    harness = commands / "retry-harness"
    argv = f"{options} {cache}".split()
    done = run(harness, *argv, cwd=there, OPENAI_API_KEY="sk-none")
    assert done.returncode == 0, done.stdout + done.stderr
    prediction = read_json(there / f"predictions/calm/{ID}.json")
    assert "+CALM = True" in prediction["model_patch"]
    code = "from swe_retry import load_run; print(load_run('calm').calls)"
    assert run(python, "-c", code, cwd=there).stdout == "()\n"


def test_the_commands_work_in_another_folder(commands: Path, there: Path) -> None:
    (replies,) = commands.parent.glob(
        "lib/python*/site-packages/swe_retry/demo/replies"
    )
    harness = commands / "retry-harness"
    demo = f"--dataset demo --models scripted-a,scripted-b --replay {replies}"
    away = f"--environment none --run away --set folders.cache={there}/cache"
    done = run(harness, *f"{demo} {away}".split(), cwd=there)
    assert done.returncode == 0, done.stderr
    assert read_json(there / f"predictions/away/{ID}.json")["status"] == "plausible"
    assert run(harness, "--continue", "away", cwd=there).returncode == 0
    arguments = ["predictions/away", "--evaluator", "none"]
    report = run(commands / "retry-report", *arguments, cwd=there)
    assert "generated          6" in report.stdout, report.stderr
    assert (there / "predictions/away/report/report.html").exists()
    names = {path.name for path in there.iterdir()}
    assert names == {"cache", "core", "logs", "predictions", "runs"}
    assert not (replies.parents[2] / "predictions").exists()


@pytest.mark.long
def test_the_demo_runs_in_another_folder(commands: Path, tmp_path: Path) -> None:
    python = commands / "python"
    cache = str(tmp_path / "cache")
    done = run(python, "-m", "swe_retry.demo", cwd=tmp_path, XDG_CACHE_HOME=cache)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "$ retry-harness --dataset demo" in done.stdout
    assert "83.3 % of the selected" in done.stdout
    assert read_json(tmp_path / f"predictions/demo/verdicts/{ID}.json")["resolved"]


def test_the_commands_are_called_by_their_names(commands: Path, there: Path) -> None:
    for name in ("retry-harness", "retry-report"):
        help_text = run(commands / name, "--help", cwd=there).stdout
        assert help_text.startswith(f"Usage: {name} [OPTIONS]")
        assert "--install-completion" in help_text
    assert "-completion" not in run_script("--help", cwd=there).stdout


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("retry-harness --budget-usd-per", ["--budget-usd-per-instance"]),
        ("retry-harness --set calls.per", ["calls.per_minute"]),
        ("retry-harness --continue nosuch --dry", ["--dry-run"]),
        ("retry-harness --environment lo", ["local"]),
        ("retry-report predictions/away --set evaluation.p", ["evaluation.python"]),
    ],
)
def test_the_shell_completes_options(
    commands: Path,
    there: Path,
    line: str,
    completed: list[str],
) -> None:
    name = line.split()[0]
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    env = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
        variable: "complete_bash",
    }
    done = run(commands / name, cwd=there, **env)
    assert (done.stdout.split(), done.stderr) == (completed, "")


def test_a_missing_package_asks_for_no_make(commands: Path, there: Path) -> None:
    start = "from swe_retry.cli.harness import main; sys.exit(main())"
    code = f"import sys; sys.modules['typer'] = None; {start}"
    done = run(commands / "python", "-I", "-c", code, cwd=there)
    assert done.returncode == 2
    message = (
        "error: the package typer is missing or of another version; "
        "install swe-retry-harness again\n"
    )
    assert done.stderr == message


PYTHON = {"pyproject.toml": '[project]\nname = "calc"\nversion = "1"\n'}
SETUPS = {
    "plain folder": {},
    "uv": {**PYTHON, "uv.lock": "version = 1\n"},
    "Poetry": {"pyproject.toml": '[tool.poetry]\nname = "calc"\nversion = "1"\n'},
    "PDM": {**PYTHON, "pdm.lock": ""},
    "hatch": {**PYTHON, "hatch.toml": "[envs.default]\n"},
    "setuptools": {"setup.py": "from setuptools import setup\n\nsetup()\n"},
    "tox": {"tox.ini": "[testenv]\ndeps = pytest\ncommands = pytest\n"},
    "npm": {"package.json": '{"name": "calc", "scripts": {"test": "node t.js"}}\n'},
    "go": {"go.mod": "module calc\n\ngo 1.21\n"},
    "cargo": {"Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\n'},
}
"""Build files of projects, which lie beside those of ``FILES``."""
PLACES = ("root", "ignored", "subfolder", "linked", "worktree", "submodule", "above")
"""Where the command is started."""


def place(root: Path, kind: str) -> Path:
    """Return the folder to work in, of the repository at ``root``."""
    elsewhere = root.parent / f"{root.name} of {kind}"
    if kind == "ignored":
        (root / ".gitignore").write_text("/predictions\n*.log\n")
        run_git(root, "add", "--all")
        run_git(root, "commit", "--quiet", "-m", "Ignore")
    if kind == "subfolder":
        return root / "lib"
    if kind == "linked":
        elsewhere.symlink_to(root)
        return elsewhere
    if kind == "worktree":
        run_git(root, "worktree", "add", "--quiet", str(elsewhere), "-b", "other")
        return elsewhere
    if kind in ("submodule", "above"):
        make_repository(elsewhere, {"README": "above\n"})
        run_git(elsewhere, "submodule", "add", "--quiet", str(root), "calc")
        run_git(elsewhere, "commit", "--quiet", "-m", "Add")
        return elsewhere / "calc" if kind == "submodule" else elsewhere
    return root


# Each place once in CI, the other set-ups in `make test-long`.
ROWS: list[Any] = [*zip(SETUPS, PLACES, strict=False)]
for setup in list(SETUPS)[len(PLACES) :]:
    ROWS.append(pytest.param(setup, "root", marks=pytest.mark.long))


@pytest.mark.parametrize(("setup", "kind"), ROWS)
def test_the_command_works_twice_in_a_repository(
    setup: str,
    kind: str,
    commands: Path,
    tmp_path: Path,
) -> None:
    root = make_repository(tmp_path / "söme pröject", {**FILES, **SETUPS[setup]})
    cwd = place(root, kind)
    repo = "calc" if kind == "above" else "."
    cache = f"folders.cache={tmp_path}/cache"
    options = ["--environment", "none", "--set", "tests.required=false", "--set", cache]
    with Provider() as provider:
        provider.will_answer(*RIGHT)
        options += ["--models", "gpt-4o@diff", "--api-base", provider.url]
        argv = [commands / "retry-harness", "--repo", repo, "--issue", ISSUE, *options]
        for name in ("first", "second"):
            done = run(*argv, "--run", name, cwd=cwd, OPENAI_API_KEY="sk-none")
            assert done.returncode == 0, done.stdout + done.stderr
            assert (cwd / f"predictions/{name}/candidate.patch").read_text()
            assert run_git(cwd, "status", "--porcelain") == ""
            assert run_git(root, "status", "--porcelain") == ""
    report = run(commands / "retry-report", "second", cwd=cwd)
    assert "candidate.patch" in report.stdout, report.stderr
    assert run_git(cwd, "status", "--porcelain") == ""
