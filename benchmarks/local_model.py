"""How often a model on one's own server solves exercises, against aider with that model.

    python -m benchmarks.local_model --server http://127.0.0.1:8080/v1 --exercises 12 \
        --formats whole,diff --out FOLDER [--aider CHECKOUT] [--format markdown]

The exercises are Python's of Exercism, the first of a shuffled list (``--seed``). The run is one of
``swe_retry_exercises.exercism``, ``FOLDER/predictions/ours``, with one worker at temperature 0; the
same command continues it. Tokens, seconds and failed calls are those of the run's journals,
outcomes and malformed replies those of its results.

CHECKOUT is one of aider, with an environment ``.venv`` that has aider and pytest:

    git clone --branch v0.86.2 https://github.com/Aider-AI/aider CHECKOUT
    python3.12 -m venv CHECKOUT/.venv; CHECKOUT/.venv/bin/pip install aider-chat==0.86.2 pytest

Then each exercise is given to both, one after the other, and each second one to aider first. Aider
works by ``run_test`` of its own benchmark, in its protocol: no stream, temperature 0, up to three
corrections of malformed replies in a try, where ours has one. Its tests run in the sandbox of our
own. An exercise in which a call of aider failed is no result, because the benchmark counts it as
failed; calls for a summary of the conversation do not count. ``FOLDER/aider.jsonl`` has a line for
each exercise.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.request import Request, urlopen

import typer
from pydantic import TypeAdapter

from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import quantity, table
from swe_retry.environments.layout import write_files
from swe_retry.environments.local.bubblewrap import sandbox_argv_with
from swe_retry.launch.program import Program
from swe_retry.record.store import RunStore
from swe_retry.record.versions import TOP
from swe_retry.report.statistics.comparing import compare_verdicts
from swe_retry.report.statistics.methods import Share
from swe_retry.report.statistics.wording import of
from swe_retry.runner.calls.journal import (
    AnsweredEntry,
    Journal,
    journals_of,
    starts_and_ends,
)
from swe_retry.runner.settings import default_cache
from swe_retry_exercises.exercism.catalog import Exercise, fetched_catalog, read_catalog
from swe_retry_exercises.exercism.results import ColumnName, read_facts, read_result
from swe_retry_exercises.exercism.settings import Exercises

OURS = "ours"
AIDER = "aider"
_NAME_SECONDS = 10.0
_PRACTICE = Path("python/exercises/practice")


@dataclass(frozen=True)
class PlayedExercise:
    """How one agent did on one exercise in one edit format.

    Attributes:
        outcomes: of its tries; only the last can be true.
        replies: answered calls, without those that summarize.
        failed_calls: that got no answer, or an unfinished one.
        summary_tokens: prompt tokens of calls that summarize a conversation.
        seconds: of the answered calls.
        problem: why there is no result; empty where there is one.
    """

    agent: str
    exercise: str
    edit_format: str
    outcomes: tuple[bool, ...] = ()
    malformed: int = 0
    replies: int = 0
    failed_calls: int = 0
    prompt_tokens: int = 0
    summary_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    problem: str = ""

    def solved_within(self, tries: int) -> bool:
        return any(self.outcomes[:tries])


_ROW = TypeAdapter(PlayedExercise)


@dataclass(frozen=True)
class LocalModelBenchmark:
    """What is asked of whom.

    Attributes:
        server: the base of its addresses, with ``/v1``.
        source: the exercises of ``--source``; None for those that are fetched.
        settings: ``NAME=VALUE``, passed on to our run.
        checkout: of aider; None without.
        call_seconds: the time limit of a call of aider, and of silence in ours.
    """

    server: str
    model: str
    source: Path | None
    exercises: Sequence[Exercise]
    formats: Sequence[str]
    tries: int
    out: Path
    settings: Sequence[str]
    checkout: Path | None
    call_seconds: float

    @property
    def store(self) -> RunStore:
        return RunStore(self.out, OURS)

    @property
    def environment(self) -> dict[str, str]:
        # The client of OpenAI wants a key, also where the server does not.
        return {"OPENAI_API_KEY": "none", **os.environ}

    def run(self, is_late: Callable[[], bool]) -> None:
        """Give the exercises to each agent; what was done before is left alone."""
        if not self.checkout:
            self._run_ours(self.exercises)
            return
        for number, exercise in enumerate(self.exercises):
            if is_late():
                print("--seconds are used up; the same command goes on")
                return
            if number % 2:
                self._run_aider(exercise)
            self._run_ours([exercise])
            if not number % 2:
                self._run_aider(exercise)

    def _run_ours(self, exercises: Sequence[Exercise]) -> None:
        """Add exercises to our run.

        Raises:
            UserError: it was refused; its output says why.
        """
        keys = ",".join(exercise.key for exercise in exercises)
        options: dict[str, object] = {
            "--models": self.model,
            "--api-base": self.server,
            "--price": f"{self.model}=0,0",
            "--formats": ",".join(self.formats),
            "--tries": self.tries,
            "--environment": "local",
            "--workers": 1,
            "--out": self.out,
            "--run": OURS,
        }
        if self.source:
            options["--exercises"] = self.source
        argv = [sys.executable, "-m", "swe_retry_exercises.exercism", "run"]
        for option, value in options.items():
            argv += [option, str(value)]
        timeout = f"calls.timeout={self.call_seconds:g}"
        for setting in (f"exercises.ids={keys}", timeout, *self.settings):
            argv += ["--set", setting]
        ended = subprocess.run(argv, cwd=TOP, env=self.environment, check=False)
        if ended.returncode not in (0, 1):
            raise UserError(f"our run ended with {ended.returncode}; see above")

    def our_rows(self) -> Iterator[PlayedExercise]:
        """Yield the exercises of our run, its journals read."""
        folder = self.store.folder
        if not self.store.run_file.exists():
            return
        facts = read_facts(folder)
        for column in facts.columns:
            for key in facts.exercises:
                yield self._our_row(column, key)

    def _our_row(self, column: ColumnName, key: str) -> PlayedExercise:
        tokens = {"prompt": 0, "completion": 0}
        seconds = 0.0
        replies = 0
        failed = 0
        for path in journals_of(self.store.journals, column.job_key(key)):
            for _, end in starts_and_ends(Journal(path).entries()):
                if not isinstance(end, AnsweredEntry):
                    failed += 1
                    continue
                replies += 1
                seconds += end.reply.seconds
                if end.reply.usage:
                    tokens["prompt"] += end.reply.usage.prompt_tokens or 0
                    tokens["completion"] += end.reply.usage.completion_tokens or 0
        outcomes: tuple[bool, ...] = ()
        malformed = 0
        problem = "it is not done"
        with suppress(FileNotFoundError):
            result = read_result(column.result_path(self.store.folder, key))
            outcomes = result.tests_outcomes
            malformed = result.num_malformed_responses
            problem = ""
        return PlayedExercise(
            agent=OURS,
            exercise=key,
            edit_format=column.edit_format,
            outcomes=outcomes,
            malformed=malformed,
            replies=replies,
            failed_calls=failed,
            prompt_tokens=tokens["prompt"],
            completion_tokens=tokens["completion"],
            seconds=seconds,
            problem=problem,
        )

    @property
    def aider_file(self) -> Path:
        return self.out / "aider.jsonl"

    def aider_rows(self) -> list[PlayedExercise]:
        """Return aider's exercises, the last line of each."""
        if not self.aider_file.exists():
            return []
        rows = {}
        for line in self.aider_file.read_text().splitlines():
            row = _ROW.validate_json(line)
            rows[row.exercise, row.edit_format] = row
        return list(rows.values())

    def _run_aider(self, exercise: Exercise) -> None:
        done = set()
        for row in self.aider_rows():
            if not row.problem:
                done.add((row.exercise, row.edit_format))
        for edit_format in self.formats:
            if (exercise.key, edit_format) in done:
                continue
            row = self._ask_aider(exercise, edit_format)
            with self.aider_file.open("a") as stream:
                stream.write(json.dumps(asdict(row)) + "\n")
            outcome = row.problem or f"tries {list(row.outcomes)}"
            print(f"aider: {exercise.key} {edit_format}: {outcome}", flush=True)

    def _ask_aider(self, exercise: Exercise, edit_format: str) -> PlayedExercise:
        """Have aider work in a folder of its own, which is kept with its log."""
        assert self.checkout
        stamp = time.strftime("%Y-%m-%d-%H-%M-%S")
        top = self.out / "aider" / f"{stamp}--{edit_format}--{exercise.name}"
        work = top / "work" / _PRACTICE / exercise.name
        for folder in (top / "pristine" / _PRACTICE / exercise.name, work):
            write_files(folder, exercise.files)
        python = aider_python(self.checkout)
        home = top / "home"
        # Aider would fetch litellm's map of prices.
        prices = ".aider/caches/model_prices_and_context_window.json"
        write_files(home, {prices: b"{}"})
        _write_test_program(top / "bin/pytest", python, work)
        row_file = top / "row.json"
        order = {
            "benchmark": str(self.checkout / "benchmark"),
            "pristine": str(top / "pristine"),
            "folder": str(work),
            "model": self.model,
            "edit_format": edit_format,
            "tries": self.tries,
            "call_seconds": self.call_seconds,
            "row": str(row_file),
        }
        environment = {
            **self.environment,
            "HOME": str(home),
            "PATH": f"{top / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "AIDER_DOCKER": "1",
            "OPENAI_API_BASE": self.server,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        program = Path(__file__).with_name("aider_exercise.py")
        with (top / "log.txt").open("wb") as log:
            subprocess.run(
                [python, program, json.dumps(order)],
                cwd=top,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )
        raw = {"error": f"aider wrote no result; see {top / 'log.txt'}"}
        if row_file.exists():
            raw = json.loads(row_file.read_text())
        return aider_row(exercise.key, edit_format, raw)


def _write_test_program(path: Path, python: Path, work: Path) -> None:
    """Write the ``pytest`` that aider calls: in our sandbox, with the Python of aider."""
    ask = "import sys; print(sys.prefix, sys.base_prefix, sep='\\n')"
    prefixes = subprocess.check_output([python, "-c", ask], text=True).splitlines()
    argv = sandbox_argv_with(
        [str(python), "-m", "pytest"],
        {work: work},
        [python.parent.parent, *map(Path, prefixes)],
        network=False,
    )
    write_files(
        path.parent, {path.name: f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n'.encode()}
    )
    path.chmod(0o755)


def aider_row(exercise: str, edit_format: str, raw: dict[str, Any]) -> PlayedExercise:
    problem = raw.get("error", "").strip().rpartition("\n")[2]
    answered = []
    summary_tokens = 0
    replies = 0
    failed = 0
    for call in raw.get("calls", ()):
        if "prompt_tokens" not in call:
            failed += 1
            # A summary that ends with its program has no part in the outcome.
            if not call["summary"]:
                problem = problem or call.get("error", "a call did not end")
            continue
        answered.append(call)
        if call["summary"]:
            summary_tokens += call["prompt_tokens"]
        else:
            replies += 1
    return PlayedExercise(
        agent=AIDER,
        exercise=exercise,
        edit_format=edit_format,
        outcomes=tuple(raw.get("outcomes", ())),
        malformed=raw.get("malformed", 0),
        replies=replies,
        failed_calls=failed,
        prompt_tokens=sum(call["prompt_tokens"] for call in answered),
        summary_tokens=summary_tokens,
        completion_tokens=sum(call["completion_tokens"] for call in answered),
        seconds=sum(call["seconds"] for call in answered),
        problem=problem,
    )


def aider_python(checkout: Path) -> Path:
    """Return the Python of a checkout of aider.

    Raises:
        UserError: it lacks the benchmark or the environment.
    """
    python = checkout / ".venv/bin/python"
    for path in (checkout / "benchmark/benchmark.py", python):
        if not path.exists():
            raise UserError(
                f"--aider {checkout}: there is no {path}; give a checkout of aider with an "
                "environment .venv that has aider-chat and pytest"
            )
    return python


def result_table(
    rows: Sequence[PlayedExercise], tries: int, *, markdown: bool
) -> Iterator[str]:
    """Yield a row for each agent in each format, then the paired comparisons."""
    head = ["agent, format", "results"]
    head += [f"try {number}" for number in range(1, tries + 1)]
    head += [
        "malformed replies",
        "prompt tokens",
        "reply tokens",
        "seconds",
        "failed calls",
    ]
    groups = _groups(rows)
    cells = []
    for (agent, edit_format), group in groups.items():
        cells.append([f"{agent}, {edit_format}", *_cells(group, tries)])
    yield from table(head, cells, numbers=range(1, len(head)), markdown=markdown)
    yield "Tokens and seconds are those of an exercise, in the mean."
    yield from _summary_lines(groups)
    for row in rows:
        if row.problem:
            name = f"{row.agent}, {row.edit_format}, {row.exercise}"
            yield f"no result: {name}: {row.problem}"
    for edit_format in dict.fromkeys(name for _, name in groups):
        ours = groups.get((OURS, edit_format), [])
        theirs = groups.get((AIDER, edit_format), [])
        if ours and theirs:
            for number in range(1, tries + 1):
                yield _comparison(edit_format, number, ours, theirs)


def _groups(
    rows: Iterable[PlayedExercise],
) -> dict[tuple[str, str], list[PlayedExercise]]:
    """Return the rows by format and agent."""
    groups: dict[tuple[str, str], list[PlayedExercise]] = {}
    for row in sorted(rows, key=lambda row: row.edit_format):
        groups.setdefault((row.agent, row.edit_format), []).append(row)
    return groups


def _cells(group: Sequence[PlayedExercise], tries: int) -> list[str]:
    results = [row for row in group if not row.problem]
    count = len(results)
    cells = [f"{count} of {len(group)}"]
    for number in range(1, tries + 1):
        solved = sum(row.solved_within(number) for row in results)
        cells.append(of(Share.compute(solved, count)))
    replies = sum(row.replies for row in results)
    malformed = sum(row.malformed for row in results)
    cells.append(f"{malformed} of {replies}")
    for name in ("prompt_tokens", "completion_tokens", "seconds"):
        mean = sum(getattr(row, name) for row in results) / max(count, 1)
        cells.append(f"{mean:,.0f}")
    cells.append(str(sum(row.failed_calls for row in group)))
    return cells


def _summary_lines(
    groups: dict[tuple[str, str], list[PlayedExercise]],
) -> Iterator[str]:
    for (agent, edit_format), group in groups.items():
        results = [row for row in group if not row.problem]
        tokens = sum(row.summary_tokens for row in results) / max(len(results), 1)
        if tokens:
            yield f"{agent}, {edit_format}: {tokens:,.0f} of the prompt tokens are for summaries."


def _comparison(
    edit_format: str,
    tries: int,
    ours: Iterable[PlayedExercise],
    theirs: Iterable[PlayedExercise],
) -> str:
    pair = compare_verdicts(
        OURS, _verdicts(ours, tries), AIDER, _verdicts(theirs, tries)
    )
    counts = pair.table
    compared = counts.both + counts.only_a + counts.only_b + counts.neither
    if pair.p_value is None:
        return f"{edit_format}: no exercise has a result of both"
    parts = [
        f"{edit_format}, {quantity(tries, 'try', 'tries')}:",
        f"of {quantity(compared, 'exercise')} both solve {counts.both},",
        f"only ours {counts.only_a}, only aider {counts.only_b};",
        f"exact McNemar p = {pair.p_value:.3g}",
    ]
    return " ".join(parts)


def _verdicts(rows: Iterable[PlayedExercise], tries: int) -> dict[str, bool]:
    verdicts = {}
    for row in rows:
        if not row.problem:
            verdicts[row.exercise] = row.solved_within(tries)
    return verdicts


def listed_model(server: str, key: str) -> str:
    """Return the only model that the server lists.

    Raises:
        UserError: it does not answer, or lists several.
    """
    request = Request(f"{server}/models", headers={"Authorization": f"Bearer {key}"})
    try:
        with urlopen(request, timeout=_NAME_SECONDS) as response:
            names = [model["id"] for model in json.load(response)["data"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"--server {server}: it lists no models ({error}); start it, and give its address "
            "with /v1, or name the model by --model"
        ) from error
    if len(names) != 1:
        raise UserError(f"--model: choose one of {', '.join(names)}")
    return str(names[0])


def main(
    server: Annotated[str, typer.Option(help="Its address, with /v1.")],
    out: Annotated[Path, typer.Option(help="Keep runs and rows in this folder.")],
    model: Annotated[str, typer.Option(help="Default: the only one it lists.")] = "",
    exercises: Annotated[int, typer.Option(min=1)] = 12,
    formats: str = "whole,diff",
    tries: Annotated[int, typer.Option(min=1)] = 2,
    seed: Annotated[int, typer.Option(help="Shuffles the exercises.")] = 1,
    source: Annotated[
        Path | None,
        typer.Option(
            help="A folder or .tar.gz of exercises; default: exercism/python."
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of our run.")
    ] = None,
    aider: Annotated[Path | None, typer.Option(help="A checkout of aider.")] = None,
    call_seconds: float = 3600.0,
    seconds: Annotated[
        float | None,
        typer.Option(help="With --aider, begin no exercise after these seconds."),
    ] = None,
    only_table: Annotated[bool, typer.Option(help="Ask nothing.")] = False,
    format: str = "text",
) -> int:
    """Give exercises to the model of a server, also by aider, and print one table."""
    deadline = time.monotonic() + (seconds or float("inf"))
    server = server.rstrip("/")
    cache = default_cache()
    catalog = read_catalog(source) if source else fetched_catalog(cache)
    if aider:
        aider_python(aider)
    chosen = Exercises(
        languages=("python",), shuffle=seed, slice=f"0:{exercises}"
    ).select(catalog.exercises)
    key = os.environ.get("OPENAI_API_KEY", "none")
    benchmark = LocalModelBenchmark(
        server=server,
        model=model or listed_model(server, key),
        source=source and source.absolute(),
        exercises=chosen,
        formats=formats.split(","),
        tries=tries,
        out=out.absolute(),
        settings=setting or [],
        checkout=aider and aider.absolute(),
        call_seconds=call_seconds,
    )
    benchmark.out.mkdir(parents=True, exist_ok=True)
    if not only_table:
        benchmark.run(lambda: time.monotonic() > deadline)
    rows = [*benchmark.our_rows(), *benchmark.aider_rows()]
    for line in result_table(rows, tries, markdown=format == "markdown"):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(Program(module="benchmarks.local_model", default=main).main())
