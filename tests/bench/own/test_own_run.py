"""``harness.py --repo … --issue …`` on real repositories, with recorded replies."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from git import Repo

from bench.cli.own import OwnRun
from bench.own.issues import Issue
from bench.own.repository import OwnRepository, open_repository
from bench.own.settings import ProjectSettings
from environments.base import EnvironmentKind
from tests.support import wait_until
from tests.support.environments import IMAGE
from tests.support.ownworld import (
    FILES,
    LOOK,
    RIGHT,
    SOURCE,
    WRONG,
    World,
    edit,
    make_repository,
    run_git,
    state,
)
from tests.support.provider import Answer, Provider

PYTEST = ("--environment", "local", "--setup-cmd", "true", "--test-cmd", "pytest")
UNTESTED = ("--environment", "none")
FIXED = SOURCE.replace("a - b", "a + b")


def test_tests_decide_between_the_models_and_the_tree_stays(
    world: World, tmp_path: Path
) -> None:
    """Failures from before never count."""
    broken = "def test_broken():\n    assert False\n"
    calc = make_repository(tmp_path / "calc", {**FILES, "tests/test_other.py": broken})
    world.record("local/calc", WRONG, RIGHT)
    before = state(calc)
    done = world.start(
        calc, *PYTEST, "--set", "project.patch=" + str(world.folder / "fix.diff")
    )
    assert done.returncode == 0, done.stdout
    assert "`python -m pytest`: 2 pass, 1 fail" in done.stdout
    assert "Tests after: all tests: 2 pass, 1 fail" in done.stdout
    assert "tests/test_other.py::test_broken" in done.stdout
    assert [one["test_outcome"] for one in world.prediction["all_results"]] == [
        False,
        True,
    ]
    assert state(calc) == before
    run_git(calc, "apply", str(world.folder / "fix.diff"))
    assert (calc / "lib/calc.py").read_text() == FIXED
    summary = (world.run / "summary.md").read_text()
    assert (
        "# add subtracts" in summary
        and "**Plausible**: " in summary
        and "+    return a + b" in (summary)
    )
    assert "`tests/test_other.py::test_broken`" in summary


def test_no_plausible_candidate_is_exit_code_1_and_not_applied(
    world: World, calc: Path
) -> None:
    world.record("local/calc", WRONG)
    before = state(calc)
    alone = (*PYTEST, "--models", "a", "--apply")
    done = world.start(calc, *alone)
    assert (done.returncode, state(calc)) == (1, before)
    assert "not applied, because it is not plausible" in done.stdout
    assert "a * b" in (world.run / "candidate.patch").read_text()
    # The same command again has the same result without another attempt.
    again = world.start(calc, *alone, "--set", "project.least_bad=true")
    assert again.returncode == 1 and "1 done before" in again.stdout
    assert "return a * b" in (calc / "lib/calc.py").read_text().split("mul")[0]


def test_the_whole_suite_has_the_last_word(world: World, tmp_path: Path) -> None:
    """No related test sees the first candidate's fault, because only another part shows it."""
    far = "import pathlib\n\n\ndef test_style():\n    assert '*' not in _body()\n\n\n"
    far += "def _body():\n    return pathlib.Path('lib/calc.py').read_text().split('def mul')[0]\n"
    near = "def test_mul():\n    from calc import mul\n\n    assert mul(2, 3) == 6\n"
    files = {**FILES, "tests/test_calc.py": near, "tests/test_zzz.py": far}
    calc = make_repository(tmp_path / "calc", files)
    world.record("local/calc", WRONG, RIGHT)
    done = world.start(calc, *PYTEST, "--set", "choice.stop=all")
    assert done.returncode == 0, done.stdout
    assert world.prediction["attempt"] == 2
    first, second = world.prediction["all_results"]
    assert (first["status"], first["test_outcome"]) == ("tests_failed", False)
    assert "all tests: 1 pass, 1 fail" in first["test_note"]
    assert (second["status"], second["test_outcome"]) == ("plausible", True)
    assert "all tests: 2 pass" in second["test_note"]
    stopped = world.start(calc, *PYTEST, "--run", "stopped")
    assert stopped.returncode == 1, "the related tests had ended the attempts"


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "suites"),
    [(["--set", "tests.full_suite=false"], 0), (["--set", "tests.which=all"], 1)],
)
def test_when_all_tests_run(
    world: World,
    calc: Path,
    options: list[str],
    suites: int,
) -> None:
    world.record("local/calc", RIGHT)
    done = world.start(calc, *PYTEST, *options)
    assert done.returncode == 0, done.stdout
    assert ("running all tests" in done.stdout) is bool(suites)
    assert ("all tests" in world.prediction["test_note"]) is bool(suites)


def test_without_tests_a_candidate_is_untested(world: World, tmp_path: Path) -> None:
    bare = make_repository(tmp_path / "calc", {"lib/calc.py": SOURCE})
    world.record("local/calc", RIGHT)
    done = world.start(bare, "--environment", "local")
    assert done.returncode == 0, done.stdout
    assert (
        "untested" in done.stdout
        and "**Plausible, untested**: " in (world.run / "summary.md").read_text()
    )
    required = world.start(
        bare, "--environment", "local", "--set", "tests.required=true", "--run", "other"
    )
    assert required.returncode == 3 and "no model was called" in required.stdout
    assert not (world.folder / "predictions/other").exists()


def test_tests_whose_output_nobody_knows_decide_by_their_exit_code(
    world: World, tmp_path: Path
) -> None:
    script = "#!/bin/sh\nPYTHONPATH=lib python3 -c 'from calc import add; assert add(2, 0) == 2'\n"
    calc = make_repository(
        tmp_path / "calc", {"lib/calc.py": SOURCE, "check.sh": script}
    )
    world.record("local/calc", WRONG, RIGHT)
    done = world.start(calc, "--environment", "local", "--test-cmd", "sh check.sh")
    assert done.returncode == 0, done.stdout
    assert [one["test_outcome"] for one in world.prediction["all_results"]] == [
        False,
        True,
    ]


@pytest.mark.long
@pytest.mark.parametrize("command", ["pytest && true", 'sh -c "pytest -q"'])
def test_a_shell_line_decides_by_its_exit_code(
    world: World, calc: Path, command: str
) -> None:
    world.record("local/calc", WRONG, RIGHT)
    given = (
        "--environment",
        "local",
        "--setup-cmd",
        "pip install pytest",
        "--test-cmd",
        command,
    )
    done = world.start(calc, *given)
    assert done.returncode == 0, done.stdout
    assert [one["test_outcome"] for one in world.prediction["all_results"]] == [
        False,
        True,
    ]


def test_all_tests_do_not_excuse_a_related_one(world: World, tmp_path: Path) -> None:
    """In a run of all tests, another test hides what the related one shows alone."""
    hides = "import os\n\n\ndef test_a():\n    os.environ['HIDDEN'] = '1'\n"
    zero = "import os\n\nfrom calc import add\n\n\ndef test_zero():\n"
    zero += "    assert 'HIDDEN' in os.environ or add(2, 0) == 2\n"
    tests = {"tests/test_aaa.py": hides, "tests/test_calc.py": zero}
    calc = make_repository(
        tmp_path / "calc",
        {**FILES, **tests},
    )
    world.record("local/calc", WRONG)
    done = world.start(calc, *PYTEST, "--models", "a", "--branch", "bad")
    assert done.returncode == 1, done.stdout
    assert world.prediction["all_results"][0]["test_outcome"] is False
    assert "bad" not in run_git(calc, "branch")


def test_a_lint_command_counts_what_it_newly_says(world: World, tmp_path: Path) -> None:
    lint = "import pathlib, sys\n"
    lint += "lines = pathlib.Path('lib/calc.py').read_text().split('\\n')\n"
    lint += "bad = [n for n, line in enumerate(lines, 1) if '* ' in line]\n"
    lint += "for n in bad:\n    print(f'lib/calc.py:{n}:1: X1 a star')\nsys.exit(bool(bad))\n"
    calc = make_repository(tmp_path / "calc", {**FILES, "lint.py": lint})
    world.record("local/calc", [LOOK, edit("    return b * a\n"), "No."], RIGHT)
    done = world.start(calc, *PYTEST, "--set", "project.lint=python3 lint.py")
    assert done.returncode == 0, done.stdout
    assert [one["lint_outcome"] for one in world.prediction["all_results"]] == [
        False,
        True,
    ]
    assert "lib/calc.py:2:1: X1 a star" in "".join(
        p.read_text() for p in world.run.glob("*-*.md")
    )


def test_a_branch_has_one_commit_of_the_user(world: World, calc: Path) -> None:
    run_git(calc, "remote", "add", "origin", "https://example.org/me/calc.git")
    world.record("me/calc", RIGHT)
    tree = (calc / "lib/calc.py").read_text()
    done = world.start(calc, *UNTESTED, "--branch", "fix/add")
    assert done.returncode == 0, done.stdout
    assert run_git(calc, "log", "--format=%an|%s|%P", "-1", "fix/add") == (
        f"U Ser|add subtracts|{run_git(calc, 'rev-parse', 'main')}"
    )
    body = run_git(calc, "log", "--format=%b", "-1", "fix/add")
    assert (
        f"Retry-Harness-Run: {world.run.name}" in body
        and "Retry-Harness-Cost: $0.00" in body
    )
    assert run_git(calc, "show", "fix/add:lib/calc.py") == FIXED.rstrip("\n")
    assert (calc / "lib/calc.py").read_text() == tree and not run_git(
        calc, "status", "--porcelain"
    )
    assert (
        "push origin fix/add" in done.stdout
        and "gh pr create --repo me/calc" in done.stdout
    )
    again = world.start(calc, *UNTESTED, "--branch", "fix/add")
    assert again.returncode == 2 and "there is fix/add; choose another" in again.stdout


def test_apply_never_overwrites(world: World, calc: Path) -> None:
    """The user goes on working while the models do."""
    world.record("local/calc", RIGHT)
    assert world.start(calc, *UNTESTED, "--apply").returncode == 0
    assert (calc / "lib/calc.py").read_text() == FIXED
    run_git(calc, "checkout", "--quiet", "lib/calc.py")
    run_git(calc, "branch", "old")
    changed = SOURCE.replace("a - b", "a - b  # mine")
    (calc / "lib/calc.py").write_text(changed)
    run_git(calc, "commit", "--quiet", "--all", "-m", "Mine")
    done = world.start(calc, *UNTESTED, "--apply", "--set", "project.base=old")
    assert done.returncode == 2 and "is not as the patch needs it" in done.stdout, (
        done.stdout
    )
    assert (calc / "lib/calc.py").read_text() == changed


def test_uncommitted_changes_are_refused_or_part_of_the_base(
    world: World, calc: Path
) -> None:
    (calc / "lib/calc.py").write_text("VERSION = 2\n\n\n" + SOURCE)
    (calc / "new.py").write_text("NEW = 1\n")
    world.record("local/calc", RIGHT)
    refused = world.start(calc, *UNTESTED)
    assert refused.returncode == 2 and "lib/calc.py, new.py" in refused.stdout
    before = state(calc)
    done = world.start(calc, *UNTESTED, "--set", "project.include_changes=true")
    assert (done.returncode, state(calc)) == (0, before), done.stdout
    patch = (world.run / "candidate.patch").read_text()
    assert " VERSION = 2" not in patch.split("@@")[0] and "+    return a + b" in patch
    assert "new.py" not in patch
    # The same changes are the same base, so the run continues.
    again = world.start(
        calc, *UNTESTED, "--set", "project.include_changes=true", "--apply"
    )
    assert "1 done before" in again.stdout
    assert (calc / "lib/calc.py").read_text() == "VERSION = 2\n\n\n" + FIXED


@pytest.mark.parametrize(
    "kind", ["worktree", "shallow", "bare", "spaces", "subfolder", "address"]
)
def test_kinds_of_repositories(world: World, calc: Path, kind: str) -> None:
    place = calc
    name = "local/calc"
    more = ("--branch", "fix")
    if kind == "worktree":
        place = world.folder / "beside"
        run_git(calc, "worktree", "add", "--quiet", "-b", "other", str(place))
    elif kind == "shallow":
        run_git(calc, "commit", "--quiet", "--allow-empty", "-m", "Second")
        place = world.folder / "shallow"
        run_git(
            world.folder, "clone", "--quiet", "--depth", "1", calc.as_uri(), "shallow"
        )
        name = f"{calc.parent.name}/calc"
    elif kind == "bare":
        place = world.folder / "bare.git"
        run_git(world.folder, "clone", "--quiet", "--bare", str(calc), "bare.git")
        name = "local/bare"
    elif kind == "spaces":
        place = world.folder / "a b" / "ca lc"
        name = "local/ca-lc"
        shutil.copytree(calc, place)
    elif kind == "subfolder":
        place = calc / "tests"
    else:
        name = f"{calc.parent.name}/calc"
    world.record(name, RIGHT)
    given = place
    if kind == "address":
        given = calc.as_uri()
    tested = kind == "worktree"
    done = world.start(given, *(PYTEST if tested else UNTESTED), *more)
    assert done.returncode == 0, done.stdout
    assert world.prediction["test_outcome"] is (True if tested else None)
    root = (
        place
        if kind != "address"
        else next((world.cache / "own").glob(f"*/{name.replace('/', '__')}.git"))
    )
    assert run_git(root, "show", "fix:lib/calc.py") == FIXED.rstrip("\n")
    assert kind in ("bare", "address") or not run_git(root, "status", "--porcelain")


def test_submodules_stay_and_are_there_for_tests(
    world: World, calc: Path, tmp_path: Path
) -> None:
    other = make_repository(tmp_path / "other", {"lib.py": "VALUE = 1\n"})
    run_git(calc, "submodule", "--quiet", "add", str(other), "vendor")
    test = "def test_vendor():\n    from vendor.lib import VALUE\n\n    assert VALUE == 1\n"
    (calc / "tests/test_vendor.py").write_text(test)
    run_git(calc, "add", "--all")
    run_git(calc, "commit", "--quiet", "-m", "Add vendor")
    world.record("local/calc", RIGHT)
    before = state(calc)
    done = world.start(calc, *PYTEST)
    assert (done.returncode, state(calc)) == (0, before), done.stdout
    assert world.prediction["test_outcome"] is True
    assert "Tests after: all tests: 3 pass, 0 fail" in done.stdout
    assert "vendor" not in (world.run / "candidate.patch").read_text()


@pytest.mark.docker
def test_containers_of_an_image(world: World, calc: Path) -> None:
    """The image with the installation stays for the next start."""
    world.record("local/calc", WRONG, RIGHT)
    set_up = ("--set", f"project.image={IMAGE}", "--setup-cmd", "echo 1 > installed")
    tests = ("--test-cmd", "test -e installed && python3 -m pytest -p no:cacheprovider")
    done = world.start(calc, *set_up, *tests)
    assert done.returncode == 0, done.stdout
    assert (
        f"environment  docker {IMAGE}" in done.stdout
        and "1 pass, 0 fail" in done.stdout
    )
    assert [one["test_outcome"] for one in world.prediction["all_results"]] == [
        False,
        True,
    ]


def test_edits_of_tests_are_left_out_and_named(world: World, calc: Path) -> None:
    cheat = edit("    pass\n", "tests/test_calc.py", "    assert add(2, 0) == 2\n")
    world.record("local/calc", [LOOK, RIGHT[1], cheat])
    done = world.start(calc, *UNTESTED)
    assert "Left out, as edits of tests: `tests/test_calc.py`" in done.stdout
    assert "test_calc" not in (world.run / "candidate.patch").read_text()


def test_commands_are_read_from_a_file(world: World, calc: Path) -> None:
    world.record("local/calc", RIGHT)
    (calc / ".retry-harness.toml").write_text('test-cmd = "pytest"\n')
    done = world.start(calc, "--dry-run", "--environment", "local")
    assert "tests        pytest  (.retry-harness.toml)" in done.stdout, done.stdout


def live(provider: Provider) -> tuple[str, ...]:
    models = ("--models", "gpt-4o@diff", "--set", "calls.retries=0")
    return (*UNTESTED, "--api-base", provider.url, *models)


def test_a_budget_that_allows_no_call_is_exit_code_1(
    world: World,
    calc: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    provider.will_answer(*RIGHT)
    done = world.start(calc, *live(provider), "--budget-usd", "0.01", "--branch", "fix")
    assert done.returncode == 1 and not provider.requests, done.stdout
    assert "--budget-usd" in done.stdout and "**No candidate**" in done.stdout
    assert "**No candidate**" in (world.run / "summary.md").read_text()
    more = world.start(calc, *live(provider), "--budget-usd", "5", "--branch", "fix")
    assert more.returncode == 0, more.stdout
    assert run_git(calc, "show", "fix:lib/calc.py") == FIXED.rstrip("\n")


def test_the_same_command_continues_after_ctrl_c(
    world: World,
    calc: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    provider.will_answer(RIGHT[0], Answer(RIGHT[1], hang=2))
    before = state(calc)
    process = world.begin(calc, *live(provider))
    wait_until(lambda: len(provider.requests) >= 2)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert (process.returncode, state(calc)) == (130, before), said
    asked = len(provider.requests)
    provider.answers.clear()
    provider.will_answer(RIGHT[1])
    done = world.start(calc, *live(provider))
    assert done.returncode == 0, done.stdout
    assert len(provider.requests) <= asked + 1  # what was paid for is not asked again
    assert "+    return a + b" in (world.run / "candidate.patch").read_text()


def test_the_page_and_a_replay_are_as_of_any_run(world: World, calc: Path) -> None:
    world.record("local/calc", RIGHT)
    assert world.start(calc, *UNTESTED).returncode == 0
    report = world.preloaded.run(str(world.run), script="report.py", cwd=world.folder)
    assert report.returncode == 0, report.stdout
    (page,) = (world.run / "report/instances").glob("*.html")
    assert (
        "add subtracts" in page.read_text()
        and (world.run / "report/report.html").exists()
    )
    given = ("--continue", str(world.run), "--set", f"folders.cache={world.cache}")
    again = world.preloaded.run(*given, cwd=world.folder)
    assert again.returncode == 0 and "1 done before" in again.stdout, again.stdout


def test_a_password_of_an_address_is_in_no_file(world: World, calc: Path) -> None:
    """The server is not there; the login must not be shown either way."""
    secret = "s3cr3t-of-the-user"
    given = f"http://bob:{secret}@127.0.0.1:9/me/calc"
    done = world.start(given, *UNTESTED)
    assert done.returncode == 1 and secret not in done.stdout, done.stdout
    repo = OwnRepository(Repo(calc), "me/calc", "", "", calc, given)
    run = OwnRun(
        ProjectSettings(repo=given, issue="x y"),
        EnvironmentKind.NONE,
        repo,
        Issue(text="x", title="x"),
        *[None] * 4,
    )
    assert secret not in str(run.recorded_settings())


def test_what_is_staged_and_ignored_is_part_of_the_base(
    world: World, calc: Path
) -> None:
    (calc / ".gitignore").write_text("*.cfg\n")
    (calc / "x.cfg").write_text("1\n")
    run_git(calc, "add", "--force", ".gitignore", "x.cfg")
    run_git(calc, "config", "core.splitIndex", "true")
    world.record("local/calc", RIGHT)
    before = state(calc)
    assert (
        world.start(calc, *UNTESTED, "--set", "project.include_changes=true").returncode
        == 0
    )
    assert state(calc) == before
    found = open_repository(str(calc), "", world.cache, include_changes=True)
    assert {".gitignore", "x.cfg"} <= {*found.files}
