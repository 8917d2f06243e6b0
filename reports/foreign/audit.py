"""``report.py --audit PATH --dataset D``: search trajectories of any harness for hidden data."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.instances.dataset import load_dataset
from bench.instances.instance import Instance, split_row
from bench.repos.mirrors import Mirrors, has_commit
from core.errors import UserError
from core.git import git_result
from core.plaintext import counted, one_line, shortened
from reports.cli.options import ReportOptions
from reports.data.jsonvalues import mapping, text
from reports.foreign.model import Action, AgentAttempt, AttemptedRun, RunLayout
from reports.foreign.recognise import read_any
from reports.submission.hidden import (
    Hidden,
    StandInBase,
    base_lookup,
    evidence,
    hidden_of,
    mirrors_at_hand,
    texts_in,
)
from runs.storage.store import RunStore

_SHOWN = 160


class LeakKind(str, Enum):
    GOLD = "gold patch"
    TESTS = "hidden tests"
    HINTS = "hints"
    LISTS = "lists of tests"
    FUTURE = "future commits"
    NETWORK = "network lookup"


@dataclass(frozen=True)
class Leak:
    kind: LeakKind
    instance_id: str
    attempt: int
    file: Path
    place: str  # of the step in the file, such as ``messages[3]``
    text: str
    more: int = 0  # further lines of the same kind in the same step

    def line(self) -> str:
        more = f" and {counted(self.more, 'more line')}" if self.more else ""
        where = one_line(f"{self.file}: {self.instance_id}, attempt {self.attempt}, {self.place}")
        return f"{where}: {self.kind.value}: {shortened(self.text, _SHOWN)!r}{more}"

    def as_json(self) -> dict[str, Any]:
        text = shortened(self.text, _SHOWN)
        return {**vars(self), "kind": self.kind.value, "file": str(self.file), "text": text}


@dataclass
class RunAudit:
    """The audit of a run, with the names of its JSON."""

    run: str
    layout: str
    dataset: str
    findings: list[Leak] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # of findings by kind
    # Ids of the instances whose conversations were searched.
    audited: list[str] = field(default_factory=list)
    no_messages: list[str] = field(default_factory=list)
    not_in_dataset: list[str] = field(default_factory=list)
    # Repositories whose base commits could not be looked up.
    without_mirror: list[str] = field(default_factory=list)

    def lines(self) -> Iterable[str]:
        yield from (leak.line() for leak in self.findings)
        for repo in self.without_mirror:
            yield (
                f"note: there is no mirror of {repo} with the base commit; lines count only where "
                "more than half of a hidden text was shown (--repos)"
            )
        yield f"run            {one_line(self.run)} ({self.layout}), against {self.dataset}"
        yield f"audited        {len(self.audited):5d}"
        if self.no_messages:
            why = f"nothing could be searched, as {self.no_messages[0]}"
            yield f"no messages    {len(self.no_messages):5d}  {why}"
        if self.not_in_dataset:
            why = f"not in {self.dataset}, as {self.not_in_dataset[0]}"
            yield f"unknown ids    {len(self.not_in_dataset):5d}  {why}"
        instances = len({leak.instance_id for leak in self.findings})
        yield f"findings       {len(self.findings):5d}  in {counted(instances, 'instance')}"
        for kind, count in sorted(self.counts.items()):
            yield f"               {count:5d}  {kind}"

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "findings": [leak.as_json() for leak in self.findings]}


def audit_command(path: Path, options: ReportOptions, show: Callable[[str], None]) -> int:
    """Print every finding and a summary; return 1 if there is a finding, else 0."""
    run = read_any(path)
    described = RunStore.of_folder(run.path).read_run() if run.layout is RunLayout.OURS else None
    recorded = mapping((described or {}).get("dataset"))
    name = options.dataset or text(recorded.get("name"))
    if not name:
        raise UserError(f"--audit {path} needs the hidden data to look for: pass --dataset")
    dataset = load_dataset(name, options.split or text(recorded.get("split")) or "test")
    mirrors = mirrors_at_hand(dataset.name, options.repos, options.cache)
    found = audit(run, dataset.name, dataset.by_any_id, mirrors)
    if not found.audited and not found.no_messages:
        raise UserError(f"no instance of {path} is in the dataset {dataset.name}; check --dataset")
    if options.as_json:
        show(json.dumps(found.as_json(), indent=1))
    else:
        for line in found.lines():
            show(line)
    return int(bool(found.findings))


def audit(
    run: AttemptedRun, dataset: str, rows: Mapping[str, Mapping[str, Any]], mirrors: Mirrors | None
) -> RunAudit:
    found = RunAudit(run.name, run.layout.value, dataset)
    for instance in run.instances:
        name = instance.instance_id
        if name not in rows:
            found.not_in_dataset.append(name)
        elif not any(attempt.steps for attempt in instance.attempts):
            found.no_messages.append(name)
        else:
            found.audited.append(name)
            known, hidden = split_row(rows[name])
            base = base_lookup(known, mirrors)
            if base is None:
                found.without_mirror = sorted({*found.without_mirror, known.repo})
            looked, fields = Looked(known, mirrors), hidden_of(known, hidden)
            for attempt in instance.attempts:
                found.findings += shown_leaks(name, attempt, fields, base)
                found.findings += lookup_leaks(name, attempt, looked)
    found.counts = Counter(leak.kind.value for leak in found.findings)
    return found


# Arguments of tools that run something or look something up. Texts that are written into files
# stand under other names.
_KEYS = (
    "command", "cmd", "commands", "code", "script", "bash", "input", "url", "urls", "query", "q",
)  # fmt: skip
_SEPARATORS = re.compile(r"\|\||&&|[;\n|&()`]|\$\(")
# The text of a file that is written by a command.
_HEREDOC = re.compile(
    r"^(?P<head>[^\n]*\b(?:cat|tee)\b[^\n]*<<-?\s*['\"]?(?P<word>\w+)['\"]?[^\n]*)\n"
    r".*?^\s*(?P=word)\s*$",
    re.MULTILINE | re.DOTALL,
)
_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path")
_RUNNERS = (
    "sudo", "env", "timeout", "nice", "nohup", "time", "command", "exec", "xargs", "do", "then",
)  # fmt: skip
_LONGEST = 200_000


@dataclass(frozen=True)
class GitCall:
    name: str  # the subcommand
    words: tuple[str, ...]  # after it
    text: str  # the whole call


def command_texts(action: Action) -> Iterator[str]:
    """Yield what an action runs or looks up, without the texts of files that ``cat`` writes."""
    for key in _KEYS:
        value = action.arguments.get(key)
        for words in value if isinstance(value, list) else [value]:
            if isinstance(words, str) and words:
                yield _HEREDOC.sub(r"\g<head>", words[:_LONGEST])


def simple_commands(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each simple command in a script, without what runs it (``sudo``)."""
    for part in _SEPARATORS.split(text):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:  # half of a quoted text
            words = part.replace('"', " ").replace("'", " ").split()
        while words and (words[0] in _RUNNERS or "=" in words[0] or words[0][:1].isdigit()):
            words = words[1:]
        if words:
            yield tuple(words)
            # What a shell is given as one word is a script as well.
            if words[0].rpartition("/")[2] in ("bash", "sh", "eval", "zsh"):
                for word in words[1:]:
                    if " " in word:
                        yield from simple_commands(word)


def git_calls(text: str) -> Iterator[GitCall]:
    for words in simple_commands(text):
        if words[0].rpartition("/")[2] != "git":
            continue
        rest = list(words[1:])
        while rest and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in _WITH_VALUE else rest[1:]
        if rest:
            yield GitCall(rest[0], tuple(rest[1:]), " ".join(words))


# Options that select commits of all references, by the subcommands that know them.
_HISTORY = frozenset({"log", "rev-list", "shortlog", "whatchanged", "show", "grep", "diff"})
_EVERYTHING = re.compile(r"--(all|branches|remotes|reflog|walk-reflogs|glob|tags)(=.*)?|-g")
_LOST = frozenset({"reflog", "fsck"})
_READS = _HISTORY | {
    "checkout", "cherry-pick", "cat-file", "reset", "format-patch", "restore", "blame", "archive",
    "worktree", "merge", "rebase", "revert", "ls-tree", "switch", "read-tree", "diff-tree", "apply",
    "annotate", "branch", "stash",
}  # fmt: skip
_REMOTE_REF = re.compile(
    r"(refs/)?(remotes/)?(origin|upstream)/[\w./-]+|FETCH_HEAD|.*@\{.*|refs/pull/.*"
)
_HASH = re.compile(r"(?<![\w/.-])(?=[0-9a-f]*\d)([0-9a-f]{7,40})(?![\w-])")
_FETCHES = frozenset({"fetch", "pull", "ls-remote"})
_NETWORK = re.compile(
    r"\b(curl|wget|aria2c|lynx|links|gh|hub|svn|git|urllib|urlopen|axios)\b"
    r"|\b(requests|httpx|aiohttp)\.\w+\(|\bfetch\("
)
_HOSTS = r"(git\w*\.com|bitbucket\.org|deepwiki\.com)"
_REGISTRIES = r"(pypi\.org|pythonhosted\.org|npmjs\.\w+|rubygems\.org|crates\.io)"
_WEB_TOOL = re.compile(r"web|search|brows|fetch|url|internet|http", re.IGNORECASE)
_INSTALLERS = {
    "pip": ("install", "download", "index"), "pip3": ("install", "download", "index"),
    "npm": ("install", "i", "view", "pack"), "yarn": ("add", "info"), "pnpm": ("add", "view"),
    "gem": ("install", "fetch", "unpack"), "cargo": ("add", "install", "search"),
    "easy_install": (), "conda": ("install", "search"), "composer": ("require", "show"),
}  # fmt: skip


@dataclass(frozen=True)
class Looked:
    """The instance with which lookups are compared: its base commit may be known."""

    instance: Instance
    mirrors: Mirrors | None

    @property
    def name(self) -> str:
        return self.instance.repo.partition("/")[2]

    def is_ancestor(self, commit: str) -> bool | None:
        """Return whether a commit is before the base commit or is it; None if it is unknown."""
        mirror = self.mirrors.find(self.instance.repo) if self.mirrors else None
        base = self.instance.base_commit
        if mirror is None or not has_commit(mirror, base) or not has_commit(mirror, commit):
            return None
        ended = git_result("merge-base", "--is-ancestor", commit, base, cwd=mirror)
        return ended.returncode == 0


def lookup_leaks(name: str, attempt: AgentAttempt, looked: Looked) -> Iterator[Leak]:
    """Yield a finding for each step of an attempt that looks up future commits or the network.

    A commit that an earlier step showed is known to the agent, unless that step was a finding.
    """
    # The messages of a literal conversation are edits; they run nothing.
    seen: set[str] = set()
    for step in attempt.steps or () if not attempt.literal else ():
        found: dict[LeakKind, str] = {}
        actions = step.actions if step.by_model else ()
        for action, words in ((a, words) for a in actions for words in command_texts(a)):
            future = (c.text for c in git_calls(words) if _reads_future(c, looked, seen))
            if call := next(future, ""):
                found.setdefault(LeakKind.FUTURE, call)
            if network := _network(action, words, looked):
                found.setdefault(LeakKind.NETWORK, network)
        for kind, words in found.items():
            yield Leak(kind, name, attempt.attempt, attempt.source, step.place, words)
        if LeakKind.FUTURE not in found:
            said = [step.text if not step.by_model else "", *(o.text for o in step.observations)]
            seen |= {match[:7] for words in said for match in _HASH.findall(words)}


def _reads_future(call: GitCall, looked: Looked, seen: set[str]) -> bool:
    if call.name in _LOST:
        return True
    if call.name in _HISTORY and any(_EVERYTHING.fullmatch(word) for word in call.words):
        return True
    if call.name not in _READS:
        return False
    words = call.words[: call.words.index("--")] if "--" in call.words else call.words
    if any(_REMOTE_REF.fullmatch(part) for word in words for part in re.split(r"\.{2,3}|:", word)):
        return True
    for commit in (commit for word in words for commit in _HASH.findall(word)):
        if looked.instance.base_commit.startswith(commit):
            continue
        ancestor = looked.is_ancestor(commit)
        if not ancestor and (ancestor is False or commit[:7] not in seen):
            return True
    return False


def _network(action: Action, words: str, looked: Looked) -> str:
    """Return the command, or what was looked up, that asks for the repository; else nothing."""
    hosted = rf"{_HOSTS}(/repos)?[/:]{re.escape(looked.instance.repo)}\b"
    if re.search(hosted, words, re.IGNORECASE) and (
        _NETWORK.search(words) or _WEB_TOOL.search(action.name)
    ):
        return words
    package = rf"{_REGISTRIES}/\S*\b{re.escape(looked.name)}\b"
    if re.search(package, words, re.IGNORECASE):
        return words
    if _WEB_TOOL.search(action.name) and re.search(
        rf"\b{re.escape(looked.name)}\b", words, re.IGNORECASE
    ):
        return words
    return next((" ".join(w) for w in simple_commands(words) if _asks(w, looked)), "")


def _asks(words: tuple[str, ...], looked: Looked) -> bool:
    program = words[0].rpartition("/")[2]
    if program.startswith("python") and words[1:2] == ("-m",) and len(words) > 2:
        return _asks(words[2:], looked)
    if program == "uv" and len(words) > 1:
        return _asks(words[1:], looked)
    if program in ("gh", "hub") and len(words) > 1:
        return words[1] in ("pr", "issue", "api", "search", "repo", "browse", "release")
    if program == "git":
        call = next(git_calls(" ".join(words)), None)
        if call is None:
            return False
        remote_update = call.name == "remote" and call.words[:1] == ("update",)
        return call.name in _FETCHES or remote_update
    asks = _INSTALLERS.get(program)
    if asks is None or (asks and not any(word in asks for word in words[1:3])):
        return False
    packages = (re.split(r"[\[=<>~!@;]", word, maxsplit=1)[0] for word in words[1:])
    wanted = looked.name.lower().replace("_", "-")
    return any(package.lower().replace("_", "-") == wanted for package in packages)


_KINDS = {
    "the gold patch": LeakKind.GOLD,
    "the hidden tests": LeakKind.TESTS,
    "the hints": LeakKind.HINTS,
    "the dataset's lists of tests": LeakKind.LISTS,
}
_WORD = re.compile(r"\w+")
# Commands by which an agent changes files without writing the lines that result.
_WRITES = re.compile(
    r"\bsed\b.*\s-i|\bperl\b.*\s-p?i|\bpatch\b|\bgit\s+(apply|stash|checkout|restore)\b|>|\btee\b"
    r"|\bpython[\d.]*\b|\bmv\b|\bcp\b|\bruff\b|\bblack\b|\bawk\b|\bed\b|\bex\b"
)
_EDITS = re.compile(r"edit|write|replace|insert|patch|create", re.IGNORECASE)


@dataclass(frozen=True)
class Utterance:
    text: str
    by_model: bool
    place: str  # of its step in the file
    writes: bool = False  # whether it holds an action that may change files


def utterances(attempt: AgentAttempt) -> tuple[Utterance, ...]:
    """Return the texts of an attempt in their order; what actions return follows them."""
    found = []
    for step in attempt.steps or ():
        arguments = (t for a in step.actions for t in texts_in(dict(a.arguments)))
        said = [step.text, step.reasoning, *arguments]
        writes = any(
            _EDITS.search(action.name) or any(map(_WRITES.search, command_texts(action)))
            for action in step.actions
        )
        found.append(Utterance("\n".join(said), step.by_model, step.place, writes))
        found += (Utterance(o.text, False, o.place or step.place) for o in step.observations)
    return tuple(found)


@dataclass(frozen=True)
class _Conversation:
    said: Sequence[Utterance]
    patch: str | None
    literal: bool

    def shown(self, line: str) -> Utterance | None:
        """Return where ``line`` was shown before the model wrote it; None if it was not."""
        if line not in self._given:
            return None
        at = next(n for n, one in enumerate(self.said) if line in one.text)
        first = self.said[at]
        if first.by_model or (not self.literal and self._made(line, at)):
            return None
        return first

    def _made(self, line: str, at: int) -> bool:
        """Return whether the model made ``line`` by earlier commands, such as ``sed``.

        Then its patch, if known, has the line, it acted before, and each word of the line was said
        before: a command makes a line of the file's words and of those in the command.
        """
        before = self.said[:at]
        patched = self.patch is None or line in self.patch
        if not patched or not any(one.writes for one in before):
            return False
        known = {word for one in before for word in _WORD.findall(one.text)}
        return known.issuperset(_WORD.findall(line))

    @cached_property
    def _given(self) -> str:
        return "\n".join(one.text for one in self.said if not one.by_model)


def shown_leaks(
    name: str,
    attempt: AgentAttempt,
    fields: Sequence[Hidden],
    base: StandInBase | None,
) -> Iterator[Leak]:
    """Yield a finding for each step of an attempt that first shows texts of a hidden field."""
    conversation = _Conversation(utterances(attempt), attempt.patch, attempt.literal)
    for hidden in fields:
        places = {line: conversation.shown(line) for line in (*hidden.marks, *hidden.lines)}
        marks, lines = (
            [line for line in texts if places[line]] for texts in (hidden.marks, hidden.lines)
        )
        by_place: dict[str, list[str]] = {}
        for line in evidence(hidden, marks, lines, base):
            if (first := places[line]) is not None:
                by_place.setdefault(first.place, []).append(line)
        for place, found in by_place.items():
            kind = _KINDS[hidden.what]
            yield Leak(kind, name, attempt.attempt, attempt.source, place, found[0], len(found) - 1)
