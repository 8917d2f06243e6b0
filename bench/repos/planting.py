"""Plant a bug: a commit without parents whose tree is that of another commit with a patch."""

from __future__ import annotations

from pathlib import Path

from core.errors import InfrastructureError
from core.git import git, git_result

# Fixed, so that each machine makes the same commit.
_WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in {
        "NAME": "base", "EMAIL": "base@localhost", "DATE": "2000-01-01T00:00:00+00:00",
    }.items()
}  # fmt: skip


def plant(mirror: Path, commit: str, patch: str, repository: Path) -> str:
    """Make a bare ``repository`` beside ``mirror`` with the new commit; return its hash.

    A tree in which ``patch`` is applied already stays as it is. ``mirror`` is only read.

    Raises:
        GitError: git failed.
        InfrastructureError: the patch does not fit the commit.
    """
    git("init", "--quiet", "--bare", "--template=", repository, cwd=mirror)
    objects = git("rev-parse", "--git-path", "objects", cwd=mirror).decode().strip()
    (repository / "objects/info").mkdir(exist_ok=True)
    (repository / "objects/info/alternates").write_text(f"{(mirror / objects).resolve()}\n")
    git("read-tree", commit, cwd=repository)
    data = patch.encode("utf-8", "surrogateescape")
    apply = ("apply", "--cached", "--whitespace=nowarn")
    if git_result(*apply, "--check", "--reverse", cwd=repository, stdin=data).returncode:
        applied = git_result(*apply, cwd=repository, stdin=data)
        if applied.returncode:
            raise InfrastructureError(
                f"the patch of the row fits neither {commit} nor its fix: check `base_commit`"
            )
    tree = git("write-tree", cwd=repository).decode().strip()
    made = git("commit-tree", tree, "-m", "base", cwd=repository, env=_WHO)
    return made.decode().strip()
