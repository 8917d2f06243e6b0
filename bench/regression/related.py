"""Select the existing tests that are related to edited files: by name, place and mention. Pure.

Nothing here knows the tests of the evaluation. The leaderboard's maintainers allow tests that
exist at the base commit, and forbid any knowledge of the evaluation (experiments issue 122).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath

from bench.regression.runners import CONVENTIONS, Runner
from bench.regression.runners.base import Convention
from bench.regression.runners.shell import Read
from runs.patches import SOURCE_ROOTS, is_test_path

_MOST_FILES, _MOST_FOR_ONE = 8, 6
_EXACT, _BEGINS, _NEAR, _MENTIONS = 8, 6, 3, 4
# Where pytest reads its settings, the first place first, and what runners collect without any.
_SETTINGS = (
    "pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
_PYTHON_FILES = re.compile(
    r"^[ \t]*(?:\w+\.)*python_files[ \t]*[=:][ \t]*(\[[^\]]*\]|.*(?:\n[ \t]+.*)*)",
    re.MULTILINE,
)
_USUAL = ("test_*.py", "*_test.py", "*_tests.py", "tests.py", "test.py")
_LEVELS = frozenset({"test", "tests", "testing", *SOURCE_ROOTS})
_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_DEFINED = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(?!__)(\w{3,})", re.MULTILINE
)


def has_convention(edited: Iterable[str]) -> bool:
    """Return whether one of ``edited`` is a source file in a language whose tests are known."""
    sources = [path for path in edited if not is_test_path(path)]
    return any(path.endswith(".py") for path in sources) or bool(
        conventions_of(sources)
    )


@dataclass(frozen=True)
class RelatedTests:
    """Selects from the files of one commit, each test file of Python read once."""

    files: Sequence[str]
    read: Read

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
        names = {module, *_DEFINED.findall(self.read(source) or "")}
        found: Counter[str] = Counter()
        for name in names | {f"test_{name}" for name in names}:
            tests = self._mentioning.get(name, ())
            found.update(dict.fromkeys(tests, 1 / max(1, len(tests))))
        return found

    @cached_property
    def _tests(self) -> Mapping[str, tuple[list[str], list[str]]]:
        settings = (_PYTHON_FILES.search(self.read(name) or "") for name in _SETTINGS)
        value = next((re.sub("#.*", "", match[1]) for match in settings if match), "")
        patterns = re.findall(r"[^\s,\"'\[\]]+", value) or _USUAL
        common = _LEVELS | {
            *_words(PurePosixPath(pattern).stem for pattern in patterns)
        }
        found = {}
        for path in filter(lambda path: path.endswith(".py"), self.files):
            # A pattern that fits any name needs a place of tests.
            named = [p for p in patterns if PurePosixPath(path).match(p)]
            if any(
                PurePosixPath(p).stem.strip("*?") or is_test_path(path) for p in named
            ):
                parts = (_words(_dotted(path)[:-1]), _words([PurePosixPath(path).stem]))
                folder, stem = (
                    [word for word in part if word not in common] for part in parts
                )
                found[path] = (folder, stem)
        return found

    @cached_property
    def _mentioning(self) -> Mapping[str, Sequence[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in self._tests:
            for word in {*_WORD.findall(self.read(path) or "")}:
                found[word].append(path)
        return found


def _place(test: list[str], module: Sequence[str], *, flat: bool) -> int:
    best = 0
    for start in range(len(module)):
        words, package = _words(module[start:]), len(_words(module[start:-1]))
        same = len(
            [
                *takewhile(
                    lambda pair: pair[0] == pair[1], zip(words, test, strict=False)
                )
            ]
        )
        if same == len(words) or package < same == len(test):
            best = max(
                best, _EXACT + (not start) if len(words) == len(test) else _BEGINS
            )
        elif same == package and (package or (flat and not module[1:])):
            best = max(best, _NEAR)
    return best


def _words(parts: Iterable[str]) -> list[str]:
    return [word for part in parts for word in re.findall(r"[^\W_]+", part.lower())]


def _dotted(path: str) -> list[str]:
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


EXACT, PREFIX, USE, PACKAGE, NEAR = 8, 4, 3, 2, 1
"""Scores: the name of the file, its beginning, a use of the file, its folder's name, its place."""

# Folders of tests, and folders of sources that they mirror.
_TEST_FOLDERS = frozenset(
    {"test", "tests", "spec", "specs", "__tests__", "t", "unittest", "it"}
)
_SOURCE_FOLDERS = frozenset(
    {"src", "lib", "app", "source", "include", "main", "java", "kotlin"}
)
_OTHER_LEVELS = _TEST_FOLDERS | _SOURCE_FOLDERS | {"unit", "scala", "groovy"}
# Files that tests use.
_NOT_TESTS = re.compile(
    r"(?:^|/)(?:_*fixtures?_*|__mocks__|__snapshots__|mocks|helpers?|support|testdata|node_modules"
    r"|vendor|third_party|target|dist)/|\.d\.ts$",
    re.IGNORECASE,
)
# Their folder is what they are about.
_ROOT_MODULES = frozenset({"mod", "index", "lib", "main"})
_SHORTEST_PART = 5
_WORD_BREAKS = re.compile(r"[^a-z0-9]")


def conventions_of(edited: Iterable[str]) -> Mapping[str, Convention]:
    by_suffix = {suffix: one for one in CONVENTIONS for suffix in one.sources}
    found = (
        (path, by_suffix.get(PurePosixPath(path).suffix.lower())) for path in edited
    )
    return {path: convention for path, convention in found if convention}


def scores_by_convention(
    edited: Iterable[str], files: Sequence[str], read: Read
) -> dict[str, int]:
    """Return the test files that belong to ``edited``, with their scores."""
    scores: dict[str, int] = {}
    sources = conventions_of(edited)
    for convention in {id(one): one for one in sources.values()}.values():
        group = [path for path, one in sources.items() if one is convention]
        found = (path for path in files if convention.test.search(path))
        tests = [path for path in found if not _NOT_TESTS.search(path)]
        patterns = [
            [_use(form, source) for form in convention.uses] for source in group
        ]
        for test in tests:
            text = read(test) or ""
            used = [any(form.search(text) for form in forms) for forms in patterns]
            score = sum(
                _score(convention, test, source) + USE * use
                for source, use in zip(group, used, strict=True)
            )
            scores[test] = score
        for source in group:
            if convention.inside and convention.inside.search(read(source) or ""):
                scores[source] = 2 * EXACT
    # Tests that are only near count where no test has more.
    least = NEAR if max(scores.values(), default=0) > NEAR else 0
    return {path: score for path, score in scores.items() if score > least}


def _use(form: str, source: str) -> re.Pattern[str]:
    stem = _name(source)
    camel = "".join(part.capitalize() for part in re.split(r"[_-]", stem))
    words = {
        "stem": stem,
        "folder": PurePosixPath(source).parent.name or stem,
        "camel": camel,
    }
    return re.compile(
        form.format(**{key: re.escape(word) for key, word in words.items()})
    )


def _name(source: str) -> str:
    path = PurePosixPath(source)
    folder = path.parent.name
    named_by_folder = (
        path.stem in _ROOT_MODULES and folder and folder not in _SOURCE_FOLDERS
    )
    return folder if named_by_folder else path.stem


def _score(convention: Convention, test: str, source: str) -> int:
    match = convention.test.search(test)
    assert match is not None
    subject = _plain(next((text for text in match.groups() if text), ""))
    path = PurePosixPath(source)
    near = _folder(test) == _folder(source)
    name = _plain(_name(source))
    if subject in (name, _plain(path.stem)) and (
        near or path.stem not in _ROOT_MODULES
    ):
        return EXACT + NEAR * near
    if near and (convention.same_folder or path.stem in _ROOT_MODULES):
        return PREFIX + NEAR
    # A class with many tests may have a folder of its own.
    folder = _plain(PurePosixPath(test).parent.name)
    if subject.startswith(name) or folder == name:
        return PREFIX + NEAR * near
    long = min(len(subject), len(name)) >= _SHORTEST_PART
    alike = long and (subject in name or name in subject)
    package = bool(subject) and subject == _plain(path.parent.name)
    crate, found, _ = source.rpartition("src/")
    program = bool(found) and PurePosixPath(test).parent == PurePosixPath(
        crate, "tests"
    )
    whole = path.suffix == ".rs" and program
    return PACKAGE * (alike or package or whole) + NEAR * near


def _plain(name: str) -> str:
    return _WORD_BREAKS.sub("", name.lower())


def _folder(path: str) -> tuple[str, ...]:
    return tuple(
        part
        for part in PurePosixPath(path).parts[:-1]
        if part.lower() not in _OTHER_LEVELS
    )
