"""A stranger's repository configures nothing: no key is sent elsewhere, no program is started."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.git import user_environment
from swe_retry.own.opening import open_repository
from swe_retry.own.repository import OwnRepository
from swe_retry.own.result import deliverable_patch
from swe_retry.repositories.checkout import make_checkout
from swe_retry.repositories.mirrors import add_submodules
from swe_retry.repositories.snapshot import get_snapshot
from tests.support import write_files
from tests.support.commands import Preloaded
from tests.support.ownworld import FILES, ISSUE, SOURCE, make_repository, run_git, state
from tests.support.provider import Provider

PATCH = (
    "diff --git a/lib/calc.py b/lib/calc.py\n--- a/lib/calc.py\n+++ b/lib/calc.py\n"
    "@@ -1,3 +1,3 @@\n"
    " def add(a, b):\n-    return a - b\n+    return a + b\n \n"
)
FIXED = SOURCE.replace("a - b", "a + b")
# The keys of git's documentation whose values are programs, with {trap} for one.
PROGRAMS = """
alias.status !{trap}
alias.add !{trap}
alias.rev-parse !{trap}
browser.trap.cmd {trap}
core.alternateRefsCommand {trap}
core.askPass {trap}
core.editor {trap}
core.fsmonitor {trap}
core.gitProxy {trap}
core.hooksPath {hooks}
core.pager {trap}
core.sshCommand {trap}
credential.helper !{trap}
diff.external {trap}
diff.trap.command {trap}
diff.trap.textconv {trap}
difftool.trap.cmd {trap}
filter.trap.clean {trap}
filter.trap.smudge {trap}
filter.trap.process {trap}
filter.trap.required true
gpg.program {trap}
gpg.ssh.defaultKeyCommand {trap}
gpg.ssh.program {trap}
hook.trap.command {trap}
hook.trap.event reference-transaction
interactive.diffFilter {trap}
man.trap.cmd {trap}
merge.trap.driver {trap}
mergetool.trap.cmd {trap}
pager.status {trap}
remote.origin.receivepack {trap}
remote.origin.uploadpack {trap}
remote.origin.url ext::{trap}
remote.origin.vcs trap
sequence.editor {trap}
submodule.vendor.update !{trap}
tar.trap.command {trap}
trailer.trap.command {trap}
uploadpack.packObjectsHook {trap}
commit.gpgSign true
log.showSignature true
protocol.ext.allow always
status.submoduleSummary true
"""
HOOKS = """
post-index-change reference-transaction pre-commit post-commit commit-msg pre-auto-gc
applypatch-msg pre-applypatch fsmonitor-watchman post-checkout
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a configuration of git of its own."""
    folder = tmp_path / "home"
    user = "[user]\n\tname = Of Home\n\temail = home@example.org\n"
    write_files(folder, {".gitconfig": user})
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


class Trap:
    """A program that leaves a mark when it is started."""

    def __init__(self, folder: Path) -> None:
        self.mark = folder / "started"
        self.hooks = folder / "hooks"
        # A filter must not change what it is given.
        mark = shlex.quote(str(self.mark))
        script = f'#!/bin/sh\necho "$0 $*" >>{mark}\ncat\n'
        self.program = folder / "trap"
        programs = [self.program]
        for hook in HOOKS.split():
            programs.append(self.hooks / hook)
        self.hooks.mkdir(parents=True)
        for program in programs:
            program.write_text(script)
            program.chmod(0o755)

    @property
    def started(self) -> str:
        if self.mark.exists():
            return self.mark.read_text()
        return ""

    def forget(self) -> None:
        self.mark.unlink(missing_ok=True)

    def configure(self, git_dir: Path) -> None:
        """Name the program under every key, and as every hook."""
        config = str(git_dir / "config")
        programs = PROGRAMS.format(trap=self.program, hooks=self.hooks)
        for line in programs.strip().splitlines():
            key, _, value = line.partition(" ")
            run_git(git_dir.parent, "config", "--file", config, key, value)
        hooks = git_dir / "hooks"
        hooks.mkdir(exist_ok=True)
        for hook in self.hooks.iterdir():
            (hooks / hook.name).symlink_to(hook)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "outside")


@pytest.fixture
def calc(tmp_path: Path) -> Path:
    files = dict(FILES)
    files[".gitattributes"] = "* filter=trap diff=trap merge=trap\n"
    root = make_repository(tmp_path / "calc", files)
    run_git(root, "config", "--unset", "user.name")
    run_git(root, "config", "--unset", "user.email")
    return root


def add_submodule(root: Path, files: dict[str, str | bytes | None]) -> None:
    """Commit the submodule ``vendor`` with ``files``."""
    other = make_repository(root.parent / "other", files)
    run_git(root, "submodule", "--quiet", "add", str(other), "vendor")
    run_git(root, "commit", "--quiet", "--all", "-m", "Add vendor")


def touch(root: Path) -> None:
    """Make git look into the files: their times are not those of its index."""
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if path.is_file() and ".git" not in parts:
            os.utime(path, (1, 1))


def base_of(root: Path, base: str = "", **options: Any) -> OwnRepository:
    cache = root.parent / "cache"
    return open_repository(str(root), base, cache, **options)


def use_repository(root: Path) -> OwnRepository:
    """Do everything that is done with a repository."""
    repository = base_of(root, include_changes=True)
    assert repository.files
    assert repository.read("lib/calc.py") is not None
    assert repository.version == ""
    repository.commit_to("fix", PATCH, "Fix\n")
    repository.apply(PATCH)
    return repository


def test_no_program_of_the_repositorys_configuration_is_started(
    trap: Trap, calc: Path
) -> None:
    run_git(calc, "config", "core.splitIndex", "true")
    run_git(calc, "update-index", "--split-index")
    assert list((calc / ".git").glob("sharedindex.*"))
    trap.configure(calc / ".git")
    (calc / ".git/index.lock").touch()  # another git is at work
    (calc / "new.py").write_text("NEW = 1\n")
    touch(calc)
    plain = subprocess.run(
        ["git", "diff"],
        cwd=calc,
        check=False,
        capture_output=True,
    )
    assert trap.started, f"the trap does not work: {plain.returncode}"
    trap.forget()
    repository = use_repository(calc)
    assert repository.changed
    assert {"new.py", "lib/calc.py"} <= set(repository.files)
    assert (calc / "lib/calc.py").read_text() == FIXED
    assert trap.started == ""


@pytest.mark.parametrize("included", ["../evil", "{tree}/evil"])
def test_an_included_file_of_the_tree_starts_nothing(
    trap: Trap, calc: Path, included: str
) -> None:
    program = trap.program
    config = f'[core]\n\tfsmonitor = {program}\n[filter "trap"]\n\tclean = {program}\n'
    (calc / "evil").write_text(config)
    path = included.format(tree=calc)
    run_git(calc, "config", "include.path", path)
    touch(calc)
    use_repository(calc)
    assert trap.started == ""


def test_submodules_and_their_configuration_start_nothing(
    trap: Trap, calc: Path
) -> None:
    add_submodule(calc, {"lib.py": "V = 1\n", ".gitattributes": "* filter=trap\n"})
    trap.configure(calc / ".git/modules/vendor")
    (calc / "vendor/lib.py").write_text("V = 2\n")
    touch(calc)
    with pytest.raises(UserError, match=r"uncommitted changes \(vendor/lib.py\)"):
        base_of(calc)
    use_repository(calc)
    assert trap.started == ""
    run_git(calc, "checkout", "--quiet", "lib")
    run_git(calc, "config", "submodule.vendor.ignore", "dirty")
    assert not base_of(calc).changed


def test_a_partial_clone_fetches_nothing(trap: Trap, calc: Path) -> None:
    """What is missing would be fetched by a program of the configuration."""
    first = run_git(calc, "rev-parse", "HEAD")
    run_git(calc, "commit", "--quiet", "--allow-empty", "-m", "Second")
    trap.configure(calc / ".git")
    for setting in (
        "core.repositoryFormatVersion 1",
        "extensions.partialClone origin",
        "remote.origin.promisor true",
        "--unset remote.origin.vcs",
    ):
        run_git(calc, "config", "--file", ".git/config", *setting.split())
    missing = calc / ".git/objects" / first[:2] / first[2:]
    missing.unlink()
    with pytest.raises((UserError, InfrastructureError)):
        base_of(calc, "HEAD~1")
    assert trap.started == ""


def test_the_work_tree_is_where_the_repository_lies(calc: Path, tmp_path: Path) -> None:
    """Otherwise its configuration could name the user's home, whose files a model would get."""
    private = make_repository(tmp_path / "private", {"secret.txt": "of the user\n"})
    run_git(calc, "config", "core.worktree", str(private))
    for path in (calc, calc / ".git", calc / "lib"):
        repository = open_repository(str(path), "", tmp_path / "cache")
        assert repository.tree in (calc, None)
        assert "secret.txt" not in repository.files
        if repository.tree:
            repository.apply(PATCH)
            run_git(calc, "--work-tree", str(calc), "checkout", "lib")
    assert run_git(private, "status", "--porcelain") == ""


def test_the_users_own_filters_and_endings_count(
    trap: Trap, calc: Path, home: Path
) -> None:
    """Git LFS, for one, is installed in the user's configuration."""
    ours = home / "ours.sh"
    ours.write_text("#!/bin/sh\ntr a-z A-Z\n")
    ours.chmod(0o755)
    trap.configure(calc / ".git")
    with (home / ".gitconfig").open("a") as file:
        file.write(f'[filter "trap"]\n\tclean = {ours}\n\tsmudge = cat\n')
    (calc / "new.txt").write_text("new\n")
    repository = base_of(calc, include_changes=True)
    assert repository.read("new.txt") == "NEW\n"
    assert trap.started == ""


def test_line_endings_of_the_repository_count(calc: Path, tmp_path: Path) -> None:
    (calc / ".gitattributes").unlink()
    run_git(calc, "commit", "--quiet", "--all", "-m", "No attributes")
    run_git(calc, "config", "core.autocrlf", "true")
    run_git(calc, "config", "core.excludesFile", str(tmp_path / "ignored"))
    (tmp_path / "ignored").write_text("*.log\n")
    files = {
        "a.log": "",
        ".git/info/exclude": "*.tmp\n",
        "b.tmp": "",
        "lib/calc.py": SOURCE.replace("\n", "\r\n"),
    }
    write_files(calc, files)
    run_git(calc, "add", "lib/calc.py")
    touch(calc)
    assert not base_of(calc).changed


REMOVED_VARIABLES = """
GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_EXTERNAL_DIFF GIT_EDITOR GIT_PAGER
GIT_PROXY_COMMAND GIT_CONFIG_PARAMETERS GIT_TRACE GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_CONFIG_SYSTEM
"""


def test_git_takes_over_who_the_user_is_and_how_to_log_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    inherited = {
        "GIT_AUTHOR_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_SSH_COMMAND": "ssh -4",
        "GIT_ASKPASS": "ask",
        "GIT_SSL_CAINFO": "/ca",
        "SSH_AUTH_SOCK": "/s",
        "HTTPS_PROXY": "p",
        "GIT_CONFIG_GLOBAL": "/home/me/.gitconfig",
    }
    removed = REMOVED_VARIABLES.split()
    for name, value in inherited.items():
        monkeypatch.setenv(name, value)
    for name in removed:
        monkeypatch.setenv(name, "x")
    config = {
        "core.fsmonitor": "/trap",
        "safe.directory": "/theirs",
        "alias.status": "!x",
    }
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(config)))
    for number, key in enumerate(config):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", config[key])
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    environment = user_environment()
    assert inherited.items() <= environment.items()
    assert not {*removed, "XDG_CONFIG_HOME"} & set(environment)
    pairs = set()
    for number in range(int(environment["GIT_CONFIG_COUNT"])):
        key = environment[f"GIT_CONFIG_KEY_{number}"]
        value = environment[f"GIT_CONFIG_VALUE_{number}"]
        pairs.add((key, value))
    assert ("safe.directory", "/theirs") in pairs
    assert ("core.fsmonitor", "false") in pairs
    assert "/trap" not in str(environment)
    assert "alias" not in str(environment)


@pytest.mark.parametrize("source", ["home", "repository", "environment", "login"])
def test_the_commit_of_a_branch_is_the_users(
    calc: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    source: str,
) -> None:
    author = "Of Home <home@example.org>"
    if source == "repository":
        run_git(calc, "config", "user.email", "work@example.org")
        author = "Of Home <work@example.org>"
    elif source == "environment":
        for role in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{role}_NAME", "Env")
            monkeypatch.setenv(f"GIT_{role}_EMAIL", "env@example.org")
        author = "Env <env@example.org>"
    elif source == "login":
        (home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
        monkeypatch.setenv("LOGNAME", "me")
        monkeypatch.setenv("EMAIL", "me@example.org")
        author = "me <me@example.org>"
    repository = base_of(calc)
    commit = repository.commit_to("fix", PATCH, "Fix\n")
    people = run_git(calc, "log", "-1", "--format=%an <%ae>|%cn <%ce>", commit)
    assert people == f"{author}|{author}"
    assert run_git(calc, "rev-parse", "fix") == commit


def test_no_file_named_env_enters_a_base(calc: Path, tmp_path: Path) -> None:
    keys = {".env", "sub/.env"}
    committed = dict.fromkeys(keys, "KEY=committed\n")
    write_files(calc, {"a.env": "x\n", **committed})
    run_git(calc, "add", "--all", "--force")
    run_git(calc, "commit", "--quiet", "-m", "With keys")
    first = base_of(calc)
    assert base_of(calc).commit == first.commit
    assert first.commit != first.head
    assert not first.changed
    assert "a.env" in first.files
    assert not keys & set(first.files)
    write_files(calc, {".env": "KEY=mine\n", "new/.env": "KEY=mine\n"})
    run_git(calc, "add", "new/.env")
    # They are no changes, and no part of them.
    assert base_of(calc).commit == first.commit
    (calc / "new.py").write_text("NEW = 1\n")
    with pytest.raises(UserError, match=r"uncommitted changes \(new.py\)"):
        base_of(calc)
    before = state(calc)
    changed = base_of(calc, include_changes=True)
    assert state(calc) == before
    assert set(changed.files) == {*first.files, "new.py"}
    # On the user's own commit and in the tree they stay.
    commit = changed.commit_to("fix", PATCH, "Fix\n")
    assert run_git(calc, "show", f"{commit}:.env") == "KEY=committed"
    names = run_git(calc, "diff", "--name-only", changed.head, commit)
    assert names == "lib/calc.py"
    changed.apply(PATCH)
    assert (calc / ".env").read_text() == "KEY=mine\n"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(calc), "bare.git")
    for address in (calc.as_uri(), f"{tmp_path}/bare.git"):
        repository = open_repository(address, "main", tmp_path / "cache")
        assert not keys & set(repository.files)


def test_submodules_bring_no_file_named_env(calc: Path, tmp_path: Path) -> None:
    add_submodule(calc, {"lib.py": "V = 1\n", ".env": "KEY=committed\n"})
    repository = base_of(calc)
    snapshots = tmp_path / "snapshots"
    commit = repository.commit
    snapshot = get_snapshot(snapshots, repository.mirror, repository.name, commit)
    checkout = make_checkout(snapshot, tmp_path / "checkout")
    add_submodules(repository.mirror, checkout)
    assert os.listdir(checkout.root / "vendor") == ["lib.py"]


def test_a_patch_that_is_handed_over_has_no_file_named_env() -> None:
    new = "diff --git a/{0} b/{0}\nnew file mode 100644\n"
    new += "--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+x\n"
    patch = PATCH
    for path in (".env", "lib/.env", "lib/a.env", "tests/test_a.py"):
        patch += new.format(path)
    deliverable = deliverable_patch(patch)
    assert deliverable.patch == PATCH + new.format("lib/a.env")
    assert deliverable.dropped == ("tests/test_a.py", ".env", "lib/.env")


def test_a_clone_with_an_env_file_starts_and_configures_nothing(
    trap: Trap, tmp_path: Path, preloaded: Preloaded, provider: Provider
) -> None:
    variables = (
        f"OPENAI_API_BASE={provider.url}\nGIT_CONFIG_COUNT=1\nGIT_CONFIG_KEY_0=core.fsmonitor\n"
        f"GIT_CONFIG_VALUE_0={trap.program}\nGIT_SSH_COMMAND={trap.program}\nPATH=/nowhere\n"
    )
    calc = make_repository(tmp_path / "clone", {**FILES, ".env": variables})
    folders = f"--set folders.cache={tmp_path}/cache --out {tmp_path}/out"
    limits = "--budget-usd 1 --tries 1 --set calls.retries=0 --environment none"
    command = f"--repo . --models gpt-4o@diff {limits} {folders}"
    # Nothing answers at this address.
    env = {
        **os.environ,
        "OPENAI_API_KEY": "sk-of-the-user",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    for option in ("--dry-run", ""):
        argv = shlex.split(f"{command} {option}")
        done = preloaded.run("--issue", ISSUE, *argv, env=env, cwd=calc)
        assert "repository   local/clone" in done.stdout, done.stdout
        assert trap.started == ""
        assert not provider.requests
