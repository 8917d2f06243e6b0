"""Check all files for links, sizes, secrets and TODOs."""

from __future__ import annotations

from collections.abc import Iterator

from core.redaction import Redactor
from reports.submission.checks.findings import Kind, PackageFinding, UnusableError
from reports.submission.checks.keys import secret_in, secret_in_blocks
from reports.submission.reading import MIB, Folder, Sort

_QUOTING = ("logs", "trajs")
_TEXTS = (".md", ".yaml", ".yml", ".json", ".txt")


def check_files(root: Folder, redact: Redactor) -> Iterator[PackageFinding]:
    """Yield the faults of all files below ``root``."""
    total = 0
    for name, sort, size in root.files():
        total += size
        if name.split("/", 1)[0] == ".git":
            continue
        yield from _file(root, name, sort, size, redact)
    if total > root.limits.total:
        problem = f"{total // MIB} MiB, but GitHub asks for at most {root.limits.total // MIB}"
        yield PackageFinding(Kind.SIZE, root.place(), problem, "shorten logs and trajectories")


def _file(
    root: Folder, name: str, sort: Sort, size: int, redact: Redactor
) -> Iterator[PackageFinding]:
    if sort is not Sort.FILE:
        fix = "replace it by the file"
        yield PackageFinding(Kind.LINK, root.place(name), f"is a {sort.value}", fix)
    elif size > root.limits.file:
        problem = f"{size // MIB} MiB, but GitHub refuses more than {root.limits.file // MIB}"
        yield PackageFinding(Kind.SIZE, root.place(name), problem, "shorten or compress it")
    else:
        yield from _secrets(root, name, redact)


def _secrets(root: Folder, name: str, redact: Redactor) -> Iterator[PackageFinding]:
    try:
        if name.endswith(".gz"):
            found = secret_in_blocks(root.unpacked(name), redact)
        else:
            found = secret_in(root.data(name).decode("utf-8", "replace"), redact)
    except UnusableError as error:
        yield error.finding
        return
    if found:
        fix = "redact it, and revoke it if it was ever valid"
        yield PackageFinding(Kind.SECRET, root.place(name), f"contains {found}", fix)


def check_todo(folder: Folder, *, deep: bool) -> Iterator[PackageFinding]:
    """Yield each TODO in the texts of ``folder``.

    Predictions, logs and trajectories quote repositories, which contain many TODOs. So only texts
    that submitters write are checked: the entry, and the texts at the top of the artifacts.

    Args:
        folder: the entry or the artifacts.
        deep: whether to check the folders below it.
    """
    for name, sort, _ in folder.files():
        if sort is not Sort.FILE or not name.endswith(_TEXTS) or (not deep and "/" in name):
            continue
        if name.split("/", 1)[0] in _QUOTING:
            continue
        try:
            lines = folder.text(name).splitlines()
        except UnusableError:
            continue  # reported by other checks
        for number, line in enumerate(lines, 1):
            if "TODO" in line:
                place = f"{folder.place(name)}:{number}"
                yield PackageFinding(Kind.TODO, place, "contains a TODO", "fill it in")
