"""Keep trials: in the validity file as they end, and on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from core.errors import InfrastructureError, UserError
from core.plaintext import counted, one_line
from reports.validity.file import InstanceTrials, ValidityFile, write_validity
from reports.validity.trials import PatchKind
from runs.progress.state import duration


@dataclass
class Keeper:
    """Writes the file after each trial, so that a killed command loses only those in work.

    Attributes:
        content: of the file.
        say: prints a line.
    """

    path: Path
    content: ValidityFile
    say: Callable[[str], None]
    _lock: Lock = field(default_factory=Lock)
    _said: set[str] = field(default_factory=set)
    _began: float = 0.0
    _done: int = 0
    _total: int = 0

    def start(self, total: int) -> None:
        """Write what is known before the ``total`` trials that are left."""
        self._began, self._total = time.monotonic(), total
        write_validity(self.path, self.content)
        kept = sum(len((*one.gold, *one.empty)) for one in self.content.instances.values())
        words = f"; {counted(kept, 'trial')} known" if kept else ""
        count = counted(len(self.content.instances), "instance")
        self.say(f"{count}, {counted(total, 'evaluation')} to do ({self.content.evaluator}){words}")

    def take(self, name: str, known: InstanceTrials, kind: PatchKind) -> None:
        """Keep the trials of an instance; the last one was of the patch ``kind``."""
        trials = known.of(kind)
        with self._lock:
            self._store(name, known)
            self._done += 1
            spent = time.monotonic() - self._began
            left = duration(spent / self._done * (self._total - self._done))
            what = f"{kind.value} {len(trials)} of {self.content.repeat}"
            result = "resolved" if trials[-1].resolved else "unresolved"
            self.say(
                f"[{self._done}/{self._total}] {name}: {what} {result}, "
                f"{trials[-1].seconds:.1f} s; {left} left"
            )

    def ended(self, name: str, error: BaseException | None) -> None:
        """Say what became of an instance; keep why it could not be evaluated.

        Raises:
            BaseException: ``error``, if it is a mistake of this program.
        """
        if error is not None and not isinstance(error, (UserError, InfrastructureError)):
            raise error
        with self._lock:
            known = self.content.instances[name]
            if error is not None:
                known = replace(known, reason=str(error))
                self._store(name, known)
            words = f"{known.state.value.replace('_', ' ')}: {known.reason}".removesuffix(": ")
            self.say(f"{name} is {one_line(words)}")

    def say_once(self, line: str) -> None:
        """Say a line of an evaluator; each instance has one that says the same."""
        with self._lock:
            if line not in self._said:
                self._said.add(line)
                self.say(line)

    def _store(self, name: str, known: InstanceTrials) -> None:
        instances = {**self.content.instances, name: known}
        self.content = replace(self.content, instances=instances)
        write_validity(self.path, self.content)
