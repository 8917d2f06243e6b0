"""Compare recorded edits with tolerant matching: ``python -m benchmarks.replay_edits``.

Replays each recorded attempt with the reference agent's parsing and matching, so that the files are
at each reply those of the recorded run, and applies every block with both kinds of matching.
"""

from __future__ import annotations

import difflib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from agent.conversation.checks import Checks
from agent.conversation.coder import Coder
from agent.conversation.mentions import FileIndex
from agent.conversation.outcomes import ConversationLimits
from agent.formats import get_format
from agent.formats.base import (
    ApplyReport,
    Edit,
    EditResult,
    MalformedReplyError,
    Reader,
    ReplyScope,
    SearchReplace,
)
from agent.formats.matching.find_lines import find_places
from agent.formats.matching.lines import to_lines
from agent.formats.reference import ReferenceDiffFormat
from agent.workspace import Workspace
from bench.instances.dataset import load_dataset
from bench.instances.instance import Instance
from bench.repos.checkout import Snapshots, make_checkout
from bench.repos.mirrors import Mirrors
from core.git import git_result
from llm.chat import Reply
from llm.replay import ReplayModel, read_trajectory

_TRULY_AMBIGUOUS = ("exact", "trailing white space", "indentation")


@dataclass(frozen=True)
class BlockResult:
    """The results of one block in the recorded run and now.

    Attributes:
        then: ``applied``, ``failed``, ``ambiguous`` (found in several places, and the first was
            used), ``empty`` (an empty SEARCH on a file with content) or ``elsewhere``.
    """

    attempt: str
    reply: int
    edit: SearchReplace
    then: str
    now: EditResult
    before: str
    after: str


@dataclass
class _Comparison(ReferenceDiffFormat):
    """Edits as the reference agent does, and records the results of tolerant matching."""

    attempt: str
    blocks: list[BlockResult] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)
    partly: int = 0
    lost: int = 0
    spoilt: int = 0
    kinds: list[str] = field(default_factory=list)
    replies: int = 0
    _reply: Reply = field(default_factory=lambda: Reply(""))
    _scope: ReplyScope = field(default_factory=ReplyScope)

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[SearchReplace]:
        self._reply, self._scope = reply, scope
        self.replies += 1
        try:
            edits = super().parse(reply, scope)
        except MalformedReplyError:
            self.spoilt += 1
            self.kinds.append("edit")
            raise
        if not edits:
            self.kinds.append("locate")
        return edits

    def apply(self, edits: Sequence[Edit], read: Reader, chat: Sequence[str]) -> ApplyReport:
        tolerant = get_format("diff")
        now = tolerant.apply(tolerant.parse(self._reply, self._scope), read, chat)
        report = super().apply(edits, read, chat)
        self.kinds.append("edit" if report.failed else "clean")
        if len(now.results) != len(report.results):
            self.differing.append(self.replies)
            return report
        found = list(self._results(edits, report, now, read))
        self.blocks += found
        clean = all(block.then == "applied" for block in found)
        same = {p: t for p, t in report.contents.items() if t != read(p)} == now.contents
        if clean and not same:
            self.differing.append(self.replies)
        applied = len(report.results) - len(report.failed)
        if report.failed and applied:
            self.partly += 1
            self.lost += applied
        return report

    def _results(
        self, edits: Sequence[Edit], report: ApplyReport, now: ApplyReport, read: Reader
    ) -> Iterator[BlockResult]:
        state: dict[str, str | None] = {}
        for number, (edit, then) in enumerate(zip(edits, report.results, strict=True)):
            assert isinstance(edit, SearchReplace)
            before = state[edit.path] if edit.path in state else read(edit.path)
            outcome = _then(edit, then, before)
            after = now.contents.get(edit.path, before) or ""
            yield BlockResult(
                self.attempt, self.replies, edit, outcome, now.results[number], before or "", after
            )
            part = super().apply(edits[: number + 1], read, self._scope.chat)
            state = dict(part.contents)


def _then(edit: SearchReplace, result: EditResult, before: str | None) -> str:
    if not result.applied:
        return "failed"
    if not edit.search.strip():
        return "empty" if before else "applied"
    if result.landed_in != edit.path:
        return "elsewhere"
    step, places = find_places(to_lines(before or ""), to_lines(edit.search), [""], edit.path)
    ambiguous = len(places) > 1 and step is not None and step.value in _TRULY_AMBIGUOUS
    return "ambiguous" if ambiguous else "applied"


def main(
    trajectories: Annotated[Path, typer.Argument(help="The folder of recorded trajectories.")],
    dataset: Annotated[str, typer.Option(help="The dataset of their instances.")],
    repos: Annotated[Path, typer.Option(help="The folder of mirrors.")],
    cache: Annotated[Path, typer.Option(help="The folder for checkouts.")],
    sample: Annotated[int, typer.Option(help="Number of newly placed blocks to print.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
) -> None:
    """Print the numbers of applied blocks then and now, and the clean replies that differ."""
    wanted = {path.stem for path in trajectories.glob("*.json")}
    instances = load_dataset(dataset, "test").instances()
    replayed = [
        attempt_edits
        for instance in instances
        if instance.instance_id in wanted
        for attempt_edits in _attempts(instance, trajectories, Mirrors(repos), cache)
    ]
    _report(replayed)
    blocks = [block for attempt_edits in replayed for block in attempt_edits.blocks]
    placed = [b for b in blocks if b.then in ("failed", "ambiguous") and b.now.applied]
    random.Random(seed).shuffle(placed)
    for block in placed[:sample]:
        _show(block)


def _attempts(
    instance: Instance, recorded: Path, mirrors: Mirrors, cache: Path
) -> Iterator[_Comparison]:
    mirror = mirrors.get(instance.repo, instance.base_commit)
    snapshot = Snapshots(cache / "snapshots").get(mirror, instance.repo, instance.base_commit)
    root = cache / "replayed" / instance.instance_id
    if not root.exists():
        root.parent.mkdir(parents=True, exist_ok=True)
        make_checkout(snapshot, root)
    tracked = git_result("ls-files", "-z", cwd=root).stdout.decode().split("\0")
    index = FileIndex.of(name for name in tracked if name)
    for number, attempt in read_trajectory(recorded / f"{instance.instance_id}.json").items():
        git_result("reset", "--hard", cwd=root)
        git_result("clean", "-ffdxq", cwd=root)
        attempt_edits = _Comparison(f"{instance.instance_id} attempt {number}")
        space = Workspace(root)
        limits = ConversationLimits(until_exhausted=True)
        coder = Coder(space, index, ReplayModel(attempt), attempt_edits, Checks(space), limits)
        coder.run(instance.problem_statement, "")
        yield attempt_edits


def _report(replayed: Sequence[_Comparison]) -> None:
    blocks = [block for attempt_edits in replayed for block in attempt_edits.blocks]
    then = Counter(block.then for block in blocks)
    now = Counter(block.then for block in blocks if block.now.applied)
    steps = Counter(
        (block.then, block.now.step) for block in blocks if block.now.applied and block.now.step
    )
    print(f"{len(replayed)} attempts, {len(blocks)} blocks")
    for kind, count in then.most_common():
        print(f"  {kind} then: {count}, of them applied now: {now[kind]}")
        for (of, step), number in sorted(steps.items()):
            if of == kind:
                print(f"      by {step}: {number}")
    clean = [r for r in replayed if all(b.then == "applied" for b in r.blocks)]
    same = [r for r in clean if not r.differing]
    print(f"attempts of which every block was applied plainly: {len(clean)}; same now: {len(same)}")
    for attempt_edits in replayed:
        for reply in attempt_edits.differing:
            print(f"  differs: {attempt_edits.attempt}, reply {reply}")
    partly, lost = sum(r.partly for r in replayed), sum(r.lost for r in replayed)
    print(f"replies that failed in part: {partly}; good blocks in them: {lost}")
    _print_topics(replayed)
    print(f"replies that the reference could not read at all: {sum(r.spoilt for r in replayed)}")


def _print_topics(replayed: Sequence[_Comparison]) -> None:
    """Print how many replies of each kind attempts needed, which the budgets are based on."""
    for kind, meaning in (
        ("locate", "named files only"),
        ("edit", "had an edit that failed"),
        ("clean", "applied cleanly (lint, tests or the end followed)"),
    ):
        counts = Counter(attempt_edits.kinds.count(kind) for attempt_edits in replayed)
        spread = ", ".join(f"{number}: {counts[number]}" for number in sorted(counts))
        print(f"attempts by their number of replies that {meaning}: {spread}")
    ran_out = [r for r in replayed if len(r.kinds) >= 5]
    both = sum("locate" in r.kinds and "edit" in r.kinds for r in ran_out)
    print(
        f"attempts of five replies or more: {len(ran_out)}; with locating and failed edits: {both}"
    )


def _changes(block: BlockResult) -> str:
    diff = difflib.unified_diff(block.before.split("\n"), block.after.split("\n"), lineterm="", n=3)
    return "\n".join(list(diff)[2:])


def _show(block: BlockResult) -> None:
    edit = block.edit
    print("=" * 100)
    print(
        f"{block.attempt}, reply {block.reply}: {edit.path} ({block.then} then, {block.now.step})"
    )
    print(f"{edit.search}{'-' * 50}\n{edit.replace}{'-' * 20} becomes {'-' * 20}")
    print(_changes(block))


if __name__ == "__main__":
    typer.run(main)
