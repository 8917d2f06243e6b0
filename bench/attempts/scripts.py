"""Scripts that tell whether an issue is there: how they are asked for, read and run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from logging import Logger
from pathlib import Path, PurePosixPath

from agent.formats.reading.fences import fence_of, shortest_fence
from agent.prompts import render
from agent.workspace import TextFile
from bench.attempts.attempt import Services
from bench.instances.instance import Instance
from bench.regression.runners import OF_PYTHON, Runner
from bench.regression.setups import ProvenSetup, setup_failures
from core.atomic import write_json_atomic
from core.hashing import sha256_of
from core.parsing.untrusted import read_object
from core.worktree import Changes
from environments.base import Session
from llm.chat import ChatModel, Message, RequestRefusedError, request_sha256
from runs.evidence import ReproductionScript
from runs.jobs import JobContext
from runs.records import Attempt, AttemptStatus
from runs.slots import WaitingModel

_LONGEST = 100_000
_SHOWN_FILE = 20_000
_SHOWN_FILES = 60_000


@dataclass(frozen=True)
class ScriptLanguage:
    """How the files of scripts of a language end, and how one is run; ``{0}`` is its file."""

    suffix: str
    command: str

    def file(self, number: int) -> str:
        return f"issue_script_{number}{self.suffix}"

    def run(self, number: int) -> str:
        return self.command.format(self.file(number))


PYTHON = ScriptLanguage(".py", "python {0}")
_JAVASCRIPT = ScriptLanguage(".cjs", "node {0}")
# `go run` ends with 1 whatever the program ends with. A folder holds files of one package.
_GO_BINARY = '"${{TMPDIR:-/tmp}}/issue_script"'
_GO = ScriptLanguage("/main.go", f"go build -o {_GO_BINARY} ./{{0}} && {_GO_BINARY}")
_PHP = ScriptLanguage(".php", "php {0}")
_RUBY = ScriptLanguage(".rb", "ruby -Ilib {0}")
_BY_RUNNER: Mapping[Runner, ScriptLanguage] = {
    **dict.fromkeys(OF_PYTHON, PYTHON),
    **dict.fromkeys(
        (Runner.VITEST, Runner.JEST, Runner.MOCHA, Runner.NODE), _JAVASCRIPT
    ),
    Runner.GO: _GO,
    Runner.PHPUNIT: _PHP,
    Runner.RSPEC: _RUBY,
    Runner.MINITEST: _RUBY,
}


def language_of_runner(runner: Runner) -> ScriptLanguage | None:
    """Return the language of scripts for a project; None where a file does not run alone."""
    return _BY_RUNNER.get(runner)


def script_prompt(
    language: ScriptLanguage, problem: str, files: Mapping[str, str], patch: str
) -> str:
    """Return the request for a script; large files are left out."""
    shown: list[tuple[str, str]] = []
    for path, text in files.items():
        if len(text) <= min(_SHOWN_FILE, _SHOWN_FILES - sum(len(t) for _, t in shown)):
            shown.append((path, text))
    fence = shortest_fence([*(text for _, text in shown), patch])
    command = language.run(1)
    return render(
        "script",
        problem=problem,
        files=shown,
        patch=patch,
        fence=fence,
        command=command,
    )


def distinguishing_prompt(
    language: ScriptLanguage, problem: str, first: str, second: str
) -> str:
    fence = shortest_fence([first, second])
    return render(
        "script_distinguishing",
        problem=problem,
        first=first,
        second=second,
        fence=fence,
        command=language.run(1),
    )


def script_in(reply: str) -> str:
    """Return the longest code block of a reply; empty without one, and for a very long one."""
    blocks = [""]
    opened, lines = "", list[str]()
    for line in reply.split("\n"):
        mark = fence_of(line)
        if not opened:
            opened, lines = mark[0] if mark else "", []
        elif mark and mark[0].startswith(opened) and not mark[1]:
            blocks.append("\n".join(lines) + "\n")
            opened = ""
        else:
            lines.append(line)
    code = max(blocks, key=len)
    return code if code.strip() and len(code) <= _LONGEST else ""


# Exit code 1 of pytest: tests ran, and some failed. Others tell nothing of the issue.
_TEST_AS_SCRIPT = """# A test that an attempt wrote or changed, as a script.
import pathlib
import subprocess
import sys

path = pathlib.Path({path!a})
path.parent.mkdir(parents=True, exist_ok=True)
path.write_bytes({data!r})
command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
code = subprocess.run(command).returncode
sys.exit({{0: 0, 1: 2}}.get(code, 1))
"""


def script_of_file(
    language: ScriptLanguage, runner: Runner, path: str, data: bytes
) -> str:
    """Return the script that a file of an attempt is, also of a test for pytest; else nothing."""
    if not path.endswith(language.suffix) or len(data) > _LONGEST:
        return ""
    name = PurePosixPath(path).stem
    if name.startswith("test_") or name.endswith("_test"):
        as_script = _TEST_AS_SCRIPT.format(path=path, data=data)
        return as_script if runner is Runner.PYTEST else ""
    return TextFile.decode(data).text


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
        self, changes: Changes, scripts: Sequence[ReproductionScript], times: int = 1
    ) -> dict[str, tuple[int | None, ...]]:
        """Return the exit codes of each script by its id; None after the time limit.

        A tree whose set-up fails has no outcomes.
        """
        place = self.cache / f"{self._key(changes)}.json"
        known = _read(place)
        found = {
            s.id: known[sha256_of(s.text)]
            for s in scripts
            if sha256_of(s.text) in known
        }
        left = {
            n: s for n, s in enumerate(scripts, 1) if len(found.get(s.id, ())) < times
        }
        if left:
            ran = self._run(changes, left, times)
            found |= ran
            # A busy machine ends a script that ends by itself at another time.
            ended = {name: codes for name, codes in ran.items() if None not in codes}
            known |= {
                sha256_of(s.text): ended[s.id] for s in left.values() if s.id in ended
            }
            place.parent.mkdir(parents=True, exist_ok=True)
            write_json_atomic(place, known)
        return {name: codes[:times] for name, codes in found.items()}

    def _run(
        self, changes: Changes, scripts: Mapping[int, ReproductionScript], times: int
    ) -> dict[str, tuple[int | None, ...]]:
        files = {
            self.language.file(n): one.text.encode("utf-8", "surrogatepass")
            for n, one in scripts.items()
        }
        tree = {**changes, **files}
        found: dict[str, tuple[int | None, ...]] = {}
        started, seconds = time.monotonic(), 0.0
        with self.session.prepare(
            tree, self.proven.setup, len(scripts) * times
        ) as prepared:
            if setup_failures(prepared, self.proven):
                return {}
            for number, script in scripts.items():
                command = self.language.run(number)
                results = [prepared.run(command, self.seconds) for _ in range(times)]
                found[script.id] = tuple(result.exit_code for result in results)
                seconds += sum(result.seconds for result in results)
        whole = time.monotonic() - started
        self.log.info(
            "scripts: %d ran for %.1f s, and the tree took %.1f s more",
            len(scripts) * times,
            seconds,
            whole - seconds,
        )
        return found

    def _key(self, changes: Changes) -> str:
        tree = sorted(
            (path, None if data is None else sha256_of(data))
            for path, data in changes.items()
        )
        decides = [self.revision, self.session.identity, str(self.proven.setup)]
        decides += [self.language.command]
        return sha256_of(json.dumps([*decides, tree, self.seconds]))


def _read(place: Path) -> dict[str, tuple[int | None, ...]]:
    if not place.exists():
        return {}
    raw = read_object(place, "remove it")
    return {
        key: tuple(codes)
        for key, codes in raw.items()
        if isinstance(codes, list)
        and codes
        and all(type(code) is int for code in codes)
    }


@dataclass
class ScriptWriter:
    """A model that writes scripts for an instance; its requests pass the gate as those of attempts.

    Its record is that of an attempt whose number is below 1.
    """

    record: Attempt
    model: ChatModel

    @classmethod
    def of(
        cls, number: int, instance: Instance, services: Services, context: JobContext
    ) -> ScriptWriter:
        """Return the writer ``number``: 0 for the first of ``--models``, -1 for the second."""
        config = services.config
        choice = config.models[-number]
        # Equal requests to one model are to have different replies.
        wanted = config.temperatures[-1]
        gate = context.gate(number)
        turn = services.models.turn(instance.instance_id, number, choice, wanted, gate)
        record = Attempt(
            attempt=number,
            try_=0,
            model=turn.name,
            edit_format=turn.edit_format,
            temperature=turn.temperature,
            status=AttemptStatus.EMPTY,
            traits=turn.model.traits,
            messages=(),
            calls=(),
            cost=Decimal(),
            reflections=0,
            seconds=0.0,
        )
        step = partial(context.step, 0, turn.name)
        return cls(record, WaitingModel(turn.model, context.slot, step, lambda: None))

    def ask(self, prompt: str) -> str:
        """Return the reply; a request that is refused stands in the record without one."""
        asked = Message("user", prompt)
        try:
            reply = self.model.complete([asked])
        except RequestRefusedError:
            self.record = self.record.with_call([asked])
            raise
        said = Message("assistant", reply.content)
        call = replace(reply, request_sha256=request_sha256([asked]))
        self.record = self.record.with_call([asked, said], call)
        return reply.content
