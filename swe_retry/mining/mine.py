"""``mine``: rows of SWE-bench's shape from the history of one's own repository.

Whatever has an outcome is kept in a folder beside the rows, of which the rows are made again: a
command that is repeated goes on, and measures nothing twice.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from swe_retry.core.atomic import write_json_atomic, write_text_atomic
from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.plaintext import Say, abbreviate, one_line, quantity, table
from swe_retry.core.untrusted import fault_of, read_json
from swe_retry.instances.dataset import Dataset
from swe_retry.instances.selection import check_date
from swe_retry.instances.validity import VALIDITY_SCHEMA
from swe_retry.mining.commits import Fix, HistoryWalk
from swe_retry.mining.measure import CommitTests
from swe_retry.mining.records import Measured, MineOutcome, with_lists
from swe_retry.mining.settings import Mining, MiningSettings
from swe_retry.mining.statement import Posts
from swe_retry.own.folders import hide
from swe_retry.own.issues import Post
from swe_retry.own.opening import open_commits
from swe_retry.own.repository import OwnRepository
from swe_retry.record.manifest import timestamp
from swe_retry.report.evaluation.evaluation_settings import (
    EvaluationSettings,
    EvaluatorKind,
    GoldSettings,
)
from swe_retry.report.evaluation.local import LocalEvaluator
from swe_retry.repositories.history import open_history, reading
from swe_retry.study.gold import ValidityFile

_POSTS = TypeAdapter(list[Post])
_POSTS_FIX = "give what `gh issue list --json number,title,body` writes"
_MAX_TITLE = 70
_MAX_REASON = 160
_UNBUILT = (MineOutcome.SETUP, MineOutcome.NOT_MEASURED)


def mine_command(
    location: str, out: Path, settings: MiningSettings, say: Say, *, dry_run: bool
) -> int:
    """Mine rows; return 1 where none is valid or a commit could not be measured."""
    rules = settings.mine
    check_date("mine.since", rules.since)
    check_date("mine.until", rules.until)
    out = out.expanduser().resolve()
    evaluator = _make_evaluator(settings, out, say)
    records = evaluator.folder
    if out.suffix != ".jsonl" or not out.parent.is_dir():
        raise UserError(f"{out}: give a file NAME.jsonl in a folder that exists")
    if out.exists() and not records.is_dir():
        raise UserError(f"{out} exists and is no file of mine; give another")
    repository = open_commits(location, settings.project.base, settings.folders.cache)
    fixes = _find_fixes(repository, rules, say)
    if dry_run:
        for fix in fixes:
            say(_describe(fix))
        return 0
    tests = CommitTests(repository, settings, evaluator)
    tests.check_trust(repository.head)
    hide(records)
    try:
        with FileLock(records / "lock", timeout=0):
            return _mine(Miner(tests, out, fixes, say))
    except Timeout:
        raise UserError(f"another process mines {out}; wait for its end") from None


def _find_fixes(repository: OwnRepository, rules: Mining, say: Say) -> list[Fix]:
    posts = _read_posts(rules, repository.name)
    history = open_history(Path(repository.repo.common_dir), (repository.head,))
    with reading(history) as reader:
        walk = HistoryWalk(reader, rules, posts, repository.folder)
        fixes = list(islice(walk.fixes(), rules.limit))
    commits = quantity(walk.looked_at, "commit")
    fit = f"{len(fixes)} fit"
    say(f"{repository.name}: looked at {commits} since {rules.first_day}, {fit}")
    reasons = [f"{reason} {count:,}" for reason, count in walk.left_out.most_common()]
    say(f"left out: {', '.join(reasons) or 'none'}")
    if not fixes:
        raise UserError(
            f"{repository.name}: no commit since {rules.first_day} changes source and tests as "
            "is asked; change --since, --max-files, --paths or --titles"
        )
    return fixes


def _read_posts(rules: Mining, name: str) -> Posts:
    posts = {}
    for path in rules.issues:
        try:
            entries = _POSTS.validate_python(read_json(path, _POSTS_FIX))
        except OSError as error:
            raise UserError(f"--issues {path} cannot be read: {error}") from error
        except ValidationError as error:
            problem = f"--issues {path}: {fault_of(error)}"
            raise UserError(f"{problem}; {_POSTS_FIX}") from error
        for post in entries:
            mark = "#" if post.source_branch is None else "!"
            posts[f"{mark}{post.number}"] = post
            posts[f"{name.lower()}{mark}{post.number}"] = post
    return posts


def _describe(fix: Fix) -> str:
    statement = fix.statement
    title = abbreviate(statement.text, _MAX_TITLE)
    day = fix.landed[:10]
    return one_line(f"{fix.commit[:12]}  {day}  {statement.source}: {title}")


def _make_evaluator(settings: MiningSettings, out: Path, say: Say) -> LocalEvaluator:
    evaluation = EvaluationSettings(timeout=settings.tests.timeout)
    return LocalEvaluator(
        name=EvaluatorKind.LOCAL,
        folder=out.with_suffix(".mining"),
        settings=GoldSettings(evaluation=evaluation, folders=settings.folders),
        dataset=str(out),
        split="test",
        say=say,
    )


Mined = tuple[JsonObject, Measured]


@dataclass
class Miner:
    """Takes what is measured, and writes all rows after each commit.

    Attributes:
        mined: by the position of the commit in ``fixes``.
        measured_now: how many were not measured before.
    """

    tests: CommitTests
    out: Path
    fixes: Sequence[Fix]
    say: Say
    mined: dict[int, Mined] = field(default_factory=dict)
    measured_now: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.started) / 60

    def take(self, position: int, row: JsonObject, measured: Measured) -> None:
        """Keep what came of a commit and say it."""
        self.mined[position] = (row, measured)
        done = len(self.mined)
        total = len(self.fixes)
        self.measured_now += 1
        left = self.minutes / self.measured_now * (total - done)
        fail_to_pass, pass_to_pass = map(len, measured.lists)
        counts = f"{fail_to_pass} fixed, {pass_to_pass} pass with and without it"
        reason = measured.problem or measured.trials.reason or counts
        self.say(
            f"[{done}/{total}] {self.fixes[position].commit[:12]} {measured.state}: "
            f"{abbreviate(reason, _MAX_REASON)} ({measured.seconds:.0f} s; {left:.0f} min left)"
        )
        self._write()

    def take_earlier(self) -> Mapping[int, Fix]:
        """Take what was measured before, write its rows, and return the other commits."""
        others = {}
        for position, fix in enumerate(self.fixes):
            row, measured = self.tests.read(fix)
            if measured.has_runs(self.tests.settings.mine.repeat):
                self.mined[position] = (row, measured)
            else:
                others[position] = fix
        if self.mined:
            self.say(f"measured before: {quantity(len(self.mined), 'commit')}")
        self._write()
        self.say(
            f"to measure: {quantity(len(others), 'commit')}, set-up and tests of each"
        )
        return others

    def valid_rows(self) -> Iterator[Mined]:
        """Yield the rows in the order of the history."""
        for _, (row, measured) in sorted(self.mined.items()):
            if measured.state is MineOutcome.VALID:
                yield with_lists(row, measured), measured

    def _write(self) -> None:
        rows = []
        instances = {}
        for row, measured in self.valid_rows():
            rows.append(row)
            instances[row["instance_id"]] = measured.trials
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        write_text_atomic(self.out, "".join(lines))
        validity = ValidityFile(
            schema_version=VALIDITY_SCHEMA,
            dataset=Dataset(str(self.out), "test", tuple(rows)).identity(),
            evaluator=EvaluatorKind.LOCAL,
            repeat=1,
            started=timestamp(),
            instances=instances,
        )
        write_json_atomic(self.validity, validity.as_json())

    @property
    def validity(self) -> Path:
        """The file that says that the rows are valid."""
        return self.out.with_suffix(".validity.json")

    def cells(self) -> Mapping[str, object]:
        """Return what came of all, by headings."""
        every = [measured for _, measured in self.mined.values()]
        rows = [row for row, _ in self.valid_rows()]
        minutes = sum(measured.seconds for measured in every) / 60
        return {
            "fit": len(self.fixes),
            "tried": len(every),
            "built": sum(measured.state not in _UNBUILT for measured in every),
            "valid": len(rows),
            "with flaky tests": sum(bool(measured.flaky) for measured in every),
            "with unnamed names": sum(bool(row["mined"]["unnamed"]) for row in rows),
            "min a row": f"{minutes / max(len(rows), 1):.1f}",
        }


def _mine(miner: Miner) -> int:
    rules = miner.tests.settings.mine

    def measure(fix: Fix) -> Mined | None:
        if rules.minutes is not None and miner.minutes >= rules.minutes:
            return None
        return miner.tests.measure(fix)

    others = miner.take_earlier()
    with ThreadPoolExecutor(rules.jobs, "mining") as pool:
        positions = {pool.submit(measure, others[number]): number for number in others}
        try:
            for future in as_completed(positions):
                mined = future.result()
                if mined:
                    miner.take(positions[future], *mined)
        except BaseException:
            miner.tests.stop.request("mining ends")
            pool.shutdown(cancel_futures=True)
            raise
    cells = miner.cells()
    for line in table(list(cells), [list(cells.values())], numbers=range(len(cells))):
        miner.say(line)
    counts = Counter(measured.state for _, measured in miner.mined.values())
    for outcome, count in counts.most_common():
        miner.say(f"{outcome:14}  {count:5d}")
    miner.say(one_line(f"rows {miner.out}"))
    miner.say(one_line(f"validity {miner.validity}"))
    miner.say("next: --dataset with the rows, or a study of them (docs/study.md)")
    if counts[MineOutcome.NOT_MEASURED] or not counts[MineOutcome.VALID]:
        return 1
    return 0
