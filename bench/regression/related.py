"""Select the existing tests that are related to edited files: by name, place and mention. Pure.

Nothing here knows the tests of the evaluation. The leaderboard's maintainers allow tests that
exist at the base commit, and forbid any knowledge of the evaluation (experiments issue 122).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath

from bench.regression.conventions import conventions_of, scores_by_convention
from bench.regression.runners import Runner
from bench.repos.patches import SOURCE_ROOTS, is_test_path

_MOST_FILES, _MOST_FOR_ONE = 8, 6
_EXACT, _BEGINS, _NEAR, _MENTIONS = 8, 6, 3, 4
# Where pytest reads its settings, the first place first, and what runners collect without any.
_SETTINGS = ("pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_PYTHON_FILES = re.compile(
    r"^[ \t]*(?:\w+\.)*python_files[ \t]*[=:][ \t]*(\[[^\]]*\]|.*(?:\n[ \t]+.*)*)", re.MULTILINE
)
_USUAL = ("test_*.py", "*_test.py", "*_tests.py", "tests.py", "test.py")
_LEVELS = frozenset({"test", "tests", "testing", *SOURCE_ROOTS})
_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_DEFINED = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(?!__)(\w{3,})", re.MULTILINE)


def has_convention(edited: Iterable[str]) -> bool:
    """Tell whether one of ``edited`` is a source file in a language whose tests are known."""
    sources = [path for path in edited if not is_test_path(path)]
    return any(path.endswith(".py") for path in sources) or bool(conventions_of(sources))


@dataclass(frozen=True)
class RelatedTests:
    """Selects from the files of one commit, each test file of Python read once.

    Attributes:
        read: returns the text of one of ``files``, or of a settings file.
    """

    files: Sequence[str]
    read: Callable[[str], str | None]

    def of(self, edited: Iterable[str]) -> tuple[str, ...]:
        """Return the test files that are related to ``edited``, the most related first.

        There are at most eight, and six where one file is edited. A test file of Python scores if
        its path has the module's name, from any of its parts on, or one begins with the other
        (``test_ext_x.py`` or ``ext/tests/test_x.py`` for ``pkg/ext/x.py``); if it lies near, which
        is not enough; and for names that the module defines, rare ones the most. Those of other
        languages score by ``conventions``. Ties go to the shorter path, then to the alphabet.
        """
        sources = [path for path in edited if not is_test_path(path)]
        scores: Counter[str] = Counter()
        for source in sources:
            if source.endswith(".py"):
                scores.update(self._python_scores(source))
        # A test that the candidate itself changes cannot tell.
        related = {p: s for p, s in scores.items() if s > _NEAR and p not in sources}
        related |= scores_by_convention(sources, self.files, self.read)
        found = sorted(related, key=lambda path: (-related[path], len(path), path))
        return tuple(found[: min(_MOST_FILES, _MOST_FOR_ONE - 1 + len(sources))])

    def _python_scores(self, source: str) -> Mapping[str, float]:
        name = _dotted(source)
        # The top package's name says nothing: every test is about it.
        top, module = (_words(name[:1]), name[1:]) if name[1:] else ([], name)
        mentions = self._mentions(source, module[-1])
        most = max([1, *mentions.values()])
        scores = {}
        for test, (folder, stem) in self._tests.items():
            inner = folder[len(top) :] if folder[: len(top)] == top else folder
            place = _place([*inner, *stem], module, flat=bool(top) and not inner)
            scores[test] = place + _MENTIONS * mentions.get(test, 0) / most
        return scores

    def _mentions(self, source: str, module: str) -> Mapping[str, float]:
        """Return how much each test mentions of what ``source`` defines, or of tests called so."""
        names = {module, *_DEFINED.findall(self.read(source) or "")}
        found: Counter[str] = Counter()
        for name in names | {f"test_{name}" for name in names}:
            tests = self._mentioning.get(name, ())
            found.update(dict.fromkeys(tests, 1 / max(1, len(tests))))
        return found

    @cached_property
    def _tests(self) -> Mapping[str, tuple[list[str], list[str]]]:
        """The words of each test's folder and name, without those that make it a test."""
        patterns = _patterns(self.read)
        common = _LEVELS | {*_words(PurePosixPath(pattern).stem for pattern in patterns)}
        found = {}
        for path in filter(lambda path: path.endswith(".py"), self.files):
            if any(_is_test(path, pattern) for pattern in patterns):
                parts = (_words(_dotted(path)[:-1]), _words([PurePosixPath(path).stem]))
                folder, stem = ([word for word in part if word not in common] for part in parts)
                found[path] = (folder, stem)
        return found

    @cached_property
    def _mentioning(self) -> Mapping[str, Sequence[str]]:
        """The tests in which each word stands."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in self._tests:
            for word in {*_WORD.findall(self.read(path) or "")}:
                found[word].append(path)
        return found


def _patterns(read: Callable[[str], str | None]) -> Sequence[str]:
    """Return the names of tests by pytest's setting ``python_files``, else the usual ones."""
    found = filter(None, (_PYTHON_FILES.search(read(name) or "") for name in _SETTINGS))
    value = next((re.sub("#.*", "", match[1]) for match in found), "")
    return re.findall(r"[^\s,\"'\[\]]+", value) or _USUAL


def _is_test(path: str, pattern: str) -> bool:
    """Tell whether ``pattern`` makes ``path`` a test; one of any name needs a place of tests."""
    says = PurePosixPath(pattern).stem.strip("*?")
    return PurePosixPath(path).match(pattern) and (bool(says) or is_test_path(path))


def _place(test: list[str], module: Sequence[str], *, flat: bool) -> int:
    """Score how the words of a test's path agree with a module's name, from any part of it on."""
    best = 0
    for start in range(len(module)):
        words, package = _words(module[start:]), len(_words(module[start:-1]))
        same = len([*takewhile(lambda pair: pair[0] == pair[1], zip(words, test, strict=False))])
        if same == len(words) or package < same == len(test):
            best = max(best, _EXACT + (not start) if len(words) == len(test) else _BEGINS)
        elif same == package and (package or (flat and not module[1:])):
            best = max(best, _NEAR)
    return best


def _words(parts: Iterable[str]) -> list[str]:
    return [word for part in parts for word in re.findall(r"[^\W_]+", part.lower())]


def _dotted(path: str) -> list[str]:
    """Return the parts of the name under which a source file is imported."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[0] in SOURCE_ROOTS and len(parts) > 1:
        parts = parts[1:]
    if parts[-1] == "__init__" and len(parts) > 1:
        parts = parts[:-1]
    return parts


def directives(runner: Runner, path: str) -> str:
    """Return the name of ``path`` on the runner's command line."""
    if runner is Runner.DJANGO:
        return path.removeprefix("tests/").removesuffix(".py").replace("/", ".")
    if runner is Runner.UNITTEST:
        return path.removesuffix(".py").replace("/", ".")
    return path


def related_tests(
    edited: Iterable[str], files: Sequence[str], read: Callable[[str], str | None]
) -> tuple[str, ...]:
    """Return ``RelatedTests.of`` for one use."""
    return RelatedTests(files, read).of(edited)
