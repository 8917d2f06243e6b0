"""Run scripts on trees of one base commit."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from logging import Logger
from pathlib import Path

from swe_retry.attempts.evidence.scripts import ScriptLanguage
from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.hashing import sha256_of
from swe_retry.core.processes import CommandResult
from swe_retry.core.untrusted import read_object
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import Session
from swe_retry.record.evidence import SOLVED, ReproductionScript
from swe_retry.testing.setups import ProvenSetup, setup_failures

_NO_PROOF = 1
ExitCodes = tuple[int | None, ...]
"""How the runs of a script on one tree ended; None after the time limit."""


@dataclass(frozen=True)
class ScriptRun:
    """The files of one script, whose names and proof no candidate knows before.

    Attributes:
        word: what the wrapper prints if the script itself says that the issue is solved.
    """

    language: ScriptLanguage
    name: str = field(default_factory=partial(secrets.token_hex, 8))
    wrapper_name: str = field(default_factory=partial(secrets.token_hex, 8))
    word: str = field(default_factory=partial(secrets.token_hex, 16))

    def files(self, text: bytes) -> dict[str, bytes]:
        language = self.language
        files = {language.file(self.name): text}
        if language.wrapper:
            wrapper = language.wrap(self.name, self.word)
            files[language.file(self.wrapper_name)] = wrapper
        return files

    @property
    def command(self) -> str:
        if self.language.wrapper:
            return self.language.run(self.wrapper_name)
        return self.language.run(self.name)

    def exit_code(self, result: CommandResult) -> int | None:
        """Return the exit code; that of a script that cannot tell where the proof is missing."""
        lacks_proof = self.language.wrapper and self.word not in result.output
        if result.exit_code == SOLVED and lacks_proof:
            return _NO_PROOF
        return result.exit_code


@dataclass(frozen=True)
class ScriptRunner:
    """Runs scripts on trees of one base commit; what was run once is read from ``cache``.

    Each tree is set up once for all its scripts. They run as tests do: without network, within the
    limits of the environment, and each on the tree as the set-up left it.

    Attributes:
        revision: identifies the base commit.
        seconds: the time limit of a script.
    """

    session: Session
    proven: ProvenSetup
    language: ScriptLanguage
    revision: str
    cache: Path
    seconds: float
    log: Logger

    def run(
        self,
        changes: Changes,
        scripts: Sequence[ReproductionScript],
        times: int = 1,
    ) -> dict[str, ExitCodes]:
        """Return the exit codes of each script by its id.

        A tree whose set-up fails has no outcomes.
        """
        path = self.cache / f"{self._key(changes)}.json"
        stored = _read(path)
        codes: dict[str, ExitCodes] = {}
        new = {}
        for number, script in enumerate(scripts, 1):
            stored_codes = stored.get(sha256_of(script.text), ())
            if stored_codes:
                codes[script.id] = stored_codes
            if len(stored_codes) < times:
                new[number] = script
        if new:
            new_codes = self._run(changes, new, times)
            codes.update(new_codes)
            for script in new.values():
                # A busy machine ends a script that ends by itself at another time.
                if None not in new_codes.get(script.id, (None,)):
                    stored[sha256_of(script.text)] = new_codes[script.id]
            write_json_atomic(path, stored)
        return {name: all_codes[:times] for name, all_codes in codes.items()}

    def _run(
        self,
        changes: Changes,
        scripts: Mapping[int, ReproductionScript],
        times: int,
    ) -> dict[str, ExitCodes]:
        tree = dict(changes)
        runs = {}
        for number, script in scripts.items():
            run = ScriptRun(self.language)
            runs[number] = run
            tree |= run.files(script.text.encode("utf-8", "surrogatepass"))
        codes: dict[str, ExitCodes] = {}
        started = time.monotonic()
        script_seconds = 0.0
        count = len(scripts) * times
        with self.session.prepare(tree, self.proven.setup, count) as prepared:
            if setup_failures(prepared, self.proven):
                return {}
            for number, script in scripts.items():
                run = runs[number]
                results = [
                    prepared.run(run.command, self.seconds) for _ in range(times)
                ]
                codes[script.id] = tuple(map(run.exit_code, results))
                script_seconds += sum(result.seconds for result in results)
        self.log.info(
            "scripts: %d ran for %.1f s, and the tree took %.1f s more",
            count,
            script_seconds,
            time.monotonic() - started - script_seconds,
        )
        return codes

    def _key(self, changes: Changes) -> str:
        tree = []
        for path, data in sorted(changes.items()):
            digest = None
            if data is not None:
                digest = sha256_of(data)
            tree.append((path, digest))
        decides = [
            self.revision,
            self.session.identity,
            str(self.proven.setup),
            self.language.command,
            self.language.wrapper,
            tree,
            self.seconds,
        ]
        return sha256_of(json.dumps(decides))


def _read(path: Path) -> dict[str, ExitCodes]:
    if not path.exists():
        return {}
    stored = {}
    for key, codes in read_object(path, "remove it").items():
        if not isinstance(codes, list) or not codes:
            continue
        if all(type(code) is int for code in codes):
            stored[key] = tuple(codes)
    return stored
