"""A stranger's repository configures nothing: no key is sent elsewhere, no program is started."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from bench.own.repository import OwnRepository, open_repository
from bench.own.result import deliverable_patch
from bench.repos.checkout import Snapshots, make_checkout
from bench.repos.mirrors import add_submodules
from core.errors import InfrastructureError, UserError
from core.git import user_environment
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
HOOKS = (
    "post-index-change",
    "reference-transaction",
    "pre-commit",
    "post-commit",
    "commit-msg",
)
HOOKS += (
    "pre-auto-gc",
    "applypatch-msg",
    "pre-applypatch",
    "fsmonitor-watchman",
    "post-checkout",
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a configuration of git of its own."""
    place = tmp_path / "home"
    write_files(
        place, {".gitconfig": "[user]\n\tname = Of Home\n\temail = home@example.org\n"}
    )
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return place


class Trap:
    """A program that leaves a mark when it is started."""

    def __init__(self, folder: Path) -> None:
        self.mark = folder / "started"
        self.hooks = folder / "hooks"
        # A filter must not change what it is given.
        script = f'#!/bin/sh\necho "$0 $*" >>{shlex.quote(str(self.mark))}\ncat\n'
        write_files(
            folder, {"trap": script, **{f"hooks/{name}": script for name in HOOKS}}
        )
        self.program = folder / "trap"
        for path in (self.program, *self.hooks.iterdir()):
            path.chmod(0o755)

    @property
    def started(self) -> str:
        if self.mark.exists():
            return self.mark.read_text()
        return ""

    def forget(self) -> None:
        self.mark.unlink(missing_ok=True)

    def configure(self, git_dir: Path) -> None:
        """Name the program under every key, and as every hook."""
        for line in PROGRAMS.strip().splitlines():
            key, _, value = line.partition(" ")
            value = value.format(trap=self.program, hooks=self.hooks)
            config = ("config", "--file", str(git_dir / "config"), key, value)
            run_git(git_dir.parent, *config)
        for hook in self.hooks.iterdir():
            (git_dir / "hooks").mkdir(exist_ok=True)
            (git_dir / "hooks" / hook.name).symlink_to(hook)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "outside")


@pytest.fixture
def calc(tmp_path: Path) -> Path:
    attributes = "* filter=trap diff=trap merge=trap\n"
    root = make_repository(tmp_path / "calc", {**FILES, ".gitattributes": attributes})
    run_git(root, "config", "--unset", "user.name")
    run_git(root, "config", "--unset", "user.email")
    return root


def touch(root: Path) -> None:
    """Make git look into the files: their times are not those of its index."""
    for path in root.rglob("*"):
        if path.is_file() and ".git" not in path.relative_to(root).parts:
            os.utime(path, (1, 1))


def use(root: Path, cache: Path) -> OwnRepository:
    """Do everything that is done with a repository."""
    found = open_repository(str(root), "", cache, include_changes=True)
    assert found.files and found.read("lib/calc.py") is not None and found.version == ""
    found.commit_to("fix", PATCH, "Fix\n")
    found.apply(PATCH)
    return found


def test_no_program_of_the_repositorys_configuration_is_started(
    trap: Trap, calc: Path, tmp_path: Path
) -> None:
    run_git(calc, "config", "core.splitIndex", "true")
    run_git(calc, "update-index", "--split-index")
    assert [*(calc / ".git").glob("sharedindex.*")]
    trap.configure(calc / ".git")
    (calc / ".git/index.lock").touch()  # another git is at work
    (calc / "new.py").write_text("NEW = 1\n")
    touch(calc)
    plain = subprocess.run(["git", "diff"], cwd=calc, check=False, capture_output=True)
    assert trap.started, f"the trap does not work: {plain.returncode}"
    trap.forget()
    found = use(calc, tmp_path / "cache")
    assert found.changed and {"new.py", "lib/calc.py"} <= {*found.files}
    assert (calc / "lib/calc.py").read_text() == FIXED
    assert trap.started == ""


@pytest.mark.parametrize("included", ["../evil", "{tree}/evil"])
def test_an_included_file_of_the_tree_starts_nothing(
    trap: Trap, calc: Path, tmp_path: Path, included: str
) -> None:
    lines = f'[core]\n\tfsmonitor = {trap.program}\n[filter "trap"]\n\tclean = {trap.program}\n'
    (calc / "evil").write_text(lines)
    run_git(calc, "config", "include.path", included.format(tree=calc))
    touch(calc)
    use(calc, tmp_path / "cache")
    assert trap.started == ""


def test_submodules_and_their_configuration_start_nothing(
    trap: Trap, calc: Path, tmp_path: Path
) -> None:
    other = make_repository(
        tmp_path / "other",
        {"lib.py": "VALUE = 1\n", ".gitattributes": "* filter=trap\n"},
    )
    run_git(calc, "submodule", "--quiet", "add", str(other), "vendor")
    run_git(calc, "commit", "--quiet", "--all", "-m", "Add vendor")
    trap.configure(calc / ".git/modules/vendor")
    (calc / "vendor/lib.py").write_text("V = 2\n")
    touch(calc)
    with pytest.raises(UserError, match=r"uncommitted changes \(vendor/lib.py\)"):
        open_repository(str(calc), "", tmp_path / "cache")
    use(calc, tmp_path / "cache")
    assert trap.started == ""
    run_git(calc, "checkout", "--quiet", "lib")
    run_git(calc, "config", "submodule.vendor.ignore", "dirty")
    assert not open_repository(str(calc), "", tmp_path / "cache").changed


def test_a_partial_clone_fetches_nothing(
    trap: Trap, calc: Path, tmp_path: Path
) -> None:
    """What is missing would be fetched by a program of the configuration."""
    first = run_git(calc, "rev-parse", "HEAD")
    run_git(calc, "commit", "--quiet", "--allow-empty", "-m", "Second")
    trap.configure(calc / ".git")
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
    ):
        run_git(calc, "config", "--file", ".git/config", key, value)
    run_git(calc, "config", "--file", ".git/config", "--unset", "remote.origin.vcs")
    (calc / ".git/objects" / first[:2] / first[2:]).unlink()
    with pytest.raises((UserError, InfrastructureError)):
        open_repository(str(calc), "HEAD~1", tmp_path / "cache")
    assert trap.started == ""


def test_the_work_tree_is_where_the_repository_lies(calc: Path, tmp_path: Path) -> None:
    """Otherwise its configuration could name the user's home, whose files a model would get."""
    private = make_repository(tmp_path / "private", {"secret.txt": "of the user\n"})
    run_git(calc, "config", "core.worktree", str(private))
    for given in (calc, calc / ".git", calc / "lib"):
        found = open_repository(str(given), "", tmp_path / "cache")
        assert found.tree in (calc, None) and "secret.txt" not in found.files
        if found.tree:
            found.apply(PATCH)
            run_git(
                private, "-C", str(calc), "--work-tree", str(calc), "checkout", "lib"
            )
    assert run_git(private, "status", "--porcelain") == ""


def test_the_users_own_filters_and_endings_count(
    trap: Trap, calc: Path, tmp_path: Path, home: Path
) -> None:
    """Git LFS, for one, is installed in the user's configuration."""
    ours = home / "ours.sh"
    ours.write_text("#!/bin/sh\ntr a-z A-Z\n")
    ours.chmod(0o755)
    trap.configure(calc / ".git")
    with (home / ".gitconfig").open("a") as file:
        file.write(f'[filter "trap"]\n\tclean = {ours}\n\tsmudge = cat\n')
    (calc / "new.txt").write_text("new\n")
    found = open_repository(str(calc), "", tmp_path / "cache", include_changes=True)
    assert found.read("new.txt") == "NEW\n" and trap.started == ""


def test_line_endings_of_the_repository_count(calc: Path, tmp_path: Path) -> None:
    (calc / ".gitattributes").unlink()
    run_git(calc, "commit", "--quiet", "--all", "-m", "No attributes")
    run_git(calc, "config", "core.autocrlf", "true")
    run_git(calc, "config", "core.excludesFile", str(tmp_path / "ignored"))
    (tmp_path / "ignored").write_text("*.log\n")
    write_files(calc, {"a.log": "", ".git/info/exclude": "*.tmp\n", "b.tmp": ""})
    (calc / "lib/calc.py").write_bytes(SOURCE.replace("\n", "\r\n").encode())
    run_git(calc, "add", "lib/calc.py")
    touch(calc)
    assert not open_repository(str(calc), "", tmp_path / "cache").changed


def test_git_takes_over_who_the_user_is_and_how_to_log_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    taken = {
        "GIT_AUTHOR_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_SSH_COMMAND": "ssh -4",
        "GIT_ASKPASS": "ask",
        "GIT_SSL_CAINFO": "/ca",
        "SSH_AUTH_SOCK": "/s",
        "HTTPS_PROXY": "p",
        "GIT_CONFIG_GLOBAL": "/home/me/.gitconfig",
    }
    left = (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_EXTERNAL_DIFF",
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_PROXY_COMMAND",
        "GIT_CONFIG_PARAMETERS",
        "GIT_TRACE",
        "GIT_EXEC_PATH",
        "GIT_TEMPLATE_DIR",
        "GIT_CONFIG_SYSTEM",
    )
    for name, value in (*taken.items(), *((name, "x") for name in left)):
        monkeypatch.setenv(name, value)
    config = (
        ("core.fsmonitor", "/trap"),
        ("safe.directory", "/theirs"),
        ("alias.status", "!x"),
    )
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(config)))
    for number, (key, value) in enumerate(config):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    made = user_environment()
    assert {name: made.get(name) for name in taken} == taken
    assert not {*left, "XDG_CONFIG_HOME"} & {*made}
    count = int(made["GIT_CONFIG_COUNT"])
    pairs = set()
    for n in range(count):
        pairs.add((made[f"GIT_CONFIG_KEY_{n}"], made[f"GIT_CONFIG_VALUE_{n}"]))
    assert ("safe.directory", "/theirs") in pairs and (
        "core.fsmonitor",
        "false",
    ) in pairs
    assert "/trap" not in str(made) and "alias" not in str(made)


@pytest.mark.parametrize("of", ["home", "repository", "environment", "nobody"])
def test_the_commit_of_a_branch_is_the_users(
    calc: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    of: str,
) -> None:
    who = "Of Home <home@example.org>"
    if of == "repository":
        run_git(calc, "config", "user.email", "work@example.org")
        who = "Of Home <work@example.org>"
    elif of == "environment":
        for role in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{role}_NAME", "Env")
            monkeypatch.setenv(f"GIT_{role}_EMAIL", "env@example.org")
        who = "Env <env@example.org>"
    elif of == "nobody":
        (home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
        monkeypatch.setenv("LOGNAME", "me")
        monkeypatch.setenv("EMAIL", "me@example.org")
        who = "me <me@example.org>"
    found = open_repository(str(calc), "", tmp_path / "cache")
    made = found.commit_to("fix", PATCH, "Fix\n")
    assert (
        run_git(calc, "log", "-1", "--format=%an <%ae>|%cn <%ce>", made)
        == f"{who}|{who}"
    )
    assert run_git(calc, "rev-parse", "fix") == made


def test_no_file_named_env_enters_a_base(calc: Path, tmp_path: Path) -> None:
    write_files(
        calc, {".env": "KEY=committed\n", "sub/.env": "KEY=committed\n", "a.env": "x\n"}
    )
    run_git(calc, "add", "--all", "--force")
    run_git(calc, "commit", "--quiet", "-m", "With keys")
    cache = tmp_path / "cache"
    first, again = (open_repository(str(calc), "", cache) for _ in range(2))
    assert first.commit == again.commit != first.head and not first.changed
    assert "a.env" in first.files and not {".env", "sub/.env"} & {*first.files}
    write_files(calc, {".env": "KEY=mine\n", "new/.env": "KEY=mine\n"})
    run_git(calc, "add", "new/.env")
    # They are no changes, and no part of them.
    assert open_repository(str(calc), "", cache).commit == first.commit
    (calc / "new.py").write_text("NEW = 1\n")
    with pytest.raises(UserError, match=r"uncommitted changes \(new.py\)"):
        open_repository(str(calc), "", cache)
    before = state(calc)
    changed = open_repository(str(calc), "", cache, include_changes=True)
    assert state(calc) == before
    assert {*changed.files} == {*first.files, "new.py"}
    # On the user's own commit and in the tree they stay.
    made = changed.commit_to("fix", PATCH, "Fix\n")
    assert run_git(calc, "show", f"{made}:.env") == "KEY=committed"
    assert run_git(calc, "diff", "--name-only", changed.head, made) == "lib/calc.py"
    changed.apply(PATCH)
    assert (calc / ".env").read_text() == "KEY=mine\n"
    for kind in ("address", "bare"):
        given = calc.as_uri()
        if kind == "bare":
            run_git(tmp_path, "clone", "--quiet", "--bare", str(calc), "bare.git")
            given = str(tmp_path / "bare.git")
        assert not {".env", "sub/.env"} & {*open_repository(given, "main", cache).files}


def test_submodules_bring_no_file_named_env(calc: Path, tmp_path: Path) -> None:
    other = make_repository(
        tmp_path / "other", {"lib.py": "V = 1\n", ".env": "KEY=committed\n"}
    )
    run_git(calc, "submodule", "--quiet", "add", str(other), "vendor")
    run_git(calc, "commit", "--quiet", "--all", "-m", "Add vendor")
    found = open_repository(str(calc), "", tmp_path / "cache")
    snapshot = Snapshots(tmp_path / "snapshots").get(
        found.mirror, found.name, found.commit
    )
    checkout = make_checkout(snapshot, tmp_path / "checkout")
    add_submodules(found.mirror, checkout)
    assert os.listdir(checkout.root / "vendor") == ["lib.py"]


def test_a_patch_that_is_handed_over_has_no_file_named_env() -> None:
    new = "diff --git a/{0} b/{0}\nnew file mode 100644\n"
    new += "--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+x\n"
    parts = []
    for path in (".env", "lib/.env", "lib/a.env", "tests/test_a.py"):
        parts.append(new.format(path))
    fit = deliverable_patch("".join([PATCH, *parts]))
    assert fit.patch == PATCH + new.format("lib/a.env")
    assert fit.dropped == ("tests/test_a.py", ".env", "lib/.env")


def test_a_clone_with_an_env_file_starts_and_configures_nothing(
    trap: Trap, tmp_path: Path, preloaded: Preloaded, provider: Provider
) -> None:
    variables = (
        f"OPENAI_API_BASE={provider.url}\nGIT_CONFIG_COUNT=1\nGIT_CONFIG_KEY_0=core.fsmonitor\n"
        f"GIT_CONFIG_VALUE_0={trap.program}\nGIT_SSH_COMMAND={trap.program}\nPATH=/nowhere\n"
    )
    calc = make_repository(tmp_path / "clone", {**FILES, ".env": variables})
    words = (
        "--repo",
        ".",
        "--issue",
        ISSUE,
        "--models",
        "gpt-4o@diff",
        "--budget-usd",
        "1",
    )
    words += ("--environment", "none", "--tries", "1", "--set", "calls.retries=0")
    words += (
        "--set",
        "folders.cache=" + str(tmp_path / "cache"),
        "--out",
        str(tmp_path / "out"),
    )
    # Nothing answers at this address.
    env = {
        **os.environ,
        "OPENAI_API_KEY": "sk-of-the-user",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    for more in (("--dry-run",), ()):
        done = preloaded.run(*words, *more, env=env, cwd=calc)
        assert "repository   local/clone" in done.stdout, done.stdout
        assert trap.started == "" and not provider.requests
