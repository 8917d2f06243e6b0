"""``harness.py --repo … --issue …`` on real repositories, with recorded replies."""

from __future__ import annotations

import shlex
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from git import Repo

from swe_retry.attempts.own_settings import ProjectSettings
from swe_retry.environments.base import EnvironmentKind
from swe_retry.own.issues import Issue
from swe_retry.own.opening import open_repository
from swe_retry.own.repository import OwnRepository
from swe_retry.own.run import OwnRun
from tests.support import read_json, wait_until, write_files
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

LOCAL = "--environment local"
PYTEST = f"{LOCAL} --setup-cmd true --test-cmd pytest"
UNTESTED = "--environment none --set tests.required=false"
FIXED = SOURCE.replace("a - b", "a + b")
NAME = "local/calc"


def start(world: World, repo: Path | str, options: str, code: int = 0) -> str:
    """Run the command, which must end with ``code``, and return its output."""
    done = world.start(repo, *shlex.split(options))
    assert done.returncode == code, done.stdout
    return done.stdout


def outcomes(world: World, kind: str = "test_outcome") -> list[bool | None]:
    attempts = world.prediction["all_results"]
    return [attempt[kind] for attempt in attempts]


def patch_of(world: World) -> str:
    return (world.run / "candidate.patch").read_text()


def summary_of(world: World) -> str:
    return (world.run / "summary.md").read_text()


def module_of(repository: Path) -> str:
    return (repository / "lib/calc.py").read_text()


def assert_fixed(repository: Path, branch: str = "fix") -> None:
    module = run_git(repository, "show", f"{branch}:lib/calc.py")
    assert module == FIXED.rstrip("\n")


def test_tests_decide_between_the_models_and_the_tree_stays(
    world: World, tmp_path: Path
) -> None:
    """Failures from before never count, and those that are gone are named."""
    broken = "from calc import add\n\n\ndef test_broken():\n    assert False\n\n\n"
    broken += "def test_sum():\n    assert add(2, 3) == 5\n"
    files = {**FILES, "tests/test_other.py": broken}
    calc = make_repository(tmp_path / "calc", files)
    world.record(NAME, WRONG, RIGHT)
    before = state(calc)
    patch = world.folder / "fix.diff"
    output = start(world, calc, f"{PYTEST} --set project.patch={patch}")
    assert "`python -m pytest`: 2 pass, 2 fail" in output
    assert "Tests after: all tests: 3 pass, 1 fail" in output
    assert "tests/test_other.py::test_broken" in output
    assert outcomes(world) == [False, True]
    assert state(calc) == before
    run_git(calc, "apply", str(patch))
    assert module_of(calc) == FIXED
    summary = summary_of(world)
    assert "# add subtracts" in summary
    assert "**Plausible**: " in summary
    assert "+    return a + b" in summary
    assert "`tests/test_other.py::test_broken`" in summary
    assert "Newly passing: `tests/test_other.py::test_sum`\n" in summary
    (trajectory,) = (world.run / "trajectories").glob("*.json")
    first, second = read_json(trajectory)["attempts"]
    assert "newly_passing" not in first
    assert second["newly_passing"] == ["tests/test_other.py::test_sum"]


def test_no_plausible_candidate_is_exit_code_1_and_not_applied(
    world: World, calc: Path
) -> None:
    world.record(NAME, WRONG)
    before = state(calc)
    command = f"{PYTEST} --models a --apply"
    output = start(world, calc, command, code=1)
    assert state(calc) == before
    assert "not applied, because it is not plausible" in output
    assert "a * b" in patch_of(world)
    # The same command again has the same result without another attempt.
    output = start(world, calc, f"{command} --set project.least_bad=true", code=1)
    assert "1 done before" in output
    before_mul, _, _ = module_of(calc).partition("mul")
    assert "return a * b" in before_mul


def test_the_whole_suite_has_the_last_word(world: World, tmp_path: Path) -> None:
    """No related test sees the first candidate's fault, because only another part shows it."""
    style_test = (
        "import pathlib\n\n\ndef test_style():\n    assert '*' not in _body()\n\n\n"
        "def _body():\n    (module,) = pathlib.Path('lib').glob('c*.py')\n"
        "    return module.read_text().split('def m')[0]\n"
    )
    mul_test = (
        "def test_mul():\n    from calc import mul\n\n    assert mul(2, 3) == 6\n"
    )
    files = {**FILES, "tests/test_calc.py": mul_test, "tests/test_zzz.py": style_test}
    calc = make_repository(tmp_path / "calc", files)
    world.record(NAME, WRONG, RIGHT)
    start(world, calc, f"{PYTEST} --set choice.stop=all")
    assert world.prediction["attempt"] == 2
    first, second = world.prediction["all_results"]
    assert first["status"] == "tests_failed"
    assert first["test_outcome"] is False
    assert "all tests: 1 pass, 1 fail" in first["test_note"]
    assert second["status"] == "plausible"
    assert second["test_outcome"] is True
    assert "all tests: 2 pass" in second["test_note"]
    # The related tests end the attempts, so the whole suite has no other candidate.
    start(world, calc, f"{PYTEST} --run stopped", code=1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "runs_suite"),
    [("tests.full_suite=false", False), ("tests.which=all", True)],
)
def test_when_all_tests_run(
    world: World, calc: Path, setting: str, runs_suite: bool
) -> None:
    world.record(NAME, RIGHT)
    output = start(world, calc, f"{PYTEST} --set {setting}")
    assert ("running all tests" in output) is runs_suite
    assert ("all tests" in world.prediction["test_note"]) is runs_suite


def test_without_tests_a_candidate_is_untested(world: World, tmp_path: Path) -> None:
    bare = make_repository(tmp_path / "calc", {"lib/calc.py": SOURCE})
    world.record(NAME, RIGHT)
    for option in (LOCAL, "--environment none"):
        output = start(world, bare, f"{option} --run other", code=3)
        assert "no model was called" in output
        assert "tests.required=false" in output
    assert not (world.folder / "predictions/other").exists()
    assert "untested" in start(world, bare, f"{LOCAL} --set tests.required=false")
    assert "**Plausible, untested**: " in summary_of(world)


MISSING = "def test_it(mocker):\n    pass\n\n\ndef test_that(mocker):\n    pass\n"


@pytest.mark.parametrize(
    ("test", "cause"),
    [
        (MISSING, "fixture 'mocker' not found"),
        ("import nothing_here\n", "No module named 'nothing_here'"),
        ("def test_it(:\n", "SyntaxError: invalid syntax"),
    ],
)
def test_a_set_up_after_which_no_test_passes_costs_nothing(
    world: World, tmp_path: Path, test: str, cause: str
) -> None:
    files = {**FILES, "tests/test_calc.py": test}
    calc = make_repository(tmp_path / "calc", files)
    world.record(NAME, RIGHT)
    output = start(world, calc, PYTEST, code=3)
    (reason,) = [line for line in output.splitlines() if "No baseline" in line]
    assert "no test passes at the base commit" in reason
    assert cause in reason
    assert "no model was called" in output
    assert not (world.folder / "predictions").exists()


def test_a_set_up_that_fails_costs_nothing(world: World, calc: Path) -> None:
    world.record(NAME, RIGHT)
    command = f"{LOCAL} --setup-cmd 'echo error: no compiler; false' --test-cmd pytest"
    output = start(world, calc, command, code=3)
    assert "No baseline: cannot set up the tree" in output
    assert "error: no compiler" in output


def test_tests_without_readable_output_decide_by_their_exit_code(
    world: World, tmp_path: Path
) -> None:
    script = "#!/bin/sh\nPYTHONPATH=lib python3 -c 'from calc import add; assert add(2, 0) == 2'\n"
    files: Mapping[str, str] = {
        "lib/calc.py": SOURCE,
        "check.sh": script,
    }
    calc = make_repository(tmp_path / "calc", files)
    world.record(NAME, WRONG, RIGHT)
    start(world, calc, f"{LOCAL} --test-cmd 'sh check.sh'")
    assert outcomes(world) == [False, True]


@pytest.mark.long
@pytest.mark.parametrize("command", ["pytest && true", 'sh -c "pytest -q"'])
def test_a_shell_line_decides_by_its_exit_code(
    world: World, calc: Path, command: str
) -> None:
    world.record(NAME, WRONG, RIGHT)
    setup = "--setup-cmd 'pip install pytest'"
    start(world, calc, f"{LOCAL} {setup} --test-cmd '{command}'")
    assert outcomes(world) == [False, True]


def test_all_tests_do_not_excuse_a_related_one(world: World, tmp_path: Path) -> None:
    """In a run of all tests, another test hides what the related one shows alone."""
    hiding_test = "import os\n\n\ndef test_a():\n    os.environ['HIDDEN'] = '1'\n"
    zero_test = "import os\n\nfrom calc import add\n\n\ndef test_zero():\n"
    zero_test += "    assert 'HIDDEN' in os.environ or add(2, 0) == 2\n"
    files = {**FILES, "tests/test_aaa.py": hiding_test, "tests/test_calc.py": zero_test}
    calc = make_repository(tmp_path / "calc", files)
    world.record(NAME, WRONG)
    start(world, calc, f"{PYTEST} --models a --branch bad", code=1)
    assert outcomes(world) == [False]
    assert "bad" not in run_git(calc, "branch")


def test_a_lint_command_counts_what_it_newly_says(world: World, tmp_path: Path) -> None:
    lint = "import pathlib, sys\n"
    lint += "lines = pathlib.Path('lib/calc.py').read_text().split('\\n')\n"
    lint += "bad = [n for n, line in enumerate(lines, 1) if '* ' in line]\n"
    lint += "for n in bad:\n    print(f'lib/calc.py:{n}:1: X1 a star')\nsys.exit(bool(bad))\n"
    calc = make_repository(tmp_path / "calc", {**FILES, "lint.py": lint})
    starred = [LOOK, edit("    return b * a\n"), "No."]
    world.record(NAME, starred, RIGHT)
    start(world, calc, f"{PYTEST} --set project.lint='python3 lint.py'")
    assert outcomes(world, "lint_outcome") == [False, True]
    (transcript,) = world.run.glob("*-*.md")
    assert "lib/calc.py:2:1: X1 a star" in transcript.read_text()


def test_a_branch_has_one_commit_of_the_user(world: World, calc: Path) -> None:
    run_git(calc, "remote", "add", "origin", "https://example.org/me/calc.git")
    world.record("me/calc", RIGHT)
    command = f"{UNTESTED} --branch fix/add"
    output = start(world, calc, command)
    base = run_git(calc, "rev-parse", "main")
    commit = run_git(calc, "log", "--format=%an|%s|%P", "-1", "fix/add")
    assert commit == f"U Ser|add subtracts|{base}"
    body = run_git(calc, "log", "--format=%b", "-1", "fix/add")
    assert f"Retry-Harness-Run: {world.run.name}" in body
    assert "Retry-Harness-Cost: $0.00" in body
    assert_fixed(calc, "fix/add")
    assert module_of(calc) == SOURCE
    assert not run_git(calc, "status", "--porcelain")
    assert "push origin fix/add" in output
    assert "gh pr create --repo me/calc" in output
    refusal = start(world, calc, command, code=2)
    assert "there is fix/add; choose another" in refusal


def test_apply_never_overwrites(world: World, calc: Path) -> None:
    """The user goes on working while the models do."""
    world.record(NAME, RIGHT)
    run_git(calc, "branch", "old")
    changed = SOURCE.replace("a - b", "a - b  # mine")
    (calc / "lib/calc.py").write_text(changed)
    run_git(calc, "commit", "--quiet", "--all", "-m", "Mine")
    command = f"{UNTESTED} --apply --set project.base=old"
    refusal = start(world, calc, command, code=2)
    assert "is not as the patch needs it" in refusal
    assert module_of(calc) == changed


def test_uncommitted_changes_are_refused_or_part_of_the_base(
    world: World, calc: Path
) -> None:
    """Changed, new, and staged although ignored."""
    changed = {
        "lib/calc.py": f"VERSION = 2\n\n\n{SOURCE}",
        "new.py": "NEW = 1\n",
        ".gitignore": "*.cfg\n",
        "x.cfg": "1\n",
    }
    write_files(calc, changed)
    run_git(calc, "add", "--force", ".gitignore", "x.cfg")
    run_git(calc, "config", "core.splitIndex", "true")
    world.record(NAME, RIGHT)
    refusal = start(world, calc, UNTESTED, code=2)
    assert "(.gitignore, lib/calc.py, x.cfg, new.py)" in refusal
    before = state(calc)
    command = f"{UNTESTED} --set project.include_changes=true"
    start(world, calc, command)
    assert state(calc) == before
    patch = patch_of(world)
    head, _, _ = patch.partition("@@")
    assert " VERSION = 2" not in head
    assert "+    return a + b" in patch
    assert "new.py" not in patch
    base = open_repository(str(calc), "", world.cache, include_changes=True)
    assert {".gitignore", "x.cfg", "new.py"} <= set(base.files)
    # The same changes are the same base, so the run continues.
    assert "1 done before" in start(world, calc, f"{command} --apply")
    assert module_of(calc) == f"VERSION = 2\n\n\n{FIXED}"


def worktree(world: World, calc: Path) -> tuple[Path, str]:
    folder = world.folder / "beside"
    run_git(calc, "worktree", "add", "--quiet", "-b", "other", str(folder))
    return folder, NAME


def shallow(world: World, calc: Path) -> tuple[Path, str]:
    run_git(calc, "commit", "--quiet", "--allow-empty", "-m", "Second")
    options = ("--quiet", "--depth", "1")
    run_git(world.folder, "clone", *options, calc.as_uri(), "shallow")
    return world.folder / "shallow", f"{calc.parent.name}/calc"


def bare(world: World, calc: Path) -> tuple[Path, str]:
    run_git(world.folder, "clone", "--quiet", "--bare", str(calc), "bare.git")
    return world.folder / "bare.git", "local/bare"


def subfolder_behind_spaces(world: World, calc: Path) -> tuple[Path, str]:
    folder = world.folder / "a b" / "ca lc"
    shutil.copytree(calc, folder)
    return folder / "tests", "local/ca-lc"


@pytest.mark.parametrize(
    "make",
    [
        worktree,
        shallow,
        bare,
        subfolder_behind_spaces,
    ],
)
def test_kinds_of_repositories(world: World, calc: Path, make: Any) -> None:
    folder, name = make(world, calc)
    world.record(name, RIGHT)
    options = UNTESTED
    outcome = None
    if make is worktree:
        options = PYTEST
        outcome = True
    start(world, folder, f"{options} --branch fix")
    assert world.prediction["test_outcome"] is outcome
    assert_fixed(folder)
    if make is not bare:
        assert not run_git(folder, "status", "--porcelain")


def test_a_branch_of_an_address_is_in_its_mirror(world: World, calc: Path) -> None:
    name = f"{calc.parent.name}/calc"
    world.record(name, RIGHT)
    start(world, calc.as_uri(), f"{UNTESTED} --branch fix")
    folder = name.replace("/", "__")
    (mirror,) = world.cache.glob(f"own/*/{folder}.git")
    assert_fixed(mirror)


def test_submodules_stay_and_are_there_for_tests(
    world: World, calc: Path, tmp_path: Path
) -> None:
    """The command of the tests is that of the repository's own file."""
    other = make_repository(tmp_path / "other", {"lib.py": "VALUE = 1\n"})
    run_git(calc, "submodule", "--quiet", "add", str(other), "vendor")
    test = "def test_vendor():\n    from vendor.lib import VALUE\n\n    assert VALUE == 1\n"
    (calc / "tests/test_vendor.py").write_text(test)
    (calc / ".retry-harness.toml").write_text('test-cmd = "pytest"\n')
    run_git(calc, "add", "--all")
    run_git(calc, "commit", "--quiet", "-m", "Add vendor")
    world.record(NAME, RIGHT)
    before = state(calc)
    output = start(world, calc, f"{LOCAL} --setup-cmd true")
    assert state(calc) == before
    assert "tests        pytest  (.retry-harness.toml)" in output
    assert world.prediction["test_outcome"] is True
    assert "Tests after: all tests: 3 pass, 0 fail" in output
    assert "vendor" not in patch_of(world)


def test_commands_of_a_cloned_repository_need_a_yes(world: World, calc: Path) -> None:
    saved = 'setup-cmd = "touch installed"\ntest-cmd = "pytest"\nlint-cmd = "true"\n'
    (calc / ".retry-harness.toml").write_text(saved)
    run_git(calc, "add", "--all")
    run_git(calc, "commit", "--quiet", "-m", "Add commands")
    world.record("me/calc", RIGHT)
    run_git(calc, "remote", "add", "origin", "https://example.org/me/calc.git")
    refusal = "its commands are those of a cloned repository; read its commands first"
    for clone in (calc, f"file://{calc}"):
        output = start(world, clone, LOCAL, code=2)
        assert "set-up       touch installed  (.retry-harness.toml)" in output
        assert refusal in output
        assert "setting up" not in output
    assert "touch installed" in start(world, calc, f"{LOCAL} --dry-run")
    trusted = f"{LOCAL} --set project.trust_commands=true"
    assert "2 pass, 0 fail" in start(world, calc, trusted)
    # One's own commands take the place of all that the file names.
    start(world, calc, f"{PYTEST} --set project.lint=true --run own")


@pytest.mark.docker
def test_containers_of_an_image(world: World, calc: Path) -> None:
    """The image with the installation stays for the next start."""
    world.record(NAME, WRONG, RIGHT)
    image = f"--set project.image={IMAGE} --setup-cmd 'echo 1 > installed'"
    tests = "test -e installed && python3 -m pytest -p no:cacheprovider"
    output = start(world, calc, f"{image} --test-cmd '{tests}'")
    assert f"environment  docker {IMAGE}" in output
    assert "1 pass, 0 fail" in output
    assert outcomes(world) == [False, True]


@pytest.fixture
def live(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> str:
    """Options of a run that asks the provider."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model = f"--api-base {provider.url} --models gpt-4o@diff"
    return f"{UNTESTED} {model} --set calls.retries=0"


def test_a_budget_that_allows_no_call_is_exit_code_1(
    world: World, calc: Path, provider: Provider, live: str
) -> None:
    provider.will_answer(*RIGHT)
    command = f"{live} --branch fix --budget-usd"
    output = start(world, calc, f"{command} 0.01", code=1)
    assert not provider.requests
    assert "--budget-usd" in output
    assert "**No candidate**" in output
    assert "**No candidate**" in summary_of(world)
    start(world, calc, f"{command} 5")
    assert_fixed(calc)


def test_the_same_command_continues_after_ctrl_c(
    world: World, calc: Path, provider: Provider, live: str
) -> None:
    slow = Answer(RIGHT[1], hang=2)
    provider.will_answer(RIGHT[0], slow)
    before = state(calc)
    process = world.begin(calc, *shlex.split(live))
    wait_until(lambda: len(provider.requests) >= 2)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert state(calc) == before
    requests = len(provider.requests)
    provider.answers.clear()
    provider.will_answer(RIGHT[1])
    start(world, calc, live)
    # What was paid for is not asked again.
    assert len(provider.requests) <= requests + 1
    assert "+    return a + b" in patch_of(world)


def test_the_page_and_a_replay_are_as_of_any_run(world: World, calc: Path) -> None:
    """Edits of tests are left out and named; outside of the repository git ignores nothing."""
    cheat = edit("    pass\n", "tests/test_calc.py", "    assert add(2, 0) == 2\n")
    replies = [LOOK, RIGHT[1], cheat]
    world.record(NAME, replies)
    output = start(world, calc, UNTESTED)
    assert "Left out, as edits of tests: `tests/test_calc.py`" in output
    assert "test_calc" not in patch_of(world)
    report = world.preloaded.run(
        str(world.run),
        script="report.py",
        cwd=world.folder,
    )
    assert report.returncode == 0, report.stdout
    (page,) = (world.run / "report/instances").glob("*.html")
    assert "add subtracts" in page.read_text()
    assert (world.run / "report/report.html").exists()
    command = f"--continue {world.run} --set folders.cache={world.cache}"
    again = world.preloaded.run(*shlex.split(command), cwd=world.folder)
    assert again.returncode == 0, again.stdout
    assert "1 done before" in again.stdout
    assert not list(world.folder.rglob(".gitignore"))


def test_a_password_of_an_address_is_in_no_file(world: World, calc: Path) -> None:
    """The server is not there; the login must not be shown either way."""
    secret = "s3cr3t-of-the-user"
    address = f"http://bob:{secret}@127.0.0.1:9/me/calc"
    output = start(world, address, UNTESTED, code=2)
    assert secret not in output
    repository = OwnRepository(
        repo=Repo(calc),
        name="me/calc",
        head="",
        commit="",
        mirror=calc,
        url=address,
    )
    settings = ProjectSettings(repo=address, issue="x y")
    issue = Issue(text="x", title="x")
    unused: list[Any] = [None] * 4
    run = OwnRun(settings, EnvironmentKind.NONE, repository, issue, *unused)
    assert secret not in str(run.recorded_settings())
