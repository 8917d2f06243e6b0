"""Mutated replies never escape the checkout and never raise.

``python -m tests.agent.test_fuzz_replies`` carries out any number of them on real files. Mutated
real replies are parsed, made safe, applied and written in every format, on a checkout with planted
links, pipes and sockets. Their mentions are looked up and their changes are linted. No reply may
change anything outside the checkout or in its ``.git``, send outside content to the model, or
raise an exception.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import pytest
import typer

from swe_retry.agent.conversation.checks import ConversationChecks
from swe_retry.agent.conversation.context import ShownFiles
from swe_retry.agent.conversation.setup import harness_setup
from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.apply import safe_edits, write_report
from swe_retry.agent.formats.protocol import MalformedReplyError, Matching, ReplyScope
from swe_retry.agent.formats.report import (
    ApplyReport,
    OnFailure,
    after_failures,
    feedback,
)
from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.protocol import OpenHost
from swe_retry.agent.workspace import Workspace
from swe_retry.core.plaintext import table
from swe_retry.llm.chat import Message, Reply
from swe_retry.llm.messages import messages_as_sent
from swe_retry.llm.replay import ReplayModel
from tests.support import write_files
from tests.support.hostile_replies import (
    HOSTILE_PATHS,
    Writer,
    blocks_in,
    files_of,
    replies_in,
)

_SECRET = "the secret that lies outside the checkout"
_BUNDLED = Path(__file__).parents[2] / "swe_retry/demo/replies"
Signature = Mapping[str, tuple[int, ...]]


class EscapedError(AssertionError):
    """A reply changed or disclosed something that it must not."""


@dataclass
class Figures:
    """The results of the replies.
    Attributes:
        outcomes: by (format, ``replies`` | ``malformed`` | ``edits`` | ``applied`` | ``failed``).
        raised: by exception, with the number of the first reply that raised it.
        slowest: seconds and number of the slowest reply.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    raised: dict[str, list[int]] = field(default_factory=dict)
    slowest: tuple[float, int] = (0.0, 0)


class Arena:
    """A checkout in its own folder, beside a folder that no reply may reach."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.root = folder / "checkout"
        self.outside = folder / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        write_files(self.root, files)
        write_files(self.root, {"README.md": "# Read me\n", "package/a.py": "x = 1\n"})
        self.files = frozenset(self._find_files())
        self._plant()
        self.before = self._signature()

    def _find_files(self) -> Iterator[str]:
        for path in self.root.rglob("*"):
            if path.is_file():
                yield path.relative_to(self.root).as_posix()

    def _plant(self) -> None:
        (self.outside / "secret.txt").write_text(_SECRET)
        os.mkfifo(self.outside / "fifo")
        hidden = {"config": "[core]\n", "HEAD": "sentinel\n", "hooks/pre-push": "#"}
        write_files(self.root / ".git", hidden)
        (self.root / "folder").mkdir()
        os.mkfifo(self.root / "fifo")
        with socket.socket(socket.AF_UNIX) as listener:
            # The path of a socket may be no longer than 107 characters.
            here = Path.cwd()
            os.chdir(self.root)
            listener.bind("socket")
            os.chdir(here)
        for name, target in (
            ("link-out", "../outside"),
            ("link-to-secret", "../outside/secret.txt"),
            ("link-to-git", ".git"),
            ("link-inside", "package"),
            ("loop", "loop"),
        ):
            (self.root / name).symlink_to(target)

    def _signature(self) -> Signature:
        """Return inode, mode, size and time of each entry, to detect changes."""
        signature: dict[str, tuple[int, ...]] = {}
        waiting = [str(self.root), str(self.outside)]
        while waiting:
            for entry in os.scandir(waiting.pop()):
                stat = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    signature[entry.path] = (stat.st_ino, stat.st_mode)
                else:
                    signature[entry.path] = (
                        stat.st_ino,
                        stat.st_mode,
                        stat.st_size,
                        stat.st_mtime_ns,
                    )
        return signature

    def check_and_reset(self, space: Workspace, feedback_text: str) -> None:
        """Undo the changes of ``space``.

        Raises:
            EscapedError: something else changed, or the feedback contains the secret.
        """
        changed = self._changed_paths()
        allowed = set()
        for name in space.originals:
            path = self.root / name
            allowed.add(str(path))
            allowed.update(map(str, path.parents))
        strange = changed - allowed
        if strange:
            raise EscapedError(f"changed: {sorted(strange)[:5]}")
        protected = (str(self.root / ".git"), str(self.outside))
        if any(path.startswith(protected) for path in changed):
            raise EscapedError("changed: .git or the outside folder")
        if _SECRET in feedback_text:
            raise EscapedError("disclosed: the secret")
        if changed:
            self._reset(space, changed)

    def _changed_paths(self) -> set[str]:
        now = self._signature()
        changed = set()
        for path in now.keys() | self.before.keys():
            if now.get(path) != self.before.get(path):
                changed.add(path)
        return changed

    def _reset(self, space: Workspace, changed: set[str]) -> None:
        for path, data in space.originals.items():
            if data is None:
                (self.root / path).unlink(missing_ok=True)
            else:
                (self.root / path).write_bytes(data)
        for path in sorted(changed - self.before.keys(), key=len, reverse=True):
            if Path(path).is_dir():
                Path(path).rmdir()
        self.before = self._signature()


def carry_out(
    reply: Reply,
    form: str,
    source: random.Random,
    arena: Arena,
) -> tuple[str, Counter[str]]:
    """Process ``reply`` as a conversation does; return the feedback and the counts."""
    space = Workspace(arena.root)
    counts: Counter[str] = Counter(replies=1)
    text = ""
    try:
        report = _apply(reply, form, source, arena, space)
        counts["failed"] = len(report.failures)
        counts["applied"] = len(report.results) - counts["failed"]
        counts["edits"] = len(report.results)
        text = feedback(report)
    except MalformedReplyError as error:
        counts["malformed"] = 1
        text = str(error)
    index = FileIndex(arena.files)
    mentioned = set(index.mentioned_files(reply.content))
    mentioned.update(index.plainly_mentioned_files(reply.content[:2000]))
    shown_files = ShownFiles(space, ReplayModel([]), path_inside=False)
    text += shown_files.contents(sorted(mentioned)).text
    host = OpenHost()
    checks = ConversationChecks(
        space, host.new_findings, host.run_tests, harness_setup()
    )
    text += str(checks.problem())
    message = Message("assistant", reply.content, reply.tool_calls)
    messages_as_sent([Message("user", "x"), message, Message("user", text)])
    arena.check_and_reset(space, text)
    return text, counts


def _apply(
    reply: Reply,
    form: str,
    source: random.Random,
    arena: Arena,
    space: Workspace,
) -> ApplyReport:
    matching = Matching.TOLERANT
    if form == "diff":
        matching = source.choice(list(Matching))
    edit_format = get_format(form, matching)
    chat = tuple(sorted(arena.files)[: source.choice((1, 3))])
    edits = edit_format.parse(reply, ReplyScope(arena.files, chat, space.read))
    report = edit_format.apply(safe_edits(edits, space), space.read, chat)
    on_failure = source.choice(list(OnFailure))
    return write_report(after_failures(report, on_failure), space)


def fuzz(
    writer: Writer,
    files: Mapping[str, str],
    seed: int,
    numbers: range,
    at: Synchronized[int] | None = None,
) -> Figures:
    """Carry out the replies of ``numbers``; a seed and a number always give the same reply."""
    figures = Figures()
    with TemporaryDirectory() as folder:
        arena = Arena(Path(folder), files)
        for number in numbers:
            if at is not None:
                at.value = number
            source = random.Random(f"{seed}:{number}")
            form = format_names()[number % len(format_names())]
            reply = writer.reply(source, form)
            started = time.perf_counter()
            try:
                _, counts = carry_out(reply, form, source, arena)
                for outcome, count in counts.items():
                    figures.outcomes[form, outcome] += count
            except Exception as error:  # every exception is a finding
                frame = traceback.extract_tb(error.__traceback__)[-1]
                kind = type(error).__name__
                problem = f"{kind}: {error!s:.120} ({frame.name}:{frame.lineno})"
                figures.raised.setdefault(problem, []).append(number)
            seconds = time.perf_counter() - started
            figures.slowest = max(figures.slowest, (seconds, number))
    return figures


def main(
    replies: Annotated[int, typer.Option(help="Number of replies.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Seed of the mutations.")] = 1,
    trajectories: Annotated[
        Path | None, typer.Option(help="Folder with recorded trajectories.")
    ] = None,
    only: Annotated[int | None, typer.Option(help="Carry out only this reply.")] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of one reply.")] = 20.0,
) -> None:
    """Print the results; exit with 1 if a reply escaped, raised or took too long."""
    folders = [_BUNDLED]
    if trajectories:
        folders.append(trajectories)
    texts = replies_in(folders)
    blocks = blocks_in(texts)
    numbers = range(replies)
    if only is not None:
        numbers = range(only, only + 1)
    started = time.perf_counter()
    writer = Writer(texts, blocks)
    figures = _fuzz_apart(writer, files_of(blocks), seed, numbers, seconds)
    took = time.perf_counter() - started
    print(f"{len(texts)} recorded replies, {len(blocks)} blocks")
    print(f"{len(numbers)} replies, seed {seed}")
    rows = []
    for form in format_names():
        counts = [figures.outcomes[form, outcome] for outcome in _OUTCOMES]
        rows.append((form, *counts))
    columns = ("format", *_OUTCOMES)
    for line in table(columns, rows, numbers=range(1, len(columns))):
        print(line)
    exceptions = 0
    for problem, raising in figures.raised.items():
        exceptions += len(raising)
        print(f"RAISED {len(raising)} times, first by reply {raising[0]}: {problem}")
    print(f"exceptions: {exceptions}")
    slowest, number = figures.slowest
    print(f"slowest reply: {slowest:.2f} s (number {number})")
    times = os.times()
    used = times.children_user + times.children_system
    mean = 1000 * used / len(numbers)
    print(f"{took:.0f} s, CPU {used:.0f} s, {mean:.1f} ms per reply")
    raise typer.Exit(1 if figures.raised else 0)


_OUTCOMES = ("replies", "malformed", "edits", "applied", "failed")


def _fuzz_apart(
    writer: Writer,
    files: Mapping[str, str],
    seed: int,
    numbers: range,
    seconds: float,
) -> Figures:
    """Run in a separate process, which is killed if one reply takes longer than ``seconds``."""
    context = multiprocessing.get_context("fork")
    at: Synchronized[int] = context.Value("q", -1)
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        sender.send(fuzz(writer, files, seed, numbers, at))

    worker = context.Process(target=work, daemon=True)
    worker.start()
    last = -1
    since = time.monotonic()
    while not receiver.poll(0.5):
        if at.value != last:
            last = at.value
            since = time.monotonic()
        elif time.monotonic() - since > seconds or not worker.is_alive():
            worker.kill()
            print(
                f"reply {last} of seed {seed} hung, or ended the process",
                file=sys.stderr,
            )
            raise typer.Exit(1)
    figures: Figures = receiver.recv()
    worker.join()
    return figures


@pytest.mark.parametrize(
    ("seed", "count"), [(7, 400), pytest.param(1, 100_000, marks=pytest.mark.long)]
)
def test_nothing_escapes_and_nothing_is_raised(seed: int, count: int) -> None:
    texts = replies_in([_BUNDLED])
    blocks = blocks_in(texts)
    figures = fuzz(Writer(texts, blocks), files_of(blocks), seed, range(count))
    assert not figures.raised
    assert figures.outcomes["diff", "applied"]
    assert figures.outcomes["whole-func", "failed"]


def _arena(folder: Path) -> Arena:
    return Arena(folder, {"package/b.py": "y = 1\n"})


@pytest.mark.parametrize("path", HOSTILE_PATHS)
@pytest.mark.parametrize("form", ["diff", "whole", "patch", "udiff"])
def test_a_hostile_path_is_a_failed_edit_or_a_plain_new_file(
    tmp_path: Path, path: str, form: str
) -> None:
    arena = _arena(tmp_path)
    reply = {
        "diff": f"{path}\n```\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n```\n",
        "whole": f"{path}\n```\nx\n```\n",
        "patch": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n",
        "udiff": f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n",
    }[form]
    carry_out(Reply(reply), form, random.Random(0), arena)


@pytest.mark.parametrize(
    "name", ["outside/secret.txt", "checkout/.git/config", "checkout/a.py"]
)
def test_the_arena_notices_changes_made_outside_the_workspace(
    tmp_path: Path, name: str
) -> None:
    arena = _arena(tmp_path)
    (tmp_path / name).write_text("changed")
    with pytest.raises(EscapedError, match="changed"):
        arena.check_and_reset(Workspace(arena.root), "")


def test_the_arena_notices_a_disclosed_secret(tmp_path: Path) -> None:
    arena = _arena(tmp_path)
    secret = (arena.outside / "secret.txt").read_text()
    with pytest.raises(EscapedError, match="disclosed"):
        arena.check_and_reset(Workspace(arena.root), f"… {secret} …")


if __name__ == "__main__":
    typer.run(main)
