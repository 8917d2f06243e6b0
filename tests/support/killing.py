"""Runs that are killed: their processes, their provider, and what they left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import psutil

from swe_retry.attempts.config import ModelChoice, RunConfig
from swe_retry.core.atomic import UNFINISHED
from swe_retry.demo.setup import DEMO_DATASET
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.leftovers import remove_containers
from swe_retry.environments.local.confinement import remove_groups
from swe_retry.instances.dataset import load_dataset
from swe_retry.runner.calls.journal import (
    AskedEntry,
    EndEntry,
    Journal,
    starts_and_ends,
)
from swe_retry.runner.calls.ledger import (
    LedgerLine,
    at_most,
    by_instance,
    read_ledger,
    total,
)
from swe_retry.runner.leftovers import kill_processes, run_key
from swe_retry.runner.modelsource import read_recording, recorded_calls
from tests.support import read_json, without
from tests.support.commands import Bomb, Preloaded, Started
from tests.support.provider import Answer, Provider, hash_of
from tests.support.runs import EDIT, Start, live
from tests.support.start import run_command

MODELS = ("gpt-4o", "gpt-4o-mini")
TEMPERATURES = (0.0, 0.25, 0.5)
_LATENCY = 0.03


class DemoProvider(Provider):
    """Answers by what is asked alone, as the demo's recording does: the order changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        instances = load_dataset("demo", "test").instances()
        self._issues = {i.problem_statement.strip(): i.instance_id for i in instances}
        self._replies = {name: _recorded(name) for name in self._issues.values()}

    def answer(self, request: dict[str, Any]) -> Answer:
        prompt = "\n".join(
            str(m["content"]) for m in request["messages"] if m["role"] == "user"
        )
        name = next(name for issue, name in self._issues.items() if issue in prompt)
        try_ = TEMPERATURES.index(request["temperature"])
        number = try_ * len(MODELS) + MODELS.index(request["model"]) + 1
        replies = self._replies[name].get(number) or self._replies[name][1]
        step = sum(m["role"] == "assistant" for m in request["messages"])
        text = "That is all."
        if step < len(replies):
            text = replies[step]
        return Answer(text, hang=_LATENCY)


def _recorded(name: str) -> dict[int, list[str]]:
    attempts = read_recording(DEMO_DATASET / "replies" / f"{name}.json")
    return {
        n: [call.content for call in recorded_calls(a)] for n, a in attempts.items()
    }


def hashes(provider: Provider) -> Counter[str]:
    """Return how often each request came, by the hash that journals use."""
    return Counter(map(hash_of, provider.requests))


@dataclass(frozen=True)
class Ended:
    """How a process of the harness ended: exit code (-9 when killed) and what it printed."""

    code: int
    output: str

    @property
    def writes(self) -> int:
        match = re.search(r"^writes: (\d+)$", self.output, re.M)
        if match:
            return int(match[1])
        return 0


@dataclass
class Harness:
    """Starts processes of the harness, or of ``script``, that write below ``folder``."""

    preloaded: Preloaded
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    script: str = "harness.py"
    _count: int = 0

    def run(
        self,
        argv: Sequence[str],
        *,
        kill_at: int = 0,
        torn: bool = False,
        seconds: float | None = None,
    ) -> Ended:
        """Run the command with ``argv`` and wait for its end.

        Args:
            kill_at: the number of the write at which it dies; 0 for none.
            torn: half of that write is made.
            seconds: after which it is killed.
        """
        started = self.start(argv, kill_at=kill_at, torn=torn)
        with suppress(subprocess.TimeoutExpired):
            started.wait(seconds)
        started.kill()
        return self.wait_for_end(started)

    def start(
        self,
        argv: Sequence[str],
        *,
        kill_at: int = 0,
        torn: bool = False,
    ) -> Started:
        """Start as ``run`` does, and do not wait."""
        self._count += 1
        # A file: processes that outlive a kill would keep a pipe open.
        with self._output.open("wb") as output:
            return self.preloaded.start(
                *argv,
                script=self.script,
                env={**os.environ, **self.environ},
                output=output.fileno(),
                bomb=Bomb(kill_at, torn),
            )

    def wait_for_end(self, started: Started) -> Ended:
        """Wait for the process that was started last and return how it ended."""
        return Ended(started.wait(), self._output.read_text(errors="replace"))

    @property
    def _output(self) -> Path:
        return self.folder / f"output-{self._count}.txt"


@dataclass(frozen=True)
class Left:
    """What a run ``r`` has left under ``out``."""

    out: Path

    @property
    def folder(self) -> Path:
        return self.out / "predictions/r"

    def results(self) -> dict[str, Any]:
        """Return all that a run decides: predictions to the byte, the rest without seconds."""
        results = {}
        for path in sorted(self.folder.rglob("*")):
            is_result = path.suffix in (".json", ".md", ".gz")
            if is_result and path.name != "run.json" and "replaced" not in path.parts:
                results[str(path.relative_to(self.folder))] = _content(path)
        return results

    def finished(self) -> dict[str, tuple[int, int]]:
        """Return inode and time of each finished instance's files, all of them whole."""
        states = {}
        for path in self.folder.glob("*.json"):
            json.loads(path.read_text())
            if path.name != "run.json":
                for file in (path, *self.beside(path)):
                    state = file.stat()
                    states[str(file)] = (state.st_ino, state.st_mtime_ns)
        return states

    def beside(self, prediction: Path) -> Iterator[Path]:
        """Yield what was written before a prediction, whole."""
        path = self.folder / "trajectories" / prediction.name
        json.loads(path.read_text())
        yield path

    def lines(self) -> list[LedgerLine]:
        return list(read_ledger(self.folder / "ledger.jsonl").values)

    def calls(self) -> list[tuple[str, AskedEntry, EndEntry | None]]:
        """Return instance, question and end of all calls in the journals."""
        calls = []
        for path in sorted((self.out / "logs/r/journals").glob("*.jsonl")):
            for question, end in starts_and_ends(Journal(path).entries()):
                calls.append((path.stem, question, end))
        return calls

    def count(self, kind: str) -> Counter[tuple[str, int, str]]:
        """Return how many calls ended so, by instance, attempt and request."""
        counts = Counter[tuple[str, int, str]]()
        for name, question, end in self.calls():
            if end is not None and end.kind is kind:
                counts[name, question.attempt, question.request_sha256] += 1
        return counts

    def litter(self, cache: Path) -> list[str]:
        """Return what should not be there once a run has ended."""
        key = run_key(self.folder)
        paths = [*self.folder.glob(".*"), *(cache / "work").glob("*")]
        for top in (self.out, cache):
            paths += top.rglob(f"*{UNFINISHED}")
        # Git's and our own temporary folders; what is kept does not begin so.
        for part in ("snapshots", "demo-mirrors", "mirrors"):
            paths += filter(Path.is_dir, (cache / part).rglob(".*"))
        litter = [*map(str, paths), *remove_groups(key)]
        client = connect()
        if client is not None:
            litter += remove_containers(client, key)
            client.close()
        return litter + kill_processes(key)


def _content(path: Path) -> Any:
    if path.suffix != ".json":
        return path.read_bytes()
    names = ["cost_at_most"]  # a call that was killed may have been billed
    if path.parent.name == "trajectories":
        names.append("seconds")
    return without(read_json(path), *names)


def check_ledger(measure: Left, left: Left) -> None:
    """Every call stands in the ledger once, and sums are exact."""
    lines = left.lines()
    calls = left.calls()
    assert all(end is not None for _, _, end in calls)
    names = sorted(question.call for _, question, _ in calls)
    assert sorted(line.call for line in lines) == names
    bounds = {question.call: question.bound for _, question, _ in calls}
    dollars = total(lines)
    assert dollars is not None
    assert Fraction(dollars) == sum(Fraction(line.paid or 0) for line in lines)
    answered = []
    for line in lines:
        if line.kind == "answered":
            answered.append(line)
        elif line.kind == "lost":
            assert line.cost == bounds[line.call]
    assert total(answered) == total(measure.lines())
    assert by_instance(answered) == by_instance(measure.lines())


ALL = (
    "demo__bank-1",
    "demo__bank-2",
    "demo__textkit-1",
    "demo__textkit-2",
    "demo__units-1",
)


def predictions(out: Path) -> dict[str, bytes]:
    paths = (out / "predictions/r").glob("demo__*.json")
    return {path.name: path.read_bytes() for path in paths}


def results(out: Path) -> dict[str, Any]:
    """Return the predictions without what lost calls may have cost."""
    decoded = {}
    for name, content in predictions(out).items():
        decoded[name] = without(json.loads(content), "cost_at_most")
    return decoded


def ledger(out: Path) -> list[LedgerLine]:
    return list(read_ledger(out / "predictions/r/ledger.jsonl").values)


def talkative(provider: Provider, **changes: Any) -> RunConfig:
    """A run of many calls: the edits fit one file of one repository."""
    models = (ModelChoice.parse("gpt-4o@diff", any_name=True),)
    return live(
        provider, **{"models": models, "tries": 2, "call_timeout": 30, **changes}
    )


def requests_of(provider: Provider) -> Counter[str]:
    return Counter(json.dumps(request["messages"]) for request in provider.requests)


def wait_for(
    count: int,
    provider: Provider,
    run: Future[int] | None = None,
) -> None:
    """Wait until so many requests were received; a run that ends before raises its error."""
    while len(provider.requests) < count:
        assert run is None or not run.done(), run and run.result()
        time.sleep(0.02)


def exact_total(here: Path, there: Path) -> None:
    """The replies cost the same; on top come the bounds of the calls that were lost."""
    bounds = {}
    for path in (there / "logs/r").rglob("*.jsonl"):
        for entry in map(json.loads, path.read_text().splitlines()):
            if entry["kind"] == "asked":
                bounds[entry["call"]] = Decimal(entry["bound"])
    lines = ledger(there)
    lost = [bounds[line.call] for line in lines if line.kind == "failed"]
    paid = total(ledger(here))
    assert paid is not None
    assert total(lines) == paid
    assert at_most(lines) == sum(lost, paid)


def kill_in_the_middle(
    provider: Provider,
    here: Start,
    there: Start,
    when: Sequence[int],
    victims: Callable[[], Sequence[psutil.Process]],
    kill: Callable[[], None],
    hang: float,
) -> int:
    """Run ``here``, then ``there``, where workers are killed after so many requests.

    Replies take ``hang`` seconds there, and one of the ``victims`` waits for one when it is killed.

    Returns:
        How often an instance lost its worker.
    """
    provider.will_answer(EDIT)
    assert run_command(talkative(provider), here, lambda _: None) == 0
    needed = requests_of(provider)
    provider.requests.clear()
    provider.answers.clear()
    provider.will_answer(Answer(EDIT, hang=hang))
    with ThreadPoolExecutor(1) as other:
        run = other.submit(run_command, talkative(provider), there, lambda _: None)
        for number, count in enumerate(when):
            wait_for(count, provider, run)
            # A node that came back late may get no further job before the run ends.
            if not kill_waiting(provider, run, victims, kill):
                assert number, "no call of theirs was in flight"
                break
        code = run.result()
    log_file = (there.out / "predictions/r/harness.log").read_text()
    assert code == 0, log_file
    assert results(there.out) == results(here.out)
    died = log_file.count("its worker died")
    lines = Counter(line.kind for line in ledger(there.out))
    # A call in flight at the kill is charged with its bound and made again; no other is.
    assert lines["answered"] == needed.total()
    assert 0 < lines["failed"] <= died
    extra = requests_of(provider) - needed
    assert requests_of(provider).total() == needed.total() + extra.total()
    assert extra.total() <= lines["failed"]
    exact_total(here.out, there.out)
    return died


def kill_waiting(
    provider: Provider,
    run: Future[int],
    victims: Callable[[], Sequence[psutil.Process]],
    kill: Callable[[], None],
) -> bool:
    """Kill when one of the ``victims`` has a call in flight; tell whether the run was not over.

    No reply leaves meanwhile.
    """
    while not run.done():
        with provider.holding:
            if provider.waiting & ports_of(victims()):
                kill()
                return True
        time.sleep(0.02)
    return False


def ports_of(processes: Sequence[psutil.Process]) -> set[int]:
    """Return the local ports of the connections of ``processes``."""
    ports = set[int]()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            for connection in process.net_connections("tcp"):
                if connection.laddr:
                    ports.add(connection.laddr.port)
    return ports


def rays_of(pid: int) -> list[psutil.Process]:
    """Return the processes of a driver's own Ray."""
    processes = psutil.Process(pid).children(recursive=True)
    return [
        process for process in processes if "ray" in " ".join(words_of(process)).lower()
    ]


def workers_of(pid: int) -> list[psutil.Process]:
    """Return the workers of a driver's own Ray."""
    return [
        process
        for process in rays_of(pid)
        if "".join(words_of(process)).startswith("ray::Worker")
    ]


def words_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process; empty if it has just ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
