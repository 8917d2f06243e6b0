"""Read from a runner's output why each failing test fails. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import dropwhile, islice, takewhile

from agent.conversation.testreport import Failure
from bench.regression.runners import OF_PYTHON, Runner
from bench.regression.runners.base import is_progress, without_noise

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

    ``ended`` says how a run ended that did not end by itself. It is the reason of the tests that
    the output does not explain. ``details`` are reasons that the parser of the output found.
    """
    half = _MOST_TEXT // 2
    if len(output) > _MOST_TEXT:
        output = f"{output[:half]}\n{output[-half:]}"
    log = _Log(without_noise(output), runner, ended, details or {})
    return tuple(log.failure(name) for name in failed)


@dataclass(frozen=True)
class _Log:
    text: str
    runner: Runner
    ended: str
    details: Mapping[str, str] = field(default_factory=dict)

    def failure(self, name: str) -> Failure:
        # A file that cannot be loaded has none of its tests.
        names = (name, name.partition(" > ")[0], name.partition(": ")[0])
        told = next((self.details[one] for one in names if one in self.details), "")
        if told:
            return Failure(name, without_noise(told).strip("\n"))
        if self.runner not in OF_PYTHON:
            return Failure(name, self._error)
        titled = [
            block
            for block in self._blocks
            if any(_is_title(t, name) for t in block.titles)
        ]
        path = name.partition("::")[0]
        # Tests in different files may have the same title.
        here = [
            block for block in titled if "::" in name and path in "\n".join(block.lines)
        ]
        blocks = here or titled
        reasons = list(dict.fromkeys(relevant_lines(block.lines) for block in blocks))
        if not reasons:
            summary = re.search(
                rf"^(?:FAILED|ERROR) {re.escape(name)} - (.+)$", self.text, re.M
            )
            return Failure(name, summary[1] if summary else self._end)
        more = len(reasons) - _MOST_BLOCKS
        detail = "\n\n".join(
            [*reasons[:_MOST_BLOCKS], *([f"… and {more} more"] * (more > 0))]
        )
        return Failure(
            name, detail, cause(blocks[0].lines) if len(reasons) == 1 else ""
        )

    @cached_property
    def _blocks(self) -> list[FailureBlock]:
        read = {Runner.PYTEST: _pytest, Runner.SYMPY: _sympy}.get(
            self.runner, _unittest
        )
        return list(islice(read(self.text.split("\n")), _MOST_READ))

    @cached_property
    def _error(self) -> str:
        lines = [line[:_LONGEST_LINE] for line in self.text.split("\n")]
        first = next((n for n, line in enumerate(lines) if _ERROR.search(line)), None)
        if first is None:
            return self._end
        told = [self.ended, *lines[max(0, first - 1) : first + _TAIL_LINES]]
        return "\n".join(line for line in told if line.strip())

    @cached_property
    def _end(self) -> str:
        lines = [
            line for line in self.text.split("\n") if line and not is_progress(line)
        ]
        starts = [
            n
            for n, line in enumerate(lines)
            if line.startswith(("Traceback", "ImportError while"))
        ]
        last = lines[starts[-1] :] if starts else lines[-_TAIL_LINES:]
        kept = [line for line in last if not _HEADINGS.match(line)]
        return "\n".join(part for part in (self.ended, relevant_lines(kept)) if part)


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


_RULE = re.compile(r"^(=+|-+|_+)$")
_SECTION = re.compile(r"^=+ (.+?) =+$")
_PYTEST_TITLE = re.compile(r"^_+ (?![_ ]+$)(.+?) _+$")
_PYTEST_STEP = re.compile(
    r"^(?:ERROR at (?:setup|teardown) of |ERROR collecting |\[doctest\] )"
)
_CAPTURED = re.compile(r"^-+ Captured .+ -+$")
_UNITTEST_TITLE = re.compile(r"^(?:ERROR|FAIL): (.+)$")
_SYMPY_TITLE = re.compile(r"^_+ (\S+\.py:\w+) _+$")
_SYMPY_END = re.compile(r"^[= ]*tests finished:|^_{40,}$")


@dataclass(frozen=True)
class FailureBlock:
    titles: tuple[str, ...]
    lines: tuple[str, ...]


def _pytest(lines: Sequence[str]) -> Iterator[FailureBlock]:
    inside = False
    title: str | None = None
    body: list[str] = []
    for line in [*lines, "= end ="]:
        section, heading = _SECTION.match(line), _PYTEST_TITLE.match(line)
        if title is not None and (section or (inside and heading)):
            yield FailureBlock(
                (title,), tuple(takewhile(lambda one: not _CAPTURED.match(one), body))
            )
            title = None
        if section:
            inside = section.group(1) in ("FAILURES", "ERRORS")
        elif inside and heading:
            title, body = _PYTEST_STEP.sub("", heading.group(1)), []
        else:
            body.append(line)


def _unittest(lines: Sequence[str]) -> Iterator[FailureBlock]:
    """Yield the blocks `FAIL: test_a (module.Class)`; the first line of a docstring may follow."""
    starts = [
        number
        for number, line in enumerate(lines)
        if _UNITTEST_TITLE.match(line)
        and number
        and lines[number - 1].startswith("====")
    ]
    every = [n for n, line in enumerate(lines) if len(line) > 40 and _RULE.match(line)]
    for start in starts:
        at = bisect_left(every, start)
        if rules := every[at : at + 2]:
            end = rules[1] if len(rules) > 1 else len(lines)
            titles = [
                _UNITTEST_TITLE.sub(r"\1", line) for line in lines[start : rules[0]]
            ]
            yield FailureBlock(tuple(titles), tuple(lines[rules[0] + 1 : end]))


def _sympy(lines: Sequence[str]) -> Iterator[FailureBlock]:
    title: str | None = None
    body: list[str] = []
    for line in [*lines, "_" * 80]:
        if title is not None and _SYMPY_END.match(line):
            yield FailureBlock((title, title.rpartition(":")[2]), tuple(body))
            title = None
        if heading := _SYMPY_TITLE.match(line):
            title, body = heading.group(1), []
        else:
            body.append(line)


_SEPARATOR = re.compile(r"^(?:_ )+_?$")
_FRAME = re.compile(r'^\s*File ".+", line \d+|^\S+:\d+: in \S')
_CHAIN = re.compile(r"^(?:The above exception was|During handling of the above)")
_NOISE = re.compile(
    r"^Traceback(?: \(most recent call last\))?:$|^E\s+\(?(?:Use -v|\.\.\.Full output truncated)"
    r"|^Hint: make sure your test modules|^\[gw\d+\] |^E?\s*$|^\s+[~^]{3,}$"
)
_ARGUMENT = re.compile(r"^\w+ += ")
_LAST_FRAMES = 2
_BEFORE = 6
_MESSAGE_HEAD, _MESSAGE_TAIL = 24, 6


def relevant_lines(lines: Sequence[str]) -> str:
    """Return the part of a traceback that says why, about fifty lines at most.

    A chain of exceptions is shortened to the last one and the message of the one before it.
    """
    links = _links(lines)
    earlier = [_last_frame(link) for link in links[-2:-1]]
    before = [line for link in earlier for line in [*link, "which led to:"]]
    frames = _frames(links[-1])
    between = len(frames) - 1 - _LAST_FRAMES
    if between >= 1:
        gap = f"… ({between} frame{'s' if between > 1 else ''} left out)"
        last = [line for frame in frames[-_LAST_FRAMES:] for line in _trimmed(frame)]
        return "\n".join([*before, *_trimmed(frames[0]), gap, *last])
    return "\n".join([*before, *(line for frame in frames for line in _trimmed(frame))])


def cause(lines: Sequence[str]) -> str:
    """Return the last frame with its message, which tests that fail for one reason share."""
    return "\n".join(_last_frame(_links(lines)[-1]))


def _links(lines: Sequence[str]) -> list[list[str]]:
    links: list[list[str]] = [[]]
    for line in lines:
        if _CHAIN.match(line):
            links.append([])
        elif not _NOISE.match(line):
            links[-1].append(line[:_LONGEST_LINE])
    return links


def _last_frame(link: Sequence[str]) -> list[str]:
    return _trimmed(_frames(link)[-1])


def _frames(lines: Sequence[str]) -> list[list[str]]:
    frames: list[list[str]] = [[]]
    for line in lines:
        if _SEPARATOR.match(line):
            frames.append([])
        elif _FRAME.match(line):
            frames.append([line])
        else:
            frames[-1].append(line)
    return [frame for frame in frames if frame] or [[]]


def _trimmed(frame: Sequence[str]) -> list[str]:
    lines = list(dropwhile(_ARGUMENT.match, frame))
    marked = next((n for n, line in enumerate(lines) if line.startswith(">")), 0)
    lines = lines[max(0, marked - _BEFORE) :]
    if len(lines) <= _MESSAGE_HEAD + _MESSAGE_TAIL + 1:
        return lines
    left_out = len(lines) - _MESSAGE_HEAD - _MESSAGE_TAIL
    return [
        *lines[:_MESSAGE_HEAD],
        f"… ({left_out} lines left out)",
        *lines[-_MESSAGE_TAIL:],
    ]
