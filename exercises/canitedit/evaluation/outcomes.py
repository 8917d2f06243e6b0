"""Run programs, several at once, and keep on disk how each ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from core.atomic import write_bytes_atomic
from core.parsing.untrusted import DamagedError, json_of, read_bytes
from core.shutdown import Shutdown
from environments.folders import Folders
from exercises.canitedit.evaluation.running import Outcome, TestedProgram, outcome_of


class KeptOutcome(Outcome):
    """How a program ended, and when; ``timestamp`` in seconds since 1970."""

    timestamp: int


@dataclass(frozen=True)
class OutcomeCache:
    """Outcomes in one environment, a file each, named by the SHA-256 of the program.

    Several processes may use it at once: a file is complete or is not there.
    """

    folder: Path

    def get(self, program: TestedProgram) -> KeptOutcome | None:
        """Return the outcome of ``program``, if it is known; a damaged file is as none."""
        try:
            return KeptOutcome.model_validate(json_of(read_bytes(self._path(program))))
        except (OSError, DamagedError, ValidationError):
            return None

    def put(self, program: TestedProgram, outcome: Outcome) -> KeptOutcome:
        kept = KeptOutcome(timestamp=int(time.time()), **outcome.model_dump())
        data = kept.model_dump_json().encode("utf-8")
        write_bytes_atomic(self._path(program), data, durable=False)
        return kept

    def _path(self, program: TestedProgram) -> Path:
        return self.folder / program.sha256[:2] / f"{program.sha256}.json"


@dataclass(frozen=True)
class ProgramPool:
    """Runs programs.

    Attributes:
        cache: takes each outcome at once, so that an evaluation that ends can be continued.
    """

    folders: Folders
    cache: OutcomeCache
    workers: int
    stop: Shutdown

    def outcomes(
        self, programs: Collection[TestedProgram], done: Callable[[], object]
    ) -> dict[str, KeptOutcome]:
        """Run ``programs``, those that run alone last and one after the other.

        ``done`` is called after each.

        Returns:
            The outcomes by the SHA-256 of the programs.
        """
        found = dict[str, KeptOutcome]()
        together = [program for program in programs if not program.alone]
        alone = [program for program in programs if program.alone]
        for ended in (self._together(together), map(self._run, alone)):
            for program, kept in ended:
                found[program.sha256] = kept
                done()
        return found

    def _together(
        self, programs: Collection[TestedProgram]
    ) -> Iterator[tuple[TestedProgram, KeptOutcome]]:
        with ThreadPoolExecutor(self.workers, "program") as pool:
            try:
                futures = [pool.submit(self._run, program) for program in programs]
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                self.stop.request("the evaluation ends")
                pool.shutdown(cancel_futures=True)
                raise

    def _run(self, program: TestedProgram) -> tuple[TestedProgram, KeptOutcome]:
        self.stop.check()
        return program, self.cache.put(program, outcome_of(self.folders, program))
