"""``mine``: rows of edits from the commits of local repositories, and why other files are none.

A row is one modified ``.py`` file of a non-merge commit whose message is an instruction. Without
rename detection a rename is a deletion and an addition, so it is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import AfterValidator
from rapidfuzz.distance import Indel

from swe_retry.kit import (
    CommitFacts,
    FileChange,
    GitHistory,
    GitObject,
    HistoryReader,
    Section,
    TextList,
    UserError,
    WrongValueError,
    ask_repository,
    check_date,
    git,
    in_period,
    one_line,
    open_history,
    reading,
    settings_command,
    sha256_of,
    utc_time,
)
from swe_retry_exercises.editpack.files import DroppedFile, OutFile, write_rows
from swe_retry_exercises.editpack.licenses import (
    PERMISSIVE,
    UNKNOWN,
    is_license_file,
    is_permitted,
    known_ids,
    license_expression,
)
from swe_retry_exercises.editpack.messages import (
    MessageStyle,
    judge_message,
    read_verbs,
)
from swe_retry_exercises.editpack.rows import (
    NEW,
    OLD,
    DropReason,
    EditRow,
    JudgedRow,
    reason,
    with_content,
)
from swe_retry_exercises.values import JsonObject, say_aside

MAX_SIDE = 50_000
"""Characters; CommitPackFT's limit of the old side, here of both."""
# A character has at most four bytes in UTF-8.
_MAX_BLOB = 4 * MAX_SIDE
_MAX_LICENSE = 1 << 20
_MAX_LICENSES = 20
_REGULAR = frozenset({"100644", "100755", "100664"})
_LINK = "120000"
_SUBMODULE = "160000"
_PLACE = ("commit", "old_file", "new_file", "repos")
ANY_LICENSE = "any"
_GENERATED = """
*_pb2.py *_pb2_grpc.py *_rc.py *_generated.py _version.py versioneer.py parsetab.py lextab.py
generated _generated __generated__ */migrations/0*.py
"""
_VENDORED = """
vendor vendored _vendor _vendored third_party third-party thirdparty 3rdparty extern externals
bundled node_modules site-packages dist-packages .venv venv ez_setup.py distribute_setup.py
get-pip.py */packages/urllib3/* */packages/chardet/*
"""
GENERATED = tuple(_GENERATED.split())
VENDORED = tuple(_VENDORED.split())


def _check_licenses(ids: tuple[str, ...]) -> tuple[str, ...]:
    unknown = sorted(set(ids) - known_ids() - {ANY_LICENSE})
    if unknown:
        possible = ", ".join(sorted(known_ids()))
        raise WrongValueError(
            f"{', '.join(unknown)} cannot be found; these can: {possible}"
        )
    return ids


class MiningRules(Section):
    """Which commits and files become rows."""

    refs: TextList = ()
    """Follow these commits, or references by pattern (refs/tags/*); by default HEAD."""

    since: str = ""
    """Take commits with an author date from this day or month on (UTC)."""

    until: str = ""
    """Take commits with an author date up to this day or month (UTC)."""

    message: MessageStyle = MessageStyle.PAPER
    """Judge messages by the rules of Commits2023FT (paper) or CommitPackFT (code)."""

    verbs: Path | None = None
    """Read the verbs from this file, one a line."""

    one_file: Literal["largest", "first", "all"] = "largest"
    """Take this file of a commit: the largest edit, the first by name, or all."""

    paths: TextList = ()
    """Take only these paths (globs)."""

    generated: TextList = GENERATED
    """Leave out these files and folders as generated (globs)."""

    vendored: TextList = VENDORED
    """Leave out these files and folders as those of others (globs)."""

    licenses: Annotated[TextList, AfterValidator(_check_licenses)] = PERMISSIVE
    """Take repositories with these licenses (SPDX ids), or with any or none (any)."""

    @cached_property
    def known_verbs(self) -> frozenset[str]:
        return read_verbs(self.verbs)

    def judge_commit(self, commit: CommitFacts) -> JudgedRow:
        """Return instruction, subject and message, or why the commit gives no row."""
        day = utc_time(commit.seconds)[:10]
        is_dated = day and in_period(day, self.since, self.until)
        if not is_dated and (self.since or self.until):
            return {}, reason("date", day)
        message = _decoded(commit.message)
        if message is None:
            return {}, reason("message-encoding")
        people = (commit.author, commit.committer)
        names = [name.decode("utf-8", "replace") for name in people]
        return judge_message(message, names, self.message, self.known_verbs)

    def fault_of_path(self, path: str) -> DropReason | None:
        if self.paths and not fits(self.paths, path):
            return reason("path")
        if fits(self.generated, path):
            return reason("generated")
        if fits(self.vendored, path):
            return reason("vendored")
        return None


class MineSettings(Section):
    """All that ``mine`` is told."""

    mine: MiningRules = MiningRules()


@settings_command(MineSettings, "repositories")
def main(
    settings: MineSettings,
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
    rules = settings.mine
    check_date("mine.since", rules.since)
    check_date("mine.until", rules.until)
    verbs = "\n".join(sorted(rules.known_verbs))
    options = {
        **rules.model_dump(mode="json"),
        "verbs": {"number": len(rules.known_verbs), "sha256": sha256_of(verbs)},
    }
    miners = _open_repositories(list(map(Path, repositories or ())), rules)

    def mine_all() -> Iterator[JudgedRow]:
        for miner in miners:
            yield from miner.rows()
        if all(miner.left_out for miner in miners):
            reasons = [f"{one_line(miner.name)}: {miner.left_out}" for miner in miners]
            raise UserError(f"no repository is left ({'; '.join(reasons)})")

    def details() -> JsonObject:
        output = git("--version", cwd=Path("/")).decode()
        version = output.split()[-1]
        records = [miner.record() for miner in miners]
        totals: Counter[str] = Counter()
        for miner in miners:
            totals.update(miner.counts)
        facts = {"git": version, **totals, "repositories": records}
        # The report has it anyway.
        del facts["kept"]
        return facts

    write_rows(
        "mine",
        mine_all(),
        out,
        dropped,
        options=options,
        packages=("rapidfuzz",),
        details=details,
    )
    for miner in miners:
        if miner.left_out:
            say_aside(f"left out: {one_line(miner.name)}: {miner.left_out}")


def _open_repositories(
    paths: Sequence[Path], rules: MiningRules
) -> list[RepositoryMiner]:
    if not paths:
        raise UserError("no repository given; name local ones")
    folders = [path.expanduser().resolve() for path in paths]
    names = list(map(_repository_name, folders))
    pairs: set[bytes] = set()
    miners = {}
    for path, folder, name in zip(paths, folders, names, strict=True):
        history = open_history(path)
        history = replace(history, tips=_find_tips(path, rules.refs))
        objects = history.objects.resolve()
        if objects in miners:
            raise UserError(f"{path} is given twice; name each repository once")
        if names.count(name) > 1:
            name = f"{folder.parent.name}/{name}"
        miners[objects] = RepositoryMiner(name, history, rules, pairs)
    return list(miners.values())


def _find_tips(path: Path, refs: Sequence[str]) -> tuple[str, ...]:
    """Return the commits that are named, or to which references of a pattern lead."""
    tips = []
    for ref in refs or ["HEAD"]:
        is_pattern = not set(ref).isdisjoint("*?[")
        commits = _commits_of(path, ref, is_pattern)
        if refs and not commits and not is_pattern:
            raise UserError(f"{path} has no commit {ref!r}; give another in mine.refs")
        tips += commits
    return tuple(dict.fromkeys(tips))


def _commits_of(path: Path, ref: str, is_pattern: bool) -> list[str]:
    if not is_pattern:
        if ref.startswith("-"):
            return []
        find = ("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        return ask_repository(path, *find).split()
    # Lines of an id and the kinds of what it is, or leads to.
    form = "--format=%(objectname) %(objecttype) %(*objecttype)"
    listing = ask_repository(path, "for-each-ref", form, "--", ref)
    commits = []
    for line in listing.splitlines():
        name, *kinds = line.split()
        if "commit" in kinds:
            commits.append(name)
    return commits


def _repository_name(path: Path) -> str:
    if path.name == ".git":
        path = path.parent
    if path.name == "repo" and "+" in path.parent.name:
        return path.parent.name.replace("+", "/", 1)
    if path.name.endswith(".git"):
        return path.name.removesuffix(".git").replace("__", "/", 1)
    return path.name


def fits(patterns: tuple[str, ...], path: str) -> bool:
    """Return whether one of the globs fits a path.

    One without ``/`` fits a file or a folder at any depth, others the whole path. ``*`` also
    stands for ``/``, as in git, and a leading ``*/`` also for nothing.
    """
    if _compiled_globs(patterns, True).match(f"/{path}"):
        return True
    return any(map(_compiled_globs(patterns, False).match, path.split("/")))


@cache
def _compiled_globs(patterns: tuple[str, ...], of_paths: bool) -> re.Pattern[str]:
    """Return what matches one of the globs of whole paths, or of names."""
    choices = []
    for pattern in patterns:
        if ("/" in pattern) == of_paths:
            if of_paths and not pattern.startswith(("/", "*/")):
                pattern = f"/{pattern}"
            choices.append(translate(pattern))
    # Nothing matches an empty choice.
    return re.compile("|".join(choices) or r"(?!)")


@dataclass
class RepositoryMiner:
    """Mines one repository.

    Attributes:
        pairs: hashes of both sides of the rows so far, also of other repositories; it grows.
        license: the ids of all licence files, as SPDX writes them.
        left_out: why nothing of the repository is taken; empty for one that is mined.
        dropped: files by the rule that caught them.
    """

    name: str
    history: GitHistory
    rules: MiningRules
    pairs: set[bytes]
    license: str = UNKNOWN
    license_files: list[str] = field(default_factory=list)
    left_out: str = ""
    counts: Counter[str] = field(
        default_factory=lambda: Counter(
            {"commits": 0, "modify_python": 0, "with_instruction": 0, "kept": 0}
        )
    )
    dropped: Counter[str] = field(default_factory=Counter)

    def record(self) -> JsonObject:
        """Return what a report says of the repository."""
        record = {
            "name": self.name,
            "tips": self.history.tips,
            "license": self.license,
            "license_files": self.license_files,
        }
        if self.left_out:
            return {**record, "left_out": self.left_out}
        return {**record, **self.counts, "dropped": self.dropped}

    def rows(self) -> Iterator[JudgedRow]:
        """Yield each modified Python file of the history.

        Nothing without commits, or without one of the permitted licences.
        """
        if not self.history.tips:
            self.left_out = "it has no commits"
            return
        with reading(self.history) as reader:
            self._read_license(reader)
            if self.left_out:
                return
            for commit, changes in reader.commits("--reverse", "--no-merges"):
                self.counts["commits"] += 1
                for row, why in self._choice(self._edits(reader, commit, changes)):
                    if why is None:
                        self.counts["kept"] += 1
                        yield with_content(row), None
                    else:
                        self.dropped[why["rule"]] += 1
                        yield {key: row[key] for key in _PLACE}, why

    def _read_license(self, reader: HistoryReader) -> None:
        texts = {}
        listing = ("ls-tree", "-z", "--full-tree", self.history.tips[0])
        for entry in reader.output(*listing):
            facts, _, name = entry.decode("utf-8", "backslashreplace").partition("\t")
            mode, _, blob = facts.split(" ")
            if mode in _REGULAR and is_license_file(name):
                (file,) = reader.objects((blob,), _MAX_LICENSE)
                texts[name] = (file.data or b"").decode("utf-8", "replace")
            if len(texts) == _MAX_LICENSES:
                break
        self.license = license_expression(texts.values())
        self.license_files = sorted(texts)
        permitted = self.rules.licenses
        if ANY_LICENSE in permitted or is_permitted(self.license, permitted):
            return
        problem = "no license file"
        if texts:
            files = ", ".join(map(one_line, self.license_files))
            problem = f"{self.license} in {files}"
        self.left_out = (
            f"{problem}; permit it by mine.licenses, or set mine.licenses=any"
        )

    def _choice(self, edits: Iterable[JudgedRow]) -> Iterator[JudgedRow]:
        """Yield the files of a commit, of which ``mine.one_file`` takes one."""
        best: EditRow | None = None
        for row, why in edits:
            if why:
                yield row, why
            elif best is None:
                best = row
            elif self.rules.one_file == "all":
                yield best, self._repetition(best)
                best = row
            else:
                # Only the best so far is held: a commit may have any number of files.
                if self.rules.one_file == "largest" and _rank(row) < _rank(best):
                    row, best = best, row
                yield row, reason("other")
        if best is not None:
            yield best, self._repetition(best)

    def _repetition(self, row: EditRow) -> DropReason | None:
        sides = f"{len(row[OLD])} {row[OLD]}{row[NEW]}"
        pair = sha256(sides.encode()).digest()
        if pair in self.pairs:
            return reason("repeated")
        self.pairs.add(pair)
        return None

    def _edits(
        self, reader: HistoryReader, commit: CommitFacts, changes: Iterator[FileChange]
    ) -> Iterator[JudgedRow]:
        """Yield the files of a commit as rows, their sides filled in if they are edits."""
        message: JudgedRow | None = None
        for change in changes:
            rule = _rule_of_modes(change)
            if rule is None:
                continue
            why = reason(rule) if rule else None
            columns: EditRow = {}
            if why is None:
                if message is None:
                    message = self.rules.judge_commit(commit)
                    self.counts["modify_python"] += 1
                    self.counts["with_instruction"] += message[1] is None
                columns, why = message
            path = change.path.decode("utf-8", "backslashreplace")
            row = {
                "commit": commit.name,
                "old_file": path,
                "new_file": path,
                OLD: "",
                NEW: "",
                "subject": "",
                "message": "",
                "lang": "Python",
                "license": self.license,
                "repos": self.name,
                "author_date": utc_time(commit.seconds),
                **columns,
            }
            yield row, why or self._fault_of_file(reader, change, row)

    def _fault_of_file(
        self, reader: HistoryReader, change: FileChange, row: EditRow
    ) -> DropReason | None:
        """Fill in both sides of a row, or return why it is none."""
        if _decoded(change.path) is None:
            return reason("encoding", "the path is not UTF-8")
        why = self.rules.fault_of_path(row["new_file"])
        if why:
            return why
        if change.old == change.new:
            return reason("unchanged", f"mode {change.old_mode} to {change.new_mode}")
        sides = reader.objects((change.old, change.new), _MAX_BLOB)
        for side, blob in zip(("old", "new"), sides, strict=True):
            why = _fault_of_blob(blob, f"{side} side")
            if why:
                return why
            row[f"{side}_contents"] = (blob.data or b"").decode()
        if row[OLD].replace("\r\n", "\n") == row[NEW].replace("\r\n", "\n"):
            return reason("unchanged", "line ends")
        return None


def _rule_of_modes(change: FileChange) -> str | None:
    """Return the rule that a file breaks by its modes, empty if none; None if it is no Python."""
    modes = {change.old_mode, change.new_mode}
    # Modified, or of another type than before.
    if change.status not in ("M", "T"):
        return None
    if _SUBMODULE in modes:
        return "submodule"
    if not change.path.endswith(b".py"):
        return None
    if _LINK in modes:
        return "symlink"
    return "" if modes <= _REGULAR else None


def _fault_of_blob(blob: GitObject, side: str) -> DropReason | None:
    if blob.kind != "blob":
        return reason("missing", f"{side} is {blob.kind}")
    if blob.data is None:
        return reason("long", f"{side}, {blob.size:,} bytes")
    text = _decoded(blob.data)
    if text is None:
        return reason("encoding", f"{side} is not UTF-8")
    if len(text) > MAX_SIDE:
        return reason("long", f"{side}, {len(text):,} characters")
    return None


def _rank(row: EditRow) -> tuple[int, bytes]:
    # The smallest number of lines that are deleted and inserted.
    old_lines = row[OLD].splitlines()
    new_lines = row[NEW].splitlines()
    changed = Indel.distance(old_lines, new_lines)
    return -changed, row["new_file"].encode()


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
