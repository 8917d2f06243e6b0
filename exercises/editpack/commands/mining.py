"""``mine``: rows of edits from the commits of local repositories."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import typer

from bench.cli.selection import check_date, since_option, until_option
from core.errors import UserError
from core.git import git
from core.options import built, command, option, option_group
from core.plaintext import one_line
from exercises.editpack.files import RowFiles, Step
from exercises.editpack.history.licenses import (
    PERMISSIVE,
    FoundLicense,
    found_license,
    is_license_file,
    known_ids,
)
from exercises.editpack.history.objects import (
    REGULAR,
    GitHistory,
    HistoryReader,
    entries_of_tree,
    open_history,
    reading,
)
from exercises.editpack.history.paths import GENERATED, VENDORED, PathPatterns
from exercises.editpack.messages import MessageStyle, read_verbs
from exercises.editpack.miner import MinedCounts, MineRules, OneFile, RepositoryMiner
from exercises.editpack.rows import DroppedRow, Row

_MESSAGES, _PATHS, _LICENSES = "Messages", "Paths", "Licenses"
_LONGEST_TREE, _LONGEST_LICENSE, _MOST_LICENSES = 16 << 20, 1 << 20, 20


@option_group
class MineAsked:
    files: RowFiles
    repositories: tuple[Path, ...] = option(
        (), "Local repositories: top folders, or bare ones.", "repo", argument=True
    )
    refs: tuple[str, ...] = option(
        (), "Follow this commit, or references by pattern (refs/tags/*); repeat. Default: HEAD.",
        "--ref",
    )  # fmt: skip
    since: str = since_option("Author date from this day or month on (UTC).")
    until: str = until_option("Author date up to this day or month (UTC).")
    style: MessageStyle = option(
        MessageStyle.PAPER, "Whose rules messages are judged by.", "--message", panel=_MESSAGES
    )
    verbs: Path | None = option(
        None, "Verbs, one a line, instead of ours.", "--verbs", panel=_MESSAGES
    )
    one_file: OneFile = option(
        OneFile.LARGEST, "Which files of a commit: by lines changed, by name, or all.",
        "--one-file", panel=_PATHS,
    )  # fmt: skip
    paths: tuple[str, ...] = option(
        (), "Take only these paths (glob); repeat.", "--path", panel=_PATHS
    )
    generated: tuple[str, ...] = option(
        GENERATED, f"Generated files or folders (glob); repeat. Default: {' '.join(GENERATED)}",
        "--generated", panel=_PATHS,
    )  # fmt: skip
    vendored: tuple[str, ...] = option(
        VENDORED, f"Files or folders of others (glob); repeat. Default: {' '.join(VENDORED)}",
        "--vendored", panel=_PATHS,
    )  # fmt: skip
    licenses: tuple[str, ...] = option(
        PERMISSIVE, "SPDX ids that are permitted: a comma list.", "--licenses", panel=_LICENSES,
        given=str, shown=",".join(PERMISSIVE), read=lambda _, text, __: _license_ids(text),
    )  # fmt: skip
    any_license: bool = option(
        False, "Take repositories with any license, or none.", "--any-license", panel=_LICENSES
    )

    def rules(self) -> MineRules:
        for name, value in (("--since", self.since), ("--until", self.until)):
            check_date(name, value)
        return MineRules(
            self.style, read_verbs(self.verbs), self.one_file, self.since, self.until,
            PathPatterns(self.paths), PathPatterns(self.generated), PathPatterns(self.vendored),
        )  # fmt: skip


def _license_ids(text: str) -> tuple[str, ...]:
    ids = tuple(filter(None, (name.strip() for name in text.split(","))))
    if unknown := sorted({*ids} - known_ids()):
        known = ", ".join(sorted(known_ids()))
        raise UserError(f"--licenses {', '.join(unknown)} cannot be found; these can: {known}")
    return ids


@dataclass
class _Mine:
    name: str
    history: GitHistory
    found: FoundLicense = field(default_factory=FoundLicense)
    left_out: str = ""
    counts: MinedCounts = field(default_factory=MinedCounts)

    def record(self) -> dict[str, Any]:
        facts = {"name": self.name, "tips": list(self.history.tips)}
        facts |= {"license": self.found.expression, "license_files": list(self.found.files)}
        return facts | ({"left_out": self.left_out} if self.left_out else self.counts.record())


@command(MineAsked)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Read edits of Python files from the commits of repositories, which are only read."""
    asked = built(MineAsked, values)
    rules = asked.rules()
    mines = _opened(asked.repositories, asked.refs)
    step = Step(
        "mine", (), asked.files, _options(asked, rules), ("rapidfuzz",), lambda: _details(mines)
    )
    step.write(_mined(asked, rules, mines))
    for mine in mines:
        if mine.left_out:
            print(f"left out: {one_line(mine.name)}: {mine.left_out}", file=sys.stderr)


def _opened(paths: Sequence[Path], refs: Sequence[str]) -> list[_Mine]:
    if not paths:
        raise UserError("no repository given; name local ones")
    histories = [open_history(path, refs) for path in paths]
    folders = [history.objects.resolve() for history in histories]
    for number, folder in enumerate(folders):
        if folder in folders[:number]:
            raise UserError(f"{paths[number]} is given twice; name each repository once")
    places = [path.expanduser().resolve() for path in paths]
    names = [_name_of(place) for place in places]
    return [
        _Mine(f"{place.parent.name}/{name}" if names.count(name) > 1 else name, history)
        for place, name, history in zip(places, names, histories, strict=True)
    ]


def _name_of(path: Path) -> str:
    path = path.parent if path.name == ".git" else path
    if path.name == "repo" and "+" in path.parent.name:
        return path.parent.name.replace("+", "/", 1)
    name = path.name.removesuffix(".git")
    return name.replace("__", "/", 1) if name != path.name else name


def _mined(
    asked: MineAsked, rules: MineRules, mines: Sequence[_Mine]
) -> Iterator[Row | DroppedRow]:
    taken: set[bytes] = set()
    for mine in mines:
        with reading(mine.history) as reader:
            mine.found = _license_in(mine.history, reader)
            mine.left_out = _left_out(mine, asked)
            if not mine.left_out:
                miner = RepositoryMiner(mine.name, mine.found.expression, reader, rules, taken)
                mine.counts = miner.counts
                yield from miner.rows()
    if all(mine.left_out for mine in mines):
        words = "; ".join(f"{one_line(mine.name)}: {mine.left_out}" for mine in mines)
        raise UserError(f"no repository is left ({words})")


def _left_out(mine: _Mine, asked: MineAsked) -> str:
    if not mine.history.tips:
        return "it has no commits"
    if asked.any_license or mine.found.is_among(asked.licenses):
        return ""
    where = f" in {', '.join(map(one_line, mine.found.files))}" if mine.found.files else ""
    found = f"{mine.found.expression}{where}" if where else "no license file"
    return f"{found}; permit it by --licenses, or give --any-license"


def _license_in(history: GitHistory, reader: HistoryReader) -> FoundLicense:
    if not history.tips:
        return FoundLicense()
    (top,) = reader.objects((f"{history.tips[0]}^{{tree}}",), _LONGEST_TREE)
    texts: dict[str, str] = {}
    for mode, raw, blob in entries_of_tree(top.data or b"", history.hash_name):
        name = raw.decode("utf-8", "backslashreplace")
        if mode in REGULAR and is_license_file(name) and len(texts) < _MOST_LICENSES:
            (found,) = reader.objects((blob,), _LONGEST_LICENSE)
            texts[name] = (found.data or b"").decode("utf-8", "replace")
    return found_license(texts)


def _options(asked: MineAsked, rules: MineRules) -> Mapping[str, Any]:
    verbs = "\n".join(sorted(rules.verbs)).encode()
    return {
        "ref": list(asked.refs) or ["HEAD"],
        "since": asked.since,
        "until": asked.until,
        "message": asked.style.value,
        "verbs": {"number": len(rules.verbs), "sha256": sha256(verbs).hexdigest()},
        "one_file": asked.one_file.value,
        "path": list(asked.paths),
        "generated": list(rules.generated.patterns),
        "vendored": list(rules.vendored.patterns),
        "licenses": None if asked.any_license else list(asked.licenses),
    }


def _details(mines: Sequence[_Mine]) -> Mapping[str, Any]:
    counts = [mine.counts for mine in mines]
    return {
        "git": git("--version", cwd=Path("/")).decode().split()[-1],
        "commits": sum(count.commits for count in counts),
        "modify_python": sum(count.modify_python for count in counts),
        "with_instruction": sum(count.with_instruction for count in counts),
        "repositories": [mine.record() for mine in mines],
    }
