"""The progress of a run: workers report it, a display reads it. No I/O; thread-safe."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from operator import attrgetter
from threading import Lock
from typing import Protocol

from tqdm.utils import disp_trim

from swe_retry.core.money import in_words
from swe_retry.core.plaintext import one_line

_MINUTE = 60.0


INTERRUPTED = "interrupted"
COMMON_WORDS = ("budget", "error", "infra_error", INTERRUPTED)
"""The statuses of jobs that every benchmark has, beside its own for ends with a result."""
DONE = "done"


class WorkStep(StrEnum):
    """The present work on a running instance; the value is shown."""

    WAITING = "waiting for a processor"
    CHECKOUT = "checkout"
    MAP = "map"
    STARTING = "no call of the agent yet"
    ASKING = "asking"
    EDITING = "editing"
    TESTING = "testing"


@dataclass(frozen=True)
class Running:
    """A running instance.

    Attributes:
        since: a time of the clock.
        attempt: 0 before the first.
        tokens: that have arrived of the present answer, about; 0 while none arrives.
        rate: tokens a second since the first of them.
        first: the time of the first, and their number then.
    """

    instance_id: str
    since: float
    attempt: int = 0
    model: str = ""
    step: WorkStep = WorkStep.WAITING
    tokens: int = 0
    rate: float = 0.0
    first: tuple[float, int] = (0.0, 0)


@dataclass(frozen=True)
class ProgressSnapshot:
    """The run at one moment.

    Attributes:
        succeeded: jobs that are done, which ``word`` is said of.
        failed: jobs that ended without a result, unless the user interrupted them.
        spent: dollars, None when unknown; ``at_most`` with calls that may not be billed.
        projected: dollars for all at the mean of those done; None before one is done.
        running: the longest running instance first.
        retry: why the last call failed, and when it is repeated; empty after an answer.
        stopping: the running instances end at their next step.
    """

    now: float
    done: int
    total: int
    succeeded: int
    failed: int
    spent: Decimal | None
    at_most: Decimal | None
    projected: Decimal | None
    calls_per_minute: int
    seconds_left: float | None
    running: tuple[Running, ...]
    word: str
    stopping: bool
    retry: str = ""


class Steps(Protocol):
    """Takes the progress of workers."""

    def note_start(self, instance_id: str) -> None: ...

    def step(self, instance_id: str, attempt: int, model: str, step: WorkStep) -> None:
        """Note the step of an attempt; ``attempt`` is 0 before the first."""


class ProgressState:
    """Collects the events of workers; each method may be called from any thread.

    Attributes:
        descriptions: what is shown in place of an id.
        word: what is said of jobs that are done.
        more: returns further lines on the run.
        stopping: returns why the run is stopping, an empty text while it is not.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.descriptions: Mapping[str, str] = {}
        self.word = DONE
        self.more: Callable[[], Sequence[str]] = tuple
        self.stopping: Callable[[], str] = str
        self._clock = clock
        self._lock = Lock()
        self._running: dict[str, Running] = {}
        self._finished: dict[str, str] = {}
        self._durations: list[float] = []
        self._calls: deque[float] = deque()
        self._widest = 1
        self._retry = ""

    def note_earlier(self, statuses: Mapping[str, str]) -> None:
        """Count the instances, by id, that earlier starts finished."""
        with self._lock:
            self.total += len(statuses)
            self._finished.update(statuses)

    def note_start(self, instance_id: str) -> None:
        with self._lock:
            description = self.descriptions.get(instance_id, instance_id)
            self._running[instance_id] = Running(description, self._clock())
            self._widest = max(self._widest, len(self._running))

    def step(self, instance_id: str, attempt: int, model: str, step: WorkStep) -> None:
        with self._lock:
            if instance_id in self._running:
                running = self._running[instance_id]
                self._running[instance_id] = replace(
                    running,
                    attempt=attempt,
                    model=model,
                    step=step,
                )

    def note_call(self) -> None:
        """Count an answered model call."""
        with self._lock:
            now = self._clock()
            self._retry = ""
            self._calls.append(now)
            self._forget_calls(now)

    def note_retry(self, line: str) -> None:
        """Keep the last failure of a call until one is answered."""
        with self._lock:
            self._retry = line

    def note_tokens(self, instance_id: str, tokens: int) -> None:
        """Note how many tokens of an answer have arrived; 0 when it has ended."""
        with self._lock:
            running = self._running.get(instance_id)
            if running is None:
                return
            now = self._clock()
            first, number = running.first
            rate = 0.0
            if not running.tokens or tokens < running.tokens:
                first, number = now, tokens
            elif now > first:
                rate = (tokens - number) / (now - first)
            self._running[instance_id] = replace(
                running, tokens=tokens, rate=rate, first=(first, number)
            )

    def note_end(self, instance_id: str, status: str) -> int:
        """Note the end of an instance; return how many are done, this one unless interrupted."""
        with self._lock:
            if instance_id in self._running:
                running = self._running.pop(instance_id)
                self._durations.append(self._clock() - running.since)
            if status != INTERRUPTED:
                self._finished[instance_id] = status
            return len(self._finished)

    def describe_steps(self) -> str:
        """Return how many instances are at each step: ``2 asking, 1 testing``."""
        with self._lock:
            steps = Counter(running.step for running in self._running.values())
        return ", ".join(f"{count} {step.value}" for step, count in steps.items())

    def snapshot(
        self,
        spent: Decimal | None,
        at_most: Decimal | None = None,
    ) -> ProgressSnapshot:
        """Return the present progress; ``spent`` are the dollars of the run."""
        with self._lock:
            now = self._clock()
            self._forget_calls(now)
            running = sorted(self._running.values(), key=attrgetter("since"))
            statuses = list(self._finished.values())
            done = len(statuses)
            return ProgressSnapshot(
                now=now,
                done=done,
                total=self.total,
                succeeded=statuses.count(self.word),
                failed=statuses.count("error") + statuses.count("infra_error"),
                spent=spent,
                at_most=at_most,
                projected=spent / done * self.total
                if done and spent is not None
                else None,
                calls_per_minute=len(self._calls),
                seconds_left=self._seconds_left(
                    done, [now - instance.since for instance in running]
                ),
                running=tuple(running),
                word=self.word,
                stopping=bool(self.stopping()),
                retry=self._retry,
            )

    def _seconds_left(self, done: int, ages: list[float]) -> float | None:
        if not self._durations:
            return None
        mean = sum(self._durations) / len(self._durations)
        rest = [max(mean - age, 0.0) for age in ages]
        waiting = max(self.total - done - len(ages), 0)
        longest = mean if waiting else max(rest, default=0.0)
        seconds = max(longest, (waiting * mean + sum(rest)) / self._widest)
        # The last ones take longer than the others did: how much longer is unknown.
        return seconds or None

    def _forget_calls(self, now: float) -> None:
        while self._calls and self._calls[0] <= now - _MINUTE:
            self._calls.popleft()


def headline(seen: ProgressSnapshot) -> str:
    """Return the progress in one line, without values that are unknown."""
    parts = [
        f"{seen.done}/{seen.total} done",
        f"{seen.succeeded} {seen.word}",
        f"{seen.failed} failed",
        "cost unknown" if seen.spent is None else in_words(seen.spent, 2),
    ]
    if seen.stopping:
        parts.insert(0, "stopping")
    if seen.projected is not None:
        parts[-1] += f" of ~{in_words(seen.projected, 2)}"
    if seen.at_most is not None and seen.at_most != seen.spent:
        parts[-1] += f" (at most {in_words(seen.at_most, 2)})"
    if seen.seconds_left is not None and seen.done < seen.total:
        parts.append(f"{duration(seen.seconds_left)} left")
    return ", ".join([*parts, f"{seen.calls_per_minute} calls/min"])


def running_lines(
    snapshot: ProgressSnapshot,
    rows: int,
    columns: int,
    first_lines: Sequence[str] = (),
) -> list[str]:
    """Return a line for each running instance that a terminal of that size has room for.

    ``first_lines`` come first, in at most half of the room. There are at most ``rows - 2`` lines in
    all, and the last one counts the instances that are not shown. The last column stays free:
    writing there makes some terminals start a new line.
    """
    first = [f"  {one_line(line)}" for line in first_lines][: max(rows - 2, 0) // 2]
    last = []
    if snapshot.retry:
        last.append(f"  {one_line(snapshot.retry)}")
    room = max(rows - 2 - len(first) - len(last), 0)
    visible = (
        snapshot.running
        if len(snapshot.running) <= room
        else snapshot.running[: max(room - 1, 0)]
    )
    lines = [_line(running, snapshot.now) for running in visible]
    left_out = len(snapshot.running) - len(visible)
    if left_out:
        lines.append(f"  … and {left_out} more")
    width = max(columns - 1, 0)
    fitting = [*first, *lines[:room], *last]
    return [disp_trim(line, width) for line in fitting[: max(rows - 2, 0)]]


def _line(running: Running, now: float) -> str:
    parts = [one_line(running.instance_id)]
    if running.attempt:
        parts.append(f"attempt {running.attempt}")
    if running.model:
        parts.append(one_line(running.model))
    parts += [running.step.value, duration(now - running.since)]
    if running.tokens:
        parts.append(f"{running.tokens} tokens, {running.rate:.1f}/s")
    return "  " + "  ".join(parts)


def duration(seconds: float) -> str:
    """Return ``m:ss``, from an hour on ``h:mm:ss``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"
