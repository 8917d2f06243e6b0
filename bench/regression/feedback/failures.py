"""Read from a runner's output why each failing test fails. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agent.conversation.testreport import Failure
from bench.regression.feedback.blocks import FailureBlock, blocks_of
from bench.regression.feedback.frames import cause, relevant_lines
from bench.regression.feedback.noise import is_progress, without_noise
from bench.regression.runners import OF_PYTHON, Runner

_CLASS_STEP = re.compile(r"^(?:setUp|tearDown)(?:Class|Module) \((.+)\)$")
_HEADINGS = re.compile(r"^_+ .* _+$|^=+ .* =+$|^(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL) ")
# Compilers of C, Go, Java and Rust, linkers, make, Maven, Gradle, Node.
_ERROR = re.compile(
    r"^\S+:\d+(:\d+)?: (?!warning|note)|(^|\s)(fatal )?error(\[\w+\])?: |^\[ERROR\] "
    r"|undefined reference|^(# )?\w*(Error|Exception): |^make.*\*\*\*|^e: |^FAILURE: |^panic: "
)
_TAIL_LINES = 15
_LONGEST_LINE = 300
_MOST_BLOCKS = 2
# Limits for very long output: more than this explains nothing to a reader.
_MOST_TEXT = 1_000_000
_MOST_READ = 1_000


def failures_of(
    output: str,
    runner: Runner,
    failed: Sequence[str],
    ended: str = "",
    details: Mapping[str, str] | None = None,
) -> tuple[Failure, ...]:
    """Return the tests ``failed``, named as by the log parsers, each with the reason.

    Args:
        output: of the runner.
        runner: whose output it is.
        failed: names of tests.
        ended: how a run ended that did not end by itself. It is the reason of the tests that the
            output does not explain.
        details: reasons that the parser of the output found.
    """
    log = _Log(without_noise(_cut(output)), runner, ended, details or {})
    return tuple(log.failure(name) for name in failed)


@dataclass(frozen=True)
class _Log:
    """The output of one run, without noise."""

    text: str
    runner: Runner
    ended: str
    details: Mapping[str, str] = field(default_factory=dict)

    def failure(self, name: str) -> Failure:
        """Return why ``name`` fails: its blocks, its line in the summary, or how the run ended."""
        # A file that cannot be loaded has none of its tests.
        names = (name, name.partition(" > ")[0], name.partition(": ")[0])
        told = next((self.details[one] for one in names if one in self.details), "")
        if told:
            return Failure(name, without_noise(told).strip("\n"))
        if self.runner not in OF_PYTHON:
            return Failure(name, self._error)
        blocks = self._blocks_of(name)
        reasons = list(dict.fromkeys(relevant_lines(block.lines) for block in blocks))
        if not reasons:
            return Failure(name, self._summary(name) or self._end)
        more = len(reasons) - _MOST_BLOCKS
        detail = "\n\n".join([*reasons[:_MOST_BLOCKS], *([f"… and {more} more"] * (more > 0))])
        return Failure(name, detail, cause(blocks[0].lines) if len(reasons) == 1 else "")

    def _blocks_of(self, name: str) -> list[FailureBlock]:
        found = [block for block in self._blocks if _explains(block, name)]
        path = name.partition("::")[0]
        # Tests in different files may have the same title.
        here = [block for block in found if "::" in name and path in "\n".join(block.lines)]
        return here or found

    @cached_property
    def _blocks(self) -> list[FailureBlock]:
        return blocks_of(self.text, self.runner)[:_MOST_READ]

    def _summary(self, name: str) -> str:
        match = re.search(rf"^(?:FAILED|ERROR) {re.escape(name)} - (.+)$", self.text, re.M)
        return match.group(1) if match else ""

    @cached_property
    def _error(self) -> str:
        """The first lines about an error of a compiler or a build, or else how the run ended."""
        lines = [line[:_LONGEST_LINE] for line in self.text.split("\n")]
        first = next((n for n, line in enumerate(lines) if _ERROR.search(line)), None)
        if first is None:
            return self._end
        told = [self.ended, *lines[max(0, first - 1) : first + _TAIL_LINES]]
        return "\n".join(line for line in told if line.strip())

    @cached_property
    def _end(self) -> str:
        """How the run ended: its last traceback, or else its last lines."""
        lines = [line for line in self.text.split("\n") if line and not is_progress(line)]
        starts = [
            n for n, line in enumerate(lines) if line.startswith(("Traceback", "ImportError while"))
        ]
        last = lines[starts[-1] :] if starts else lines[-_TAIL_LINES:]
        kept = [line for line in last if not _HEADINGS.match(line)]
        return "\n".join(part for part in (self.ended, relevant_lines(kept)) if part)


def _cut(output: str) -> str:
    """Return the beginning and the end of a very long output."""
    half = _MOST_TEXT // 2
    return output if len(output) <= _MOST_TEXT else f"{output[:half]}\n{output[-half:]}"


def _explains(block: FailureBlock, name: str) -> bool:
    return any(_is_title(title, name) for title in block.titles)


def _is_title(title: str, name: str) -> bool:
    path, _, test = name.partition("::")
    key = test.replace("::", ".")
    step = _CLASS_STEP.match(title)
    return (
        title in (name, key, path)
        # Cases of `subTest` follow the name; some log parsers cut a name at its first space.
        or title.startswith(f"{name} ")
        or ("[" in key and not key.endswith("]") and title.startswith(f"{key} "))
        or (step is not None and f"({step.group(1)}" in name)
    )
