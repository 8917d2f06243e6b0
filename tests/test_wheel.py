"""The wheel: its files, and its commands in an environment of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from uv import find_uv_bin

from swe_retry.runs.storage.versions import HARNESS_VERSION
from tests.support import TOP, read_json, run_script
from tests.support.ownworld import FILES, ISSUE, RIGHT, make_repository, run_git
from tests.support.provider import Provider

pytestmark = pytest.mark.system
ID = "demo__textkit-1"


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


def uv(*argv: object, cwd: Path) -> None:
    done = run(find_uv_bin(), *argv, cwd=cwd)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    lock = TOP / "requirements-build.lock"
    options = ("--require-hashes", "--target", folder / "x", "--requirement", lock)
    probe = run(find_uv_bin(), "pip", "install", *options, cwd=folder)
    if probe.returncode:
        pytest.skip(f"no package index: {probe.stderr.strip().splitlines()[-1]}")
    options = ("--require-hashes", "--build-constraints", lock)
    uv("build", "--wheel", *options, "--out-dir", folder / "dist", TOP, cwd=folder)
    (made,) = (folder / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that has the wheel and what it depends on."""
    home = tmp_path_factory.mktemp("installed")
    uv("venv", "--quiet", "--python", sys.executable, "environment", cwd=home)
    python = home / "environment/bin/python"
    options = ("--python", python, "--constraints", TOP / "requirements.lock")
    uv("pip", "install", *options, wheel, cwd=home)
    return python.parent


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
    assert wheel.name.startswith(f"swe_retry_harness-{HARNESS_VERSION}-")


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
    start = "from swe_retry.harness import main; sys.exit(main())"
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


@pytest.mark.parametrize(
    ("setup", "kind"), list(zip(SETUPS, (*PLACES, *PLACES), strict=False))
)
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
