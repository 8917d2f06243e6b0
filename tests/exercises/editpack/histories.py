"""Repositories with a history that is written here commit by commit, and traps laid in them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from core.git import git

MIT = b"""MIT License

Copyright (c) 2020 Nobody

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.
"""
FILE, EXECUTABLE, LINK, SUBMODULE = b"100644", b"100755", b"120000", b"160000"
AUTHOR = "Ada Example"
HOSTILE = ("new\nline.py", 'quo"te\\.py', "-rf.py", ":100644 1 2 M.py", "tab\té.py", "$(x).py")
PLAIN = ("a.py", "b.py", "typed.py", "g_pb2.py", "src/vendor/lib.py")
LONG = b"x = '" + b"a" * 49_993 + b"'"
Content = bytes | tuple[bytes, bytes] | None
"""Data, mode with data, or None for a file that is removed."""


@dataclass
class MadeHistory:
    """Writes commits for ``git fast-import``; each has the date of a day later than the last.

    ``lines`` holds the data by path at each branch's tip, so that tests can say edits shortly.
    """

    stream: bytearray = field(default_factory=bytearray)
    number: int = 0

    def commit(
        self,
        message: str | bytes,
        files: dict[bytes | str, Content],
        *,
        branch: str = "main",
        parents: tuple[int, ...] | None = None,
        encoding: str = "",
        author: str = AUTHOR,
        date: int | None = None,
    ) -> int:
        """Write a commit, by default on top of the branch, and return its number."""
        self.number += 1
        data = message.encode() if isinstance(message, str) else message
        seconds = 1_600_000_000 + 86_400 * self.number if date is None else date
        who = f"{author} <ada@example.org>".encode()
        out = [f"commit refs/heads/{branch}\nmark :{self.number}\n".encode()]
        out.append(b"author %s %d +0200\ncommitter %s %d +0200\n" % (who, seconds, who, seconds))
        out.append(f"encoding {encoding}\n".encode() if encoding else b"")
        out.append(b"data %d\n%s\n" % (len(data), data))
        for place, parent in enumerate(parents or ()):
            out.append(f"{'merge' if place else 'from'} :{parent}\n".encode())
        self.stream += b"".join(out) + b"".join(_file(p, c) for p, c in files.items()) + b"\n"
        return self.number

    def write(self, folder: Path, *, hash_name: str = "sha1", bare: bool = True) -> Path:
        """Make the repository."""
        folder.mkdir(parents=True)
        kind = ("--bare",) if bare else ()
        form = f"--object-format={hash_name}"
        git("init", "--quiet", "--initial-branch=main", form, *kind, cwd=folder)
        git("fast-import", "--quiet", "--date-format=raw-permissive", cwd=folder,
            stdin=bytes(self.stream))  # fmt: skip
        return folder


def _file(path: bytes | str, content: Content) -> bytes:
    raw = path.encode() if isinstance(path, str) else path
    named = b'"' + b"".join(b"\\%03o" % byte for byte in raw) + b'"'
    if content is None:
        return b"D %s\n" % named
    mode, data = content if isinstance(content, tuple) else (FILE, content)
    if mode == SUBMODULE:
        return b"M %s %s %s\n" % (mode, data, named)
    return b"M %s inline %s\ndata %d\n%s\n" % (mode, named, len(data), data)


def file(name: str, number: int, *more: str) -> bytes:
    """Return a content that no other name and number has."""
    lines = (f"x = {number}", *more, f"name = {name!r}")
    return "".join(f"{text}\n" for text in lines).encode()


def hostile_history() -> MadeHistory:
    """Return a history of 35 commits and a merge; 29 of them modify Python."""
    made = MadeHistory()
    first = made.commit(
        "Begin with many files",
        {
            "LICENSE": MIT, "link.py": (LINK, b"a.py"), "sub": (SUBMODULE, b"1" * 40),
            "latin.py": "é = 0\n".encode("latin-1"), "crlf.py": b"x = 0\r\ny = 0\r\n",
            "long.py": LONG + b"0\n", "fits.py": LONG + b"\n", "notes.txt": b"0\n",
            "old_name.py": file("old_name.py", 7), b"\xff.py": file("ff", 0),
            **{name: file(name, 0) for name in (*PLAIN, *HOSTILE)},
            **{f"many/{number}.py": file(f"{number:02}", 0) for number in range(100)},
        },
    )  # fmt: skip
    side = made.commit(
        "Handle the empty list", {"b.py": file("b.py", 1)}, branch="side", parents=(first,)
    )
    main = made.commit("Set one in the first file", {"a.py": file("a.py", 1)})
    made.commit("Merge the side branch here", {"a.py": file("a.py", 9), "b.py": file("b.py", 1)},
        parents=(main, side))  # fmt: skip
    made.commit(
        "Handle the empty list", {"b.py": file("b.py", 1)}, branch="maint", parents=(first,)
    )
    made.commit(
        "Rename the module of names", {"old_name.py": None, "new_name.py": file("old_name.py", 7)}
    )
    made.commit("Point the link elsewhere", {"link.py": (LINK, b"b.py")})
    made.commit("Make a link of the file", {"typed.py": (LINK, b"b.py")})
    made.commit("Change the latin file", {"latin.py": "é = 1\n".encode("latin-1")})
    made.commit("Change one line of two", {"crlf.py": b"x = 1\r\ny = 0\r\n"})
    made.commit("Use the other line ends", {"crlf.py": b"x = 1\ny = 0\n"})
    made.commit("Move the submodule ahead", {"sub": (SUBMODULE, b"2" * 40)})
    made.commit(
        "Change two files at once", {"a.py": file("a.py", 2), "b.py": file("b.py", 2, "y = 2")}
    )
    made.commit(
        "Change two files alike", {"b.py": file("b.py", 3, "y = 2"), "a.py": file("a.py", 3)}
    )
    made.commit("Generate the messages again", {"g_pb2.py": file("g_pb2.py", 1)})
    made.commit("Update the vendored library", {"src/vendor/lib.py": file("src/vendor/lib.py", 1)})
    made.commit("Make the file executable", {"a.py": (EXECUTABLE, file("a.py", 3))})
    made.commit("Change the long file", {"long.py": LONG + b"1\n"})
    made.commit("Change the file that fits", {"fits.py": LONG.replace(b"aa", b"bb") + b"\n"})
    made.commit("Change the notes only", {"notes.txt": b"1\n"})
    made.commit("Change a name of bytes", {b"\xff.py": file("ff", 1)})
    for number, name in enumerate(HOSTILE):
        made.commit(f"Change the hostile name {number}", {name: file(name, 1)})
    made.commit("Change many files at once",
        {f"many/{number}.py": file(f"{number:02}", 1) for number in range(100)})  # fmt: skip
    made.commit("Fixed the first file", {"a.py": file("a.py", 4)})
    made.commit(b"Write without a newline", {"a.py": file("a.py", 5)})
    made.commit(
        "Rename the café".encode("latin-1"), {"a.py": file("a.py", 6)}, encoding="ISO-8859-1"
    )
    made.commit("Rename the café".encode("latin-1"), {"a.py": file("a.py", 7)})
    made.commit("", {"a.py": file("a.py", 8)})
    made.commit("Say it at length " + "x" * 2_000_000, {"a.py": file("a.py", 9)})
    made.commit(
        f"[core] Fix the sum (#12)\n\nBy {AUTHOR}, see ada@example.org.\n\n"
        f"Fixes: #12\nSigned-off-by: {AUTHOR} <ada@example.org>\n",
        {"a.py": file("a.py", 10)},
    )
    made.commit("Set a date before all dates", {"a.py": file("a.py", 11)}, date=10**15)
    return made


def simple(folder: Path, message: str = "Return two instead of one", **made: str) -> Path:
    """Make a repository with a licence and one edit."""
    history = MadeHistory()
    history.commit("Begin with a module", {"LICENSE": MIT, "a.py": b"def f():\n    return 1\n"})
    history.commit(message, {"a.py": b"def f():\n    return 2\n"})
    return history.write(folder, **made)  # type: ignore[arg-type]


def lay_traps(repository: Path, trace: Path) -> None:
    """Configure whatever git may run in a bare repository such that it leaves a trace.

    Also replace a blob, and graft a commit, so that a reader who trusts either reads other text.
    """
    script = repository / "trap"
    script.write_text(f"#!/bin/sh\necho $0 $@ >>{trace}\nexit 1\n")
    script.chmod(0o755)
    (repository / "info" / "attributes").write_text("* diff=trap filter=trap\n")
    for name in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor"):
        (repository / "hooks").mkdir(exist_ok=True)
        script.with_name("hooks").joinpath(name).write_bytes(script.read_bytes())
        (repository / "hooks" / name).chmod(0o755)
    settings = ("diff.trap.textconv", "diff.trap.command", "diff.external", "filter.trap.clean",
        "filter.trap.smudge", "filter.trap.process", "core.fsmonitor", "core.pager", "pager.log",
        "gpg.program", "gpg.ssh.program", "core.sshCommand", "core.gitProxy", "core.editor",
        "core.alternateRefsCommand", "remote.origin.uploadpack", "credential.helper",
        "alias.log", "alias.cat-file")  # fmt: skip
    for name in settings:
        git("config", name, f"!{script}" if name.startswith("alias") else script, cwd=repository)
    for name, value in {
        "log.showSignature": "true",
        "log.follow": "true",
        "log.diffMerges": "first-parent",
        "diff.renames": "copies",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{script}",
        "protocol.ext.allow": "always",
        "core.repositoryFormatVersion": "1",
    }.items():
        git("config", name, value, cwd=repository)


def files_of(folder: Path) -> dict[str, tuple[str, int]]:
    """Return digest and time of change of each file, and each folder's, to see any change."""
    return {
        path.relative_to(folder).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
    }
