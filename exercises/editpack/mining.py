"""``mine``: rows of edits from the commits of local repositories, and why other files are none.

A row is one modified ``.py`` file of a non-merge commit whose message is an instruction. Without
rename detection a rename is a deletion and an addition, so it is left out.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fnmatch import translate
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import AfterValidator, Field
from rapidfuzz.distance import Indel

from bench.selection import check_date, in_period
from core.errors import UserError
from core.git import git
from core.plaintext import one_line
from core.settings import CommandLine, Commas, Section, WrongValueError, command
from exercises.editpack.files import DroppedFile, OutFile, Step
from exercises.editpack.history import (
    LINK,
    MODIFIED,
    REGULAR,
    RETYPED,
    SUBMODULE,
    CommitFacts,
    FileChange,
    GitHistory,
    GitObject,
    HistoryReader,
    entries_of_tree,
    open_history,
    reading,
)
from exercises.editpack.licenses import (
    PERMISSIVE,
    FoundLicense,
    found_license,
    is_license_file,
    known_ids,
)
from exercises.editpack.messages import (
    Instruction,
    MessageStyle,
    RowFault,
    instruction_of,
    read_verbs,
)
from exercises.editpack.rows import (
    INSTRUCTION,
    NEW,
    OLD,
    DroppedRow,
    EditRow,
    with_content,
)

LONGEST_SIDE = 50_000
"""Characters; CommitPackFT's limit of the old side, here of both."""
# A character has at most four bytes in UTF-8.
_LONGEST_BLOB = 4 * LONGEST_SIDE
_LONGEST_TREE, _LONGEST_LICENSE, _MOST_LICENSES = 16 << 20, 1 << 20, 20
_PYTHON = "python"
ANY_LICENSE = "any"
GENERATED = (
    "*_pb2.py", "*_pb2_grpc.py", "*_rc.py", "*_generated.py", "_version.py", "versioneer.py",
    "parsetab.py", "lextab.py", "generated", "_generated", "__generated__", "*/migrations/0*.py",
)  # fmt: skip
VENDORED = (
    "vendor", "vendored", "_vendor", "_vendored", "third_party", "third-party", "thirdparty",
    "3rdparty", "extern", "externals", "bundled", "node_modules", "site-packages",
    "dist-packages", ".venv", "venv", "ez_setup.py", "distribute_setup.py", "get-pip.py",
    "*/packages/urllib3/*", "*/packages/chardet/*",
)  # fmt: skip


def _check_licenses(ids: tuple[str, ...]) -> tuple[str, ...]:
    unknown = sorted(set(ids) - known_ids() - {ANY_LICENSE})
    if unknown:
        known = ", ".join(sorted(known_ids()))
        raise WrongValueError(
            f"{', '.join(unknown)} cannot be found; these can: {known}"
        )
    return ids


TextList = Annotated[tuple[str, ...], Commas]


class MiningRules(Section):
    """Which commits and files become rows."""

    refs: TextList = Field(
        default=(),
        description="Follow these commits, or references by pattern (refs/tags/*); by default "
        "HEAD.",
    )
    since: str = Field(
        default="",
        description="Take commits with an author date from this day or month on (UTC).",
    )
    until: str = Field(
        default="",
        description="Take commits with an author date up to this day or month (UTC).",
    )
    message: MessageStyle = Field(
        default=MessageStyle.PAPER,
        description="Judge messages by the rules of Commits2023FT (paper) or CommitPackFT (code).",
    )
    verbs: Path | None = Field(
        default=None, description="Read the verbs from this file, one a line."
    )
    one_file: Literal["largest", "first", "all"] = Field(
        default="largest",
        description="Take this file of a commit: the largest edit, the first by name, or all.",
    )
    paths: TextList = Field(default=(), description="Take only these paths (globs).")
    generated: TextList = Field(
        default=GENERATED,
        description="Leave out these files and folders as generated (globs).",
    )
    vendored: TextList = Field(
        default=VENDORED,
        description="Leave out these files and folders as those of others (globs).",
    )
    licenses: Annotated[TextList, AfterValidator(_check_licenses)] = Field(
        default=PERMISSIVE,
        description="Take repositories with these licenses (SPDX ids), or with any or none (any).",
    )

    @cached_property
    def known_verbs(self) -> frozenset[str]:
        return read_verbs(self.verbs)

    def instruction_of(self, commit: CommitFacts) -> Instruction | RowFault:
        day = utc(commit.seconds)[:10]
        if (self.since or self.until) and not (
            day and in_period(day, self.since, self.until)
        ):
            return RowFault("date", day)
        message = _decoded(commit.message)
        if message is None:
            return RowFault("message-encoding")
        names = [name.decode("utf-8", "replace") for name in commit.names]
        return instruction_of(message, names, self.message, self.known_verbs)

    def fault_of_path(self, path: str) -> RowFault | None:
        if self.paths and not fits(self.paths, path):
            return RowFault("path")
        if fits(self.generated, path):
            return RowFault("generated")
        return RowFault("vendored") if fits(self.vendored, path) else None


class MineSettings(Section):
    """All that ``mine`` is told."""

    mine: MiningRules = MiningRules()


@command(MineSettings, ())
def main(
    line: CommandLine[MineSettings],
    repositories: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REPO", help="Local repositories: top folders, or bare ones."
        ),
    ] = None,
    out: OutFile = None,
    dropped: DroppedFile = None,
) -> None:
    """Read edits of Python files from the commits of repositories, which are only read."""
    settings = line.load()
    names = repositories or []
    if line.prints(settings, " ".join(names)):
        return
    rules = settings.mine
    check_date("mine.since", rules.since)
    check_date("mine.until", rules.until)
    verbs = "\n".join(sorted(rules.known_verbs)).encode()
    miners = _open_repositories(list(map(Path, names)), rules)
    permitted = None if ANY_LICENSE in rules.licenses else rules.licenses
    options = {
        "ref": rules.refs or ["HEAD"],
        "since": rules.since,
        "until": rules.until,
        "message": rules.message.value,
        "verbs": {
            "number": len(rules.known_verbs),
            "sha256": sha256(verbs).hexdigest(),
        },
        "one_file": rules.one_file,
        "path": rules.paths,
        "generated": rules.generated,
        "vendored": rules.vendored,
        "licenses": permitted,
    }

    def mine_all() -> Iterator[EditRow | DroppedRow]:
        for miner in miners:
            yield from miner.rows(permitted)
        if all(miner.left_out for miner in miners):
            reasons = [f"{one_line(miner.name)}: {miner.left_out}" for miner in miners]
            raise UserError(f"no repository is left ({'; '.join(reasons)})")

    def details() -> dict[str, Any]:
        totals = {
            key: sum(getattr(miner.counts, key) for miner in miners) for key in _TOTALS
        }
        version = git("--version", cwd=Path("/")).decode().split()[-1]
        return {
            "git": version,
            **totals,
            "repositories": [miner.record() for miner in miners],
        }

    step = Step("mine", (), out, dropped, options, ("rapidfuzz",), details)
    step.write(mine_all())
    for miner in miners:
        if miner.left_out:
            print(
                f"left out: {one_line(miner.name)}: {miner.left_out}", file=sys.stderr
            )


def _open_repositories(
    paths: Sequence[Path], rules: MiningRules
) -> list[RepositoryMiner]:
    if not paths:
        raise UserError("no repository given; name local ones")
    histories = [open_history(path, rules.refs) for path in paths]
    folders = [history.objects.resolve() for history in histories]
    for number, folder in enumerate(folders):
        if folder in folders[:number]:
            raise UserError(
                f"{paths[number]} is given twice; name each repository once"
            )
    places = [path.expanduser().resolve() for path in paths]
    names = [_name_of(place) for place in places]
    taken: set[bytes] = set()
    return [
        RepositoryMiner(
            f"{place.parent.name}/{name}" if names.count(name) > 1 else name,
            history,
            rules,
            taken,
        )
        for place, name, history in zip(places, names, histories, strict=True)
    ]


def _name_of(path: Path) -> str:
    path = path.parent if path.name == ".git" else path
    if path.name == "repo" and "+" in path.parent.name:
        return path.parent.name.replace("+", "/", 1)
    name = path.name.removesuffix(".git")
    return name.replace("__", "/", 1) if name != path.name else name


def fits(patterns: tuple[str, ...], path: str) -> bool:
    """Return whether one of the globs fits a path.

    One without ``/`` fits a file or a folder at any depth, others the whole path. ``*`` also
    stands for ``/``, as in git, and a leading ``*/`` also for nothing.
    """
    names, paths = _compiled(patterns)
    return bool(any(map(names.match, path.split("/"))) or paths.match(f"/{path}"))


@cache
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    names = [pattern for pattern in patterns if "/" not in pattern]
    paths = [pattern for pattern in patterns if "/" in pattern]
    whole = [p if p.startswith(("/", "*/")) else f"/{p}" for p in paths]
    # Nothing matches an empty choice.
    either, other = (
        "|".join(map(translate, some)) or r"(?!)" for some in (names, whole)
    )
    return re.compile(either), re.compile(other)


@dataclass
class MinedCounts:
    """What was found in a repository: commits, and rows kept and dropped."""

    commits: int = 0
    modify_python: int = 0
    with_instruction: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


_TOTALS = ("commits", "modify_python", "with_instruction")


@dataclass(frozen=True)
class _Edit:
    change: FileChange
    path: str
    old: str
    new: str
    instruction: Instruction

    @property
    def rank(self) -> tuple[int, bytes]:
        # The smallest number of lines that are deleted and inserted.
        changed = Indel.distance(self.old.splitlines(), self.new.splitlines())
        return -changed, self.change.path


@dataclass
class RepositoryMiner:
    """Mines one repository.

    Attributes:
        taken: the pairs of blobs that are rows already, also of other repositories; it grows.
        left_out: why nothing of the repository is taken; empty for one that is mined.
    """

    name: str
    history: GitHistory
    rules: MiningRules
    taken: set[bytes]
    found: FoundLicense = field(default_factory=FoundLicense)
    left_out: str = ""
    counts: MinedCounts = field(default_factory=MinedCounts)

    def record(self) -> dict[str, Any]:
        facts = {"name": self.name, "tips": list(self.history.tips)}
        facts |= {
            "license": self.found.expression,
            "license_files": list(self.found.files),
        }
        if self.left_out:
            return facts | {"left_out": self.left_out}
        return facts | {**vars(self.counts), "dropped": dict(self.counts.dropped)}

    def rows(self, licenses: tuple[str, ...] | None) -> Iterator[EditRow | DroppedRow]:
        """Yield each modified Python file of the history, as a row or as dropped.

        Nothing without commits, or without one of the ``licenses``; None permits any.
        """
        if not self.history.tips:
            self.left_out = "it has no commits"
            return
        with reading(self.history) as reader:
            self.found = _license_in(self.history, reader)
            if licenses is not None and not self.found.is_among(licenses):
                where = ", ".join(map(one_line, self.found.files))
                found = (
                    f"{self.found.expression} in {where}"
                    if where
                    else "no license file"
                )
                self.left_out = (
                    f"{found}; permit it by mine.licenses, or set mine.licenses=any"
                )
                return
            for commit, changes in reader.commits():
                self.counts.commits += 1
                for result in self._of_commit(
                    commit, self._edits(reader, commit, changes)
                ):
                    if isinstance(result, DroppedRow):
                        self.counts.dropped[result.rule] += 1
                    else:
                        self.counts.kept += 1
                    yield result

    def _of_commit(
        self, commit: CommitFacts, edits: Iterable[_Edit | DroppedRow]
    ) -> Iterator[EditRow | DroppedRow]:
        best: _Edit | None = None
        for edit in edits:
            if isinstance(edit, DroppedRow):
                yield edit
            elif best is None:
                best = edit
            elif self.rules.one_file == "all":
                yield self._row(commit, best)
                best = edit
            else:
                # Only the best so far is held: a commit may have any number of files.
                larger = self.rules.one_file == "largest" and edit.rank < best.rank
                yield self._dropped(
                    commit, (best if larger else edit).change, RowFault("other")
                )
                best = edit if larger else best
        if best is not None:
            yield self._row(commit, best)

    def _edits(
        self, reader: HistoryReader, commit: CommitFacts, changes: Iterator[FileChange]
    ) -> Iterator[_Edit | DroppedRow]:
        instruction: Instruction | RowFault | None = None
        for change in changes:
            kind = _kind(change)
            if kind == _PYTHON:
                if instruction is None:
                    self.counts.modify_python += 1
                    instruction = self.rules.instruction_of(commit)
                    self.counts.with_instruction += isinstance(instruction, Instruction)
                edit = self._edit(reader, instruction, change)
                yield (
                    self._dropped(commit, change, edit)
                    if isinstance(edit, RowFault)
                    else edit
                )
            elif kind:
                yield self._dropped(commit, change, RowFault(kind))

    def _edit(
        self,
        reader: HistoryReader,
        instruction: Instruction | RowFault,
        change: FileChange,
    ) -> _Edit | RowFault:
        if isinstance(instruction, RowFault):
            return instruction
        path = _decoded(change.path)
        if path is None:
            return RowFault("encoding", "the path is not UTF-8")
        if fault := self.rules.fault_of_path(path):
            return fault
        if change.old == change.new:
            return RowFault("unchanged", f"mode {change.old_mode} to {change.new_mode}")
        sides = reader.objects((change.old, change.new), _LONGEST_BLOB)
        old, new = map(_text, sides, ("old", "new"))
        if isinstance(old, RowFault):
            return old
        if isinstance(new, RowFault):
            return new
        if old.replace("\r\n", "\n") == new.replace("\r\n", "\n"):
            return RowFault("unchanged", "line ends")
        return _Edit(change, path, old, new, instruction)

    def _row(self, commit: CommitFacts, edit: _Edit) -> EditRow | DroppedRow:
        pair = bytes.fromhex(edit.change.old + edit.change.new)
        if pair in self.taken:
            return self._dropped(commit, edit.change, RowFault("repeated"))
        self.taken.add(pair)
        return with_content(
            {
                "commit": commit.name,
                "old_file": edit.path,
                "new_file": edit.path,
                OLD: edit.old,
                NEW: edit.new,
                "subject": edit.instruction.subject,
                "message": edit.instruction.message,
                "lang": "Python",
                "license": self.found.expression,
                "repos": self.name,
                "author_date": utc(commit.seconds),
                INSTRUCTION: edit.instruction.text,
            }
        )

    def _dropped(
        self, commit: CommitFacts, change: FileChange, fault: RowFault
    ) -> DroppedRow:
        path = change.path.decode("utf-8", "backslashreplace")
        row = {
            "commit": commit.name,
            "old_file": path,
            "new_file": path,
            "repos": self.name,
        }
        return DroppedRow(row, fault.rule, fault.detail)


def _license_in(history: GitHistory, reader: HistoryReader) -> FoundLicense:
    (top,) = reader.objects((f"{history.tips[0]}^{{tree}}",), _LONGEST_TREE)
    texts: dict[str, str] = {}
    for mode, raw, blob in entries_of_tree(top.data or b"", history.hash_name):
        name = raw.decode("utf-8", "backslashreplace")
        if mode in REGULAR and is_license_file(name) and len(texts) < _MOST_LICENSES:
            (found,) = reader.objects((blob,), _LONGEST_LICENSE)
            texts[name] = (found.data or b"").decode("utf-8", "replace")
    return found_license(texts)


def _text(found: GitObject, side: str) -> str | RowFault:
    if found.kind != "blob":
        return RowFault("missing", f"{side} side is {found.kind}")
    if found.data is None:
        return RowFault("long", f"{side} side, {found.size:,} bytes")
    text = _decoded(found.data)
    if text is None:
        return RowFault("encoding", f"{side} side is not UTF-8")
    if len(text) > LONGEST_SIDE:
        return RowFault("long", f"{side} side, {len(text):,} characters")
    return text


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def utc(seconds: bytes) -> str:
    """Return an author date in UTC, ``2013-05-06T12:34:56Z``; empty if there is no such date.

    The author's time zone, which tells of the author, is not kept.
    """
    try:
        date = datetime.fromtimestamp(int(seconds), timezone.utc)
    except (ValueError, OverflowError, OSError):
        return ""
    return date.isoformat().replace("+00:00", "Z")


def _kind(change: FileChange) -> str:
    """Return ``python``, why another file is counted as left out, or nothing."""
    modes = {change.old_mode, change.new_mode}
    if change.status not in (MODIFIED, RETYPED):
        return ""
    if SUBMODULE in modes:
        return "submodule"
    if not change.path.endswith(b".py"):
        return ""
    if LINK in modes:
        return "symlink"
    return _PYTHON if modes <= REGULAR else ""
