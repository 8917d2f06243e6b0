"""Read from a runner's output why each failing test fails. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, dropwhile, islice, takewhile

from swe_retry.agent.conversation.testreport import Failure
from swe_retry.frameworks import OF_PYTHON, Runner
from swe_retry.frameworks.noise import is_progress, without_noise
from swe_retry.frameworks.results import limit_lines

_CLASS_STEP = re.compile(r"^(?:setUp|tearDown)(?:Class|Module) \((.+)\)$")
_HEADINGS = re.compile(r"^_+ .* _+$|^=+ .* =+$|^(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL) ")
# Compilers of C, Go, Java and Rust, linkers, make, Maven, Gradle, Node.
_ERROR = re.compile(
    r"^\S+:\d+(:\d+)?: (?!warning|note)|(^|\s)(fatal )?error(\[\w+\])?: |^\[ERROR\] "
    r"|undefined reference|^(# )?\w*(Error|Exception): |^make.*\*\*\*|^e: |^FAILURE: |^panic: "
)
_TAIL_LINES = 15
_MAX_LINE = 300
_MAX_BLOCKS = 2
# Limits for very long output: more than this explains nothing to a reader.
_MAX_TEXT = 1_000_000
_MAX_BLOCKS_READ = 1_000


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
    if len(output) > _MAX_TEXT:
        half = _MAX_TEXT // 2
        output = f"{output[:half]}\n{output[-half:]}"
    log = _Log(without_noise(output), runner, ended, details or {})
    return tuple(map(log.failure, failed))


@dataclass(frozen=True)
class _Log:
    text: str
    runner: Runner
    ended: str
    details: Mapping[str, str]

    def failure(self, name: str) -> Failure:
        detail = self._detail(name)
        if detail:
            return Failure(name, without_noise(detail).strip("\n"))
        if self.runner not in OF_PYTHON:
            return Failure(name, self._error_lines)
        blocks = self._blocks_about(name)
        texts = [relevant_lines(block.lines) for block in blocks]
        reasons = list(dict.fromkeys(texts))
        if not reasons:
            return Failure(name, self._summary(name) or self._last_lines)
        shared_cause = ""
        if len(reasons) == 1:
            shared_cause = cause(blocks[0].lines)
        parts = reasons[:_MAX_BLOCKS]
        hidden = len(reasons) - len(parts)
        if hidden:
            parts.append(f"… and {hidden} more")
        return Failure(name, "\n\n".join(parts), shared_cause)

    def _detail(self, name: str) -> str:
        # A file that cannot be loaded has none of its tests.
        suite = name.partition(" > ")[0]
        unit = name.partition(": ")[0]
        for key in (name, suite, unit):
            if key in self.details:
                return self.details[key]
        return ""

    def _blocks_about(self, name: str) -> list[FailureBlock]:
        titled = [block for block in self._blocks if block.is_about(name)]
        path, separator, _ = name.partition("::")
        if not separator:
            return titled
        # Tests in different files may have the same title.
        here = [block for block in titled if path in "\n".join(block.lines)]
        return here or titled

    def _summary(self, name: str) -> str:
        """Return what pytest's closing summary says of a test."""
        pattern = rf"^(?:FAILED|ERROR) {re.escape(name)} - (.+)$"
        summary = re.search(pattern, self.text, re.MULTILINE)
        return summary[1] if summary else ""

    @cached_property
    def _blocks(self) -> list[FailureBlock]:
        lines = self.text.split("\n")
        if self.runner is Runner.PYTEST:
            blocks = _pytest_blocks(lines)
        elif self.runner is Runner.SYMPY:
            blocks = _sympy_blocks(lines)
        else:
            blocks = _unittest_blocks(lines)
        return list(islice(blocks, _MAX_BLOCKS_READ))

    @cached_property
    def _error_lines(self) -> str:
        lines = limit_lines(self.text, _MAX_LINE).split("\n")
        for number, line in enumerate(lines):
            if _ERROR.search(line):
                first = max(0, number - 1)
                excerpt = [self.ended, *lines[first : number + _TAIL_LINES]]
                return "\n".join(line for line in excerpt if line.strip())
        return self._last_lines

    @cached_property
    def _last_lines(self) -> str:
        lines = []
        for line in self.text.split("\n"):
            if line and not is_progress(line):
                lines.append(line)
        start = max(0, len(lines) - _TAIL_LINES)
        for number, line in enumerate(lines):
            if line.startswith(("Traceback", "ImportError while")):
                start = number
        body = [line for line in lines[start:] if not _HEADINGS.match(line)]
        parts = (self.ended, relevant_lines(body))
        return "\n".join(filter(None, parts))


def _is_title(title: str, name: str) -> bool:
    path, _, test = name.partition("::")
    key = test.replace("::", ".")
    if title in (name, key, path):
        return True
    # Cases of `subTest` follow the name; some log parsers cut a name at its first space.
    if title.startswith(f"{name} "):
        return True
    if "[" in key and not key.endswith("]") and title.startswith(f"{key} "):
        return True
    step = _CLASS_STEP.match(title)
    return step is not None and f"({step[1]}" in name


_RULE = re.compile(r"^(=+|-+|_+)$")
_MIN_RULE = 41
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

    def is_about(self, name: str) -> bool:
        return any(_is_title(title, name) for title in self.titles)


def _pytest_blocks(lines: Sequence[str]) -> Iterator[FailureBlock]:
    inside = False
    title: str | None = None
    body: list[str] = []
    for line in [*lines, "= end ="]:
        section = _SECTION.match(line)
        heading = _PYTEST_TITLE.match(line)
        if title is not None and (section or (inside and heading)):
            yield FailureBlock((title,), _without_captured(body))
            title = None
        if section:
            inside = section[1] in ("FAILURES", "ERRORS")
        elif inside and heading:
            title = _PYTEST_STEP.sub("", heading[1])
            body = []
        else:
            body.append(line)


def _without_captured(lines: Iterable[str]) -> tuple[str, ...]:
    remaining = takewhile(lambda line: not _CAPTURED.match(line), lines)
    return tuple(remaining)


def _unittest_blocks(lines: Sequence[str]) -> Iterator[FailureBlock]:
    """Yield the blocks `FAIL: test_a (module.Class)`; the first line of a docstring may follow."""
    starts = []
    rules = []
    before = ""
    for number, line in enumerate(lines):
        if before.startswith("====") and _UNITTEST_TITLE.match(line):
            starts.append(number)
        if len(line) >= _MIN_RULE and _RULE.match(line):
            rules.append(number)
        before = line
    rules.append(len(lines))
    for start in starts:
        index = bisect_left(rules, start)
        if rules[index] == len(lines):
            continue
        titles = []
        for line in lines[start : rules[index]]:
            titles.append(_UNITTEST_TITLE.sub(r"\1", line))
        first = rules[index] + 1
        body = lines[first : rules[index + 1]]
        yield FailureBlock(tuple(titles), tuple(body))


def _sympy_blocks(lines: Sequence[str]) -> Iterator[FailureBlock]:
    title: str | None = None
    body: list[str] = []
    for line in [*lines, "_" * 80]:
        if title is not None and _SYMPY_END.match(line):
            function = title.rpartition(":")[2]
            yield FailureBlock((title, function), tuple(body))
            title = None
        heading = _SYMPY_TITLE.match(line)
        if heading:
            title = heading[1]
            body = []
        else:
            body.append(line)


_SEPARATOR = re.compile(r"^(?:_ )+_?$")
_FRAME = re.compile(r'^\s*File ".+", line \d+|^\S+:\d+: in \S')
_CHAIN = re.compile(r"^(?:The above exception was|During handling of the above)")
# Headings, hints of pytest, lines without words, and marks below a line of code.
_NOISE = re.compile(
    r"^Traceback(?: \(most recent call last\))?:$|^E\s+\(?(?:Use -v|\.\.\.Full output truncated)"
    r"|^Hint: make sure your test modules|^\[gw\d+\] |^E?\s*$|^\s+[~^]{3,}$"
)
_ARGUMENT = re.compile(r"^\w+ += ")
_LAST_FRAMES = 2
_BEFORE = 6
_MESSAGE_HEAD = 24
_MESSAGE_TAIL = 6


def relevant_lines(lines: Sequence[str]) -> str:
    """Return the part of a traceback that says why, about fifty lines at most.

    A chain of exceptions is shortened to the last one and the message of the one before it.
    """
    links = _links(lines)
    parts: list[str] = []
    if len(links) > 1:
        parts += _last_frame(links[-2])
        parts.append("which led to:")
    frames = list(map(_trim_frame, _frames(links[-1])))
    hidden = len(frames) - 1 - _LAST_FRAMES
    if hidden >= 1:
        noun = "frame" if hidden == 1 else "frames"
        gap = [f"… ({hidden} {noun} left out)"]
        last = frames[-_LAST_FRAMES:]
        frames = [frames[0], gap, *last]
    parts += chain.from_iterable(frames)
    return "\n".join(parts)


def cause(lines: Sequence[str]) -> str:
    """Return the last frame with its message, which tests that fail for one reason share."""
    links = _links(lines)
    return "\n".join(_last_frame(links[-1]))


def _links(lines: Sequence[str]) -> list[list[str]]:
    links: list[list[str]] = [[]]
    for line in lines:
        if _CHAIN.match(line):
            links.append([])
        elif not _NOISE.match(line):
            links[-1].append(line[:_MAX_LINE])
    return links


def _last_frame(link: Sequence[str]) -> list[str]:
    frames = _frames(link)
    return _trim_frame(frames[-1])


def _frames(lines: Sequence[str]) -> list[list[str]]:
    frames: list[list[str]] = [[]]
    for line in lines:
        if _SEPARATOR.match(line):
            frames.append([])
        elif _FRAME.match(line):
            frames.append([line])
        else:
            frames[-1].append(line)
    return list(filter(None, frames)) or [[]]


def _trim_frame(frame: Sequence[str]) -> list[str]:
    lines = list(dropwhile(_ARGUMENT.match, frame))
    for number, line in enumerate(lines):
        if line.startswith(">"):
            lines = lines[max(0, number - _BEFORE) :]
            break
    hidden = len(lines) - _MESSAGE_HEAD - _MESSAGE_TAIL
    if hidden <= 1:
        return lines
    gap = f"… ({hidden} lines left out)"
    head = lines[:_MESSAGE_HEAD]
    tail = lines[-_MESSAGE_TAIL:]
    return [*head, gap, *tail]
