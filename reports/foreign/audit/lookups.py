"""Pure: actions that read commits after the base commit, or look the repository up elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reports.foreign.audit.commands import GitCall, command_texts, git_calls, simple_commands
from reports.foreign.audit.findings import Leak, LeakKind
from reports.foreign.model import Action, AgentAttempt, AgentStep

IsAncestor = Callable[[str], bool | None]
"""Tells whether a commit is before the base commit or is it; None if it is unknown."""

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
    """What a repository's lookups are compared with.

    Attributes:
        repo: ``owner/name``.
        base_commit: the commit that the agent may know, and all before it.
    """

    repo: str
    base_commit: str
    is_ancestor: IsAncestor

    @property
    def name(self) -> str:
        """The repository's own name."""
        return self.repo.partition("/")[2]


def lookup_leaks(name: str, attempt: AgentAttempt, looked: Looked) -> Iterator[Leak]:
    """Yield a finding for each step with such an action.

    A commit that an earlier step showed is known to the agent, unless that step was a finding.

    Args:
        name: the instance.
        attempt: with its conversation.
        looked: what is looked for.
    """
    # The messages of a literal conversation are edits; they run nothing.
    seen: set[str] = set()
    for step in attempt.steps or () if not attempt.literal else ():
        found: dict[LeakKind, str] = {}
        for kind, text in _of_step(step, looked, seen) if step.by_model else ():
            found.setdefault(kind, text)
        for kind, text in found.items():
            yield Leak(kind, name, attempt.attempt, attempt.source, step.place, text)
        if LeakKind.FUTURE not in found:
            said = [step.text if not step.by_model else "", *(o.text for o in step.observations)]
            seen |= {match[:7] for text in said for match in _HASH.findall(text)}


def _of_step(step: AgentStep, looked: Looked, seen: set[str]) -> Iterator[tuple[LeakKind, str]]:
    for action in step.actions:
        for text in command_texts(action):
            for call in git_calls(text):
                if _reads_future(call, looked, seen):
                    yield LeakKind.FUTURE, call.text
            if found := _network(action, text, looked):
                yield LeakKind.NETWORK, found


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
    commits = [commit for word in words for commit in _HASH.findall(word)]
    return any(_unknown(commit, looked, seen) for commit in commits)


def _unknown(commit: str, looked: Looked, seen: set[str]) -> bool:
    """Tell whether no base commit, no ancestor and no earlier step explains a hash."""
    if looked.base_commit.startswith(commit):
        return False
    ancestor = looked.is_ancestor(commit)
    if ancestor is not None:
        return not ancestor
    return commit[:7] not in seen


def _network(action: Action, text: str, looked: Looked) -> str:
    """Return the command, or what was looked up, that asks for the repository; else nothing."""
    hosted = rf"{_HOSTS}(/repos)?[/:]{re.escape(looked.repo)}\b"
    if re.search(hosted, text, re.IGNORECASE) and (
        _NETWORK.search(text) or _WEB_TOOL.search(action.name)
    ):
        return text
    package = rf"{_REGISTRIES}/\S*\b{re.escape(looked.name)}\b"
    if re.search(package, text, re.IGNORECASE):
        return text
    if _WEB_TOOL.search(action.name) and re.search(
        rf"\b{re.escape(looked.name)}\b", text, re.IGNORECASE
    ):
        return text
    return next((" ".join(w) for w in simple_commands(text) if _asks(w, looked)), "")


def _asks(words: tuple[str, ...], looked: Looked) -> bool:
    """Tell whether a simple command asks a registry or the repository's remote."""
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
    return any(_package(word) == looked.name.lower().replace("_", "-") for word in words[1:])


def _package(word: str) -> str:
    """Return the name of a package in a requirement such as ``Name[extra]==1.0``."""
    name = re.split(r"[\[=<>~!@;]", word, maxsplit=1)[0]
    return name.lower().replace("_", "-")
