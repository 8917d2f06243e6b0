"""Make git mirrors of the demo's plain folders, with the same commits on every machine."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from swe_retry.core.atomic import scratch_folder
from swe_retry.core.git import git

_HERE = Path(__file__).resolve().parent
DEMO_DATASET = _HERE
REPOSITORIES = _HERE / "repositories"
_DATE = "2024-05-23T12:00:00+00:00"
_IGNORED = ("__pycache__", ".pytest_cache")
_WHO = {"NAME": "Demo", "EMAIL": "demo@example.org", "DATE": _DATE}


def build_mirrors(root: Path) -> Path:
    """Make a bare mirror of each demo repository under ``root`` and return ``root``.

    Dates and names are fixed, so the commits always have the hashes that the instances name.
    """
    # The entry scripts import this module even where no packages are installed.
    from filelock import FileLock

    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / ".lock"):
        for folder in sorted(path for path in REPOSITORIES.iterdir() if path.is_dir()):
            _build(folder, root / f"{folder.name}.git")
    return root


def _build(folder: Path, target: Path) -> None:
    source = target / "demo-source"
    digest = _digest(folder)
    if source.exists() and source.read_text() == digest:
        return
    with scratch_folder(target) as temporary:
        work, mirror = temporary / "work", temporary / "mirror"
        shutil.copytree(folder, work, ignore=shutil.ignore_patterns(*_IGNORED))
        for file in work.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        commit_all(work, "Begin")
        git("clone", "--quiet", "--bare", work, mirror, cwd=temporary)
        (mirror / source.name).write_text(digest)
        shutil.rmtree(target, ignore_errors=True)
        mirror.replace(target)


def _digest(folder: Path) -> str:
    """Return a hash of all that the commit of ``folder`` is made of."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        if file.is_file() and not set(_IGNORED) & set(path.parts):
            digest.update(f"{path}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def commit_all(folder: Path, message: str) -> str:
    """Make ``folder`` a repository with one commit of all its files; return the commit's hash."""
    git("init", "--quiet", "--initial-branch=main", "--template=", ".", cwd=folder)
    git("add", "--all", "--force", ".", cwd=folder)
    who = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in _WHO.items()
    }
    git("commit", "--quiet", "--allow-empty", "-m", message, cwd=folder, env=who)
    return git("rev-parse", "HEAD", cwd=folder).decode().strip()
