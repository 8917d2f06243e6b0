"""``mine``: rows of SWE-bench's shape from the history of one's own repository.

Whatever has an outcome is kept in a folder beside the rows, of which the rows are made again: a
command that is repeated goes on, and measures nothing twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from swe_retry.attempts.config import RunSettings
from swe_retry.core.atomic import write_json_atomic, write_text_atomic
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.plaintext import Say, abbreviate, one_line, quantity, table
from swe_retry.core.untrusted import fault_of, read_json
from swe_retry.environments.base import EnvironmentKind, UnavailableError
from swe_retry.instances.adapters.own import COMMANDS
from swe_retry.instances.dataset import Dataset
from swe_retry.instances.selection import check_date
from swe_retry.instances.split import split_row
from swe_retry.instances.validity import VALIDITY_SCHEMA
from swe_retry.mining.commits import Candidate, HistoryWalk, MiningRules
from swe_retry.mining.records import (
    Measured,
    MineOutcome,
    conditions_of,
    read_measured,
    row_lines,
    with_lists,
    write_measured,
)
from swe_retry.mining.statement import Posts
from swe_retry.own.issues import Post
from swe_retry.own.opening import at_commit, open_commits
from swe_retry.own.repository import OwnRepository
from swe_retry.own.run import check_trust, find_commands
from swe_retry.record.manifest import timestamp
from swe_retry.record.versions import versions
from swe_retry.report.evaluation.evaluation_settings import (
    EvaluationSettings,
    EvaluatorKind,
    GoldSettings,
)
from swe_retry.report.evaluation.evaluator import EvaluationTask
from swe_retry.report.evaluation.grading import failed_tests
from swe_retry.report.evaluation.local import HiddenTests, LocalEvaluator
from swe_retry.repositories.history import open_history, reading
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.results.predictions import Prediction
from swe_retry.results.verdicts import Verdict
from swe_retry.study.gold import (
    EMPTY_PATCH,
    InstanceTrials,
    Trial,
    ValidityFile,
    judge_trials,
)

_POSTS = TypeAdapter(list[Post])
_POSTS_FIX = "give what `gh issue list --json number,title,body` writes"
_MAX_TITLE = 60


@dataclass(frozen=True)
class MinePlan:
    """How much is measured.

    Attributes:
        limit: commits that fit.
        repeat: runs of the tests on each tree.
        minutes: no commit is started after so many.
    """

    limit: int
    jobs: int
    repeat: int
    minutes: float | None
    dry_run: bool


def mine_command(
    location: str,
    out: Path,
    settings: RunSettings,
    rules: MiningRules,
    plan: MinePlan,
    issues: Sequence[Path],
    say: Say,
) -> int:
    """Mine rows; return 1 where none is valid or a commit could not be measured."""
    check_date("--since", rules.since)
    check_date("--until", rules.until)
    if out.suffix != ".jsonl" or not out.parent.is_dir():
        raise UserError(f"{out}: give a file NAME.jsonl in a folder that exists")
    posts = read_posts(issues)
    cache = settings.folders.cache
    repository = open_commits(location, settings.project.base, cache)
    candidates = _find_candidates(repository, rules, posts, plan.limit, say)
    if plan.dry_run:
        for candidate in candidates:
            say(_describe(candidate))
        return 0
    if out.exists() and not records_folder(out).is_dir():
        raise UserError(f"{out} exists and is no file of mine; give another")
    bench = Bench(
        repository, settings, _evaluator(settings, out, say), out, plan.repeat
    )
    bench.check_trust(repository)
    try:
        with FileLock(records_folder(out).with_suffix(".lock"), timeout=0):
            return _mine(bench, candidates, plan, say)
    except Timeout:
        raise UserError(f"another process mines {out}; wait for its end") from None


def read_posts(paths: Iterable[Path]) -> Posts:
    """Return the issues and requests of files, by ``#`` or ``!`` and number."""
    posts = {}
    for path in paths:
        try:
            read = _POSTS.validate_python(read_json(path, _POSTS_FIX))
        except FileNotFoundError:
            raise UserError(f"--issues {path}: there is no such file") from None
        except ValidationError as error:
            raise UserError(
                f"--issues {path}: {fault_of(error)}; {_POSTS_FIX}"
            ) from error
        for post in read:
            mark = "#" if post.source_branch is None else "!"
            posts[f"{mark}{post.number}"] = post
    return posts


def records_folder(out: Path) -> Path:
    """Return the folder with what was measured for the rows in ``out``."""
    return out.with_suffix(".mining")


def _find_candidates(
    repository: OwnRepository, rules: MiningRules, posts: Posts, limit: int, say: Say
) -> list[Candidate]:
    history = open_history(Path(repository.repo.common_dir), [repository.head])
    with reading(history) as reader:
        walk = HistoryWalk(reader, rules, posts, repository.folder)
        candidates = list(islice(walk.candidates(), limit))
    since = f" since {rules.since}" if rules.since else ""
    commits = quantity(walk.looked_at, "commit")
    say(f"{repository.name}: looked at {commits}{since}, {len(candidates)} fit")
    reasons = [f"{reason} {count:,}" for reason, count in walk.left_out.most_common()]
    if reasons:
        say(f"left out: {', '.join(reasons)}")
    if not candidates:
        raise UserError(
            f"{repository.name}: no commit{since} changes source and tests as the rules ask; "
            "try --since, --max-files or --titles"
        )
    return candidates


def _describe(candidate: Candidate) -> str:
    title = abbreviate(candidate.statement.text, _MAX_TITLE)
    source = candidate.statement.source
    return one_line(
        f"{candidate.commit[:12]}  {candidate.landed[:10]}  {source}: {title}"
    )


def _evaluator(settings: RunSettings, out: Path, say: Say) -> LocalEvaluator:
    evaluation = EvaluationSettings(
        evaluator=EvaluatorKind.LOCAL, timeout=settings.tests.timeout
    )
    return LocalEvaluator(
        name=EvaluatorKind.LOCAL,
        folder=records_folder(out),
        settings=GoldSettings(evaluation=evaluation, folders=settings.folders),
        dataset=str(out),
        split="test",
        say=say,
    )


@dataclass(frozen=True)
class Bench:
    """Measures commits of one repository."""

    repository: OwnRepository
    settings: RunSettings
    evaluator: LocalEvaluator
    out: Path
    repeat: int

    def check_trust(self, repository: OwnRepository) -> None:
        project = self.settings.project
        sources = find_commands(project, repository)[1]
        check_trust(project, repository, EnvironmentKind.LOCAL, sources)

    def row_of(self, candidate: Candidate) -> JsonObject:
        """Return the row of a commit, without the tests that decide."""
        base = at_commit(self.repository, candidate.base)
        commands = find_commands(self.settings.project, base)[0]
        commands = commands.model_copy(update={"image": ""})
        name = base.name.replace("/", "__")
        return {
            # Whoever looks the commit up by its hash finds the fix.
            "instance_id": f"{name}-{sha256_of(candidate.commit)[:8]}",
            "repo": base.name,
            "base_commit": base.commit,
            "problem_statement": candidate.statement.text,
            "version": base.version,
            "created_at": candidate.landed,
            COMMANDS: commands.model_dump(mode="json"),
            "patch": candidate.patch,
            "test_patch": candidate.test_patch,
            "FAIL_TO_PASS": "[]",
            "PASS_TO_PASS": "[]",
            "hints_text": "",
            "mined": {
                "commit": candidate.commit,
                "statement": candidate.statement.source,
                "removed": dict(candidate.statement.removed),
                "left_out": list(candidate.left_out),
                "unnamed": list(candidate.unnamed),
            },
        }

    def measure(self, candidate: Candidate) -> tuple[JsonObject, Measured]:
        """Return a row with what is known of it; only what is missing is measured."""
        row = self.row_of(candidate)
        path = records_folder(self.out) / f"{candidate.commit}.json"
        measured = read_measured(path, conditions_of(row))
        if _is_complete(measured, self.repeat):
            return row, measured
        started = time.monotonic()
        try:
            self.check_trust(at_commit(self.repository, candidate.base))
            task = _task_of(row, row["patch"])
            mirrors = Mirrors(self.repository.mirrors)
            environment = self.evaluator.environment
            with self.evaluator.open_tests(task, mirrors, environment) as tests:
                measured = self._run(row, tests, measured)
        except InfrastructureError as error:
            outcome = MineOutcome.NOT_MEASURED
            return row, measured.but(outcome=outcome, problem=str(error))
        except (UnavailableError, UserError) as error:
            measured = measured.but(outcome=MineOutcome.SETUP, problem=str(error))
        seconds = measured.seconds + time.monotonic() - started
        measured = measured.but(seconds=round(seconds, 1))
        write_measured(path, measured)
        return row, measured

    def _run(self, row: JsonObject, tests: HiddenTests, measured: Measured) -> Measured:
        """Run the tests as often as is missing, then let the evaluator judge the row."""
        for number in range(len(measured.gold), self.repeat):
            for kind, patch in (("empty", EMPTY_PATCH), ("gold", row["patch"])):
                result, run = tests.run_patch(patch, reverse=number % 2 == 1)
                if result.timed_out:
                    problem = f"the tests did not end within {tests.timeout:.0f} s"
                    outcome = MineOutcome.TIMEOUT
                    return measured.but(outcome=outcome, problem=problem)
                runs = (*getattr(measured, kind), run.results)
                measured = measured.but(trials=InstanceTrials(), **{kind: runs})
            if not measured.gold[-1]:
                problem = "no result of a test in the output"
                return measured.but(outcome=MineOutcome.NO_RESULTS, problem=problem)
            if not measured.lists[0]:
                return measured
        trials = self._judge(with_lists(row, measured), tests)
        return measured.but(trials=trials)

    def _judge(self, row: JsonObject, tests: HiddenTests) -> InstanceTrials:
        """Return the verdicts of the evaluator that will judge candidates."""
        verdicts = []
        for patch in (EMPTY_PATCH, row["patch"]):
            task = _task_of(row, patch)
            verdicts.append(self.evaluator.judge(replace(tests, task=task)))
        empty, gold = map(_trial_of, verdicts)
        trials = InstanceTrials(versions=versions(), gold=(gold,), empty=(empty,))
        return judge_trials(trials, 1)


def _is_complete(measured: Measured, repeat: int) -> bool:
    if measured.outcome or (measured.gold and not measured.lists[0]):
        return True
    return len(measured.gold) >= repeat and measured.trials != InstanceTrials()


def _task_of(row: JsonObject, patch: str) -> EvaluationTask:
    instance, hidden = split_row(row)
    prediction = Prediction(instance.instance_id, "mined", patch)
    return EvaluationTask(prediction, instance, hidden, is_trial=True)


def _trial_of(verdict: Verdict) -> Trial:
    return Trial(
        resolved=verdict.resolved,
        failed=failed_tests(verdict),
        reason=verdict.reason,
        evaluated=timestamp(),
    )


@dataclass
class Progress:
    """What is done of the commits that fit, in the order of the history."""

    total: int
    jobs: int
    say: Say
    done: dict[int, tuple[JsonObject, Measured]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def take(self, position: int, row: JsonObject, measured: Measured) -> None:
        self.done[position] = (row, measured)
        count = len(self.done)
        passed = time.monotonic() - self.started
        left = passed / count * (self.total - count) / 60
        fixed, kept = measured.lists
        words = f"{len(fixed)} fixed, {len(kept)} kept"
        if measured.reason:
            words = abbreviate(measured.reason, 160)
        self.say(
            f"[{count}/{self.total}] {row['mined']['commit'][:12]} {measured.state}: {words} "
            f"({measured.seconds:.0f} s; about {left:.0f} min left)"
        )

    def valid_rows(self) -> Iterator[tuple[JsonObject, Measured]]:
        for _, (row, measured) in sorted(self.done.items()):
            if measured.state is MineOutcome.VALID:
                yield with_lists(row, measured), measured


def _mine(
    bench: Bench, candidates: Sequence[Candidate], plan: MinePlan, say: Say
) -> int:
    progress = Progress(len(candidates), plan.jobs, say)
    started = time.monotonic()
    waiting = list(enumerate(candidates))
    running: dict[Future[tuple[JsonObject, Measured]], int] = {}
    with ThreadPoolExecutor(plan.jobs, "mining") as pool:
        while waiting or running:
            spent = (time.monotonic() - started) / 60
            if plan.minutes is not None and spent >= plan.minutes:
                waiting.clear()
            while waiting and len(running) < plan.jobs:
                position, candidate = waiting.pop(0)
                running[pool.submit(bench.measure, candidate)] = position
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                progress.take(running.pop(future), *future.result())
                _write_rows(bench, progress)
    return _conclude(bench, progress, say)


def _write_rows(bench: Bench, progress: Progress) -> None:
    rows = []
    instances = {}
    for row, measured in progress.valid_rows():
        rows.append(row)
        instances[row["instance_id"]] = measured.trials
    write_text_atomic(bench.out, "".join(row_lines(rows)))
    dataset = Dataset(str(bench.out), "test", tuple(rows))
    validity = ValidityFile(
        schema_version=VALIDITY_SCHEMA,
        dataset=dataset.identity(),
        evaluator=EvaluatorKind.LOCAL,
        repeat=1,
        started=timestamp(),
        instances=instances,
    )
    write_json_atomic(validity_path(bench.out), validity.as_json())


def validity_path(out: Path) -> Path:
    """Return the file that says that the rows in ``out`` are valid."""
    return out.with_suffix(".validity.json")


def _conclude(bench: Bench, progress: Progress, say: Say) -> int:
    measurements = [measured for _, measured in progress.done.values()]
    counts = Counter(measured.state for measured in measurements)
    rows = list(progress.valid_rows())
    unbuilt = (MineOutcome.SETUP, MineOutcome.NOT_MEASURED)
    built = len(measurements) - sum(counts[outcome] for outcome in unbuilt)
    minutes = sum(measured.seconds for measured in measurements) / 60
    cells = [
        progress.total,
        len(measurements),
        built,
        len(rows),
        sum(bool(measured.flaky) for measured in measurements),
        sum(bool(row["mined"]["unnamed"]) for row, _ in rows),
        f"{minutes / len(rows):.1f}" if rows else "",
    ]
    headings = ["fit", "tried", "built", "valid", "with flaky", "unnamed", "min a row"]
    for line in table(headings, [cells], numbers=range(len(cells))):
        say(line)
    for outcome in MineOutcome:
        if counts[outcome] and outcome is not MineOutcome.VALID:
            say(f"{outcome:14}  {counts[outcome]:5d}")
    say(f"rows            {bench.out}")
    say(f"validity        {validity_path(bench.out)}")
    if counts[MineOutcome.NOT_MEASURED] or not rows:
        return 1
    return 0
