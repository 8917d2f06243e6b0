"""Select the existing tests that are related to edited files. Pure.

The name, the place, what a test mentions and what changed with it before tell.

Nothing here knows the tests of the evaluation. The leaderboard's maintainers allow tests that
exist at the base commit, and forbid any knowledge of the evaluation (experiments issue 122).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import filterfalse
from os.path import commonprefix
from pathlib import PurePosixPath

from swe_retry.frameworks import Runner
from swe_retry.frameworks.shell import Read
from swe_retry.frameworks.support import CONVENTIONS, Convention
from swe_retry.record.patches import SOURCE_ROOTS, is_test_path

_MAX_FILES = 8
_MAX_FOR_ONE_EDIT = 6
# Scores of Python's tests.
_EXACT = 8
_BEGINS = 6
_MENTIONS = 4
_NAMED = 3
# Not enough alone.
_PACKAGE = 2
_NEAR = 1
# What always changes with the module, alone.
_CHANGED_TOGETHER = 20
# Larger changes are of everything.
_MAX_TOGETHER = 20
# Where pytest reads its settings, the first place first, and what runners collect without any.
_SETTINGS = (
    "pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
# The value: a list of TOML, or the rest of the line with indented lines below it.
_PYTHON_FILES = re.compile(
    r"(?m)^[ \t]*(?:\w+\.)*python_files[ \t]*[=:][ \t]*(\[[^\]]*\]|.*(?:\n[ \t]+.*)*)",
)
_DEFAULT_PATTERNS = ("test_*.py", "*_test.py", "*_tests.py", "tests.py", "test.py")
_COMMON_WORDS = frozenset({"test", "tests", "testing", *SOURCE_ROOTS})
_COMMENT = re.compile("#.*")
_PATTERN = re.compile(r"[^\s,\"'\[\]]+")
_LETTERS = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_DEFINITION = re.compile(
    r"(?m)^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(?!__)(\w{3,})"
)


def has_convention(edited: Iterable[str]) -> bool:
    """Return whether one of ``edited`` is a source file in a language whose tests are known."""
    sources = list(filterfalse(is_test_path, edited))
    if any(path.endswith(".py") for path in sources):
        return True
    return bool(conventions_of(sources))


History = Callable[[str], Iterable[set[str]]]


@dataclass(frozen=True)
class RelatedTests:
    """Selects from the files of one commit, each test file of Python read once.

    Attributes:
        history: the files of each of the last changes to a file up to the commit.
        title: of the issue, in which tests of the packages around an edited file may be named.
    """

    files: Sequence[str]
    read: Read
    history: History = lambda _: ()
    title: str = ""

    def of(self, edited: Iterable[str]) -> tuple[str, ...]:
        """Return the test files that are related to ``edited``, the most related first.

        There are at most eight, and six where one file is edited. A test file of Python scores if
        its path has the module's name, from any of its parts on, or one begins with the other
        (``test_ext_x.py`` or ``ext/tests/test_x.py`` for ``pkg/ext/x.py``); if it is called like a
        package of the module, or lies near, which are not enough alone; for names that the module
        defines, rare ones the most; and for changes together with the module, small ones the most.
        Those of other languages score by ``conventions``. Ties go to the shorter path, then to the
        alphabet.
        """
        sources = list(filterfalse(is_test_path, edited))
        scores: Counter[str] = Counter()
        for source in sources:
            if source.endswith(".py"):
                scores.update(self._python_scores(source))
        by_convention = scores_by_convention(sources, self.files, self.read)
        related: dict[str, float] = dict(by_convention)
        for test, score in scores.items():
            # A test that the candidate itself changes cannot tell.
            if score > _PACKAGE and test not in sources:
                related.setdefault(test, score)
        ordered = sorted(related, key=lambda path: (-related[path], len(path), path))
        limit = min(_MAX_FILES, _MAX_FOR_ONE_EDIT - 1 + len(sources))
        return tuple(ordered[:limit])

    def holds_tests(self, path: str) -> bool:
        """Return whether pytest or unittest takes ``path`` for a test file, by its settings."""
        return _fits(path, self._patterns())

    def _python_scores(self, source: str) -> Mapping[str, float]:
        module = module_parts(source)
        package: list[str] = []
        if len(module) > 1:
            # The top package's name says nothing: every test is about it.
            package = _words(module[:1])
            module = module[1:]
        mentions = self._mentions(source, module[-1])
        max_mentions = max([1, *mentions.values()])
        changes = self._changes_together(source)
        packages = [_words([part]) for part in module[:-1]]
        module_words = _words(module[:-1])
        title_words = set(_words([self.title]))
        scores = {}
        for test, (folder, stem) in self._tests.items():
            if folder[: len(package)] == package:
                folder = folder[len(package) :]
            score = _MENTIONS * mentions[test] / max_mentions
            score += _CHANGED_TOGETHER * changes.get(test, 0)
            if stem in packages:
                score += _PACKAGE
            is_around = folder == module_words[: len(folder)]
            if stem and is_around and title_words.issuperset(stem):
                score += _NAMED
            if not folder and len(module) == 1:
                score += _NEAR
            scores[test] = score + _position_score(folder + stem, module)
        return scores

    def _changes_together(self, source: str) -> Mapping[str, float]:
        shares: Counter[str] = Counter()
        # A few changes do not prove much.
        count = 2
        for paths in self.history(source):
            tests = paths.intersection(self._tests)
            if tests and len(paths) <= _MAX_TOGETHER:
                count += 1
                shares.update(dict.fromkeys(tests, len(tests) ** -0.5))
        return {test: share / count for test, share in shares.items()}

    def _mentions(self, source: str, module: str) -> defaultdict[str, float]:
        text = self.read(source) or ""
        names = {module, *_DEFINITION.findall(text)}
        names |= {f"test_{name}" for name in names}
        counts: defaultdict[str, float] = defaultdict(float)
        for name in names:
            tests = self._tests_by_word.get(name, ())
            for test in tests:
                counts[test] += 1 / len(tests)
        return counts

    @cached_property
    def _tests(self) -> Mapping[str, tuple[list[str], list[str]]]:
        """The telling words of folder and name, by the path of a test file of Python."""
        patterns = self._patterns()
        stems = [PurePosixPath(pattern).stem for pattern in patterns]
        common = _COMMON_WORDS.union(_words(stems))
        tests = {}
        for path in self.files:
            if path.endswith(".py") and _fits(path, patterns):
                folder = _words(module_parts(path)[:-1])
                stem = _words([PurePosixPath(path).stem])
                tests[path] = (
                    [word for word in folder if word not in common],
                    [word for word in stem if word not in common],
                )
        return tests

    def _patterns(self) -> Sequence[str]:
        for name in _SETTINGS:
            match = _PYTHON_FILES.search(self.read(name) or "")
            if match:
                value = _COMMENT.sub("", match[1])
                return _PATTERN.findall(value) or _DEFAULT_PATTERNS
        return _DEFAULT_PATTERNS

    @cached_property
    def _tests_by_word(self) -> Mapping[str, Sequence[str]]:
        tests = defaultdict(list)
        for path in self._tests:
            text = self.read(path) or ""
            for word in set(_WORD.findall(text)):
                tests[word].append(path)
        return tests


def _fits(path: str, patterns: Iterable[str]) -> bool:
    for pattern in patterns:
        # A pattern that fits any name needs a place of tests.
        tells = PurePosixPath(pattern).stem.strip("*?") or is_test_path(path)
        if tells and PurePosixPath(path).match(pattern):
            return True
    return False


def _position_score(test: list[str], module: Sequence[str]) -> int:
    best = 0
    for start in range(len(module)):
        module_words = _words(module[start:])
        package = len(_words(module[start:-1]))
        # Whole words are compared: these are lists.
        shared = len(commonprefix([module_words, test]))  # noqa: RUF071
        score = 0
        if shared == len(module_words) or package < shared == len(test):
            score = _BEGINS
            if len(module_words) == len(test):
                score = _EXACT + (start == 0)
        elif 0 < package == shared:
            score = _NEAR
        best = max(best, score)
    return best


def _words(parts: Iterable[str]) -> list[str]:
    text = " ".join(parts)
    return _LETTERS.findall(text.lower())


def module_parts(path: str) -> list[str]:
    """Return the names of packages and module by which a file of Python is imported."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts = parts[:-1]
    if parts[0] in SOURCE_ROOTS and len(parts) > 1:
        parts = parts[1:]
    return parts


def directive(runner: Runner, path: str) -> str:
    """Return the name of ``path`` on the runner's command line."""
    if runner is Runner.DJANGO:
        path = path.removeprefix("tests/")
    elif runner is not Runner.UNITTEST:
        return path
    module = path.removesuffix(".py")
    return module.replace("/", ".")


# Scores: the name of the file, its beginning, a use of the file, its folder's name, its place.
EXACT = 8
PREFIX = 4
USE = 3
PACKAGE = 2
NEAR = 1

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
    r"(?i)(?:^|/)(?:_*fixtures?_*|__mocks__|__snapshots__|mocks|helpers?|support|testdata|node_modules"
    r"|vendor|third_party|target|dist)/|\.d\.ts$",
)
# Their folder is what they are about.
_ROOT_MODULES = frozenset({"mod", "index", "lib", "main"})
_MIN_PART = 5
_WORD_BREAKS = re.compile(r"[^a-z0-9]")


def conventions_of(edited: Iterable[str]) -> Mapping[str, Convention]:
    conventions = {}
    for path in edited:
        suffix = PurePosixPath(path).suffix.lower()
        for convention in CONVENTIONS:
            if suffix in convention.sources:
                conventions[path] = convention
    return conventions


def scores_by_convention(
    edited: Iterable[str],
    files: Sequence[str],
    read: Read,
) -> dict[str, int]:
    """Return the test files that belong to ``edited``, with their scores."""
    groups = defaultdict(list)
    for source, convention in conventions_of(edited).items():
        groups[convention].append(source)
    scores: dict[str, int] = {}
    for convention, sources in groups.items():
        uses = {source: _uses(convention, source) for source in sources}
        for test in files:
            if not convention.test.search(test) or _NOT_TESTS.search(test):
                continue
            text = read(test) or ""
            scores[test] = 0
            for source in sources:
                scores[test] += _score(convention, test, source)
                if any(use.search(text) for use in uses[source]):
                    scores[test] += USE
        for source in sources:
            text = read(source) or ""
            if convention.inside and convention.inside.search(text):
                scores[source] = 2 * EXACT
    # Tests that are only near count where no test has more.
    minimum = 0
    if max(scores.values(), default=0) > NEAR:
        minimum = NEAR
    return {path: score for path, score in scores.items() if score > minimum}


def _uses(convention: Convention, source: str) -> list[re.Pattern[str]]:
    """Return patterns of texts that use ``source``."""
    stem = _subject_name(source)
    folder = PurePosixPath(source).parent.name or stem
    parts = re.split(r"[_-]", stem)
    camel = "".join(map(str.capitalize, parts))
    names = {
        "stem": re.escape(stem),
        "folder": re.escape(folder),
        "camel": re.escape(camel),
    }
    return [re.compile(form.format_map(names)) for form in convention.uses]


def _subject_name(source: str) -> str:
    path = PurePosixPath(source)
    folder = path.parent.name
    if path.stem in _ROOT_MODULES and folder and folder not in _SOURCE_FOLDERS:
        return folder
    return path.stem


def _score(convention: Convention, test: str, source: str) -> int:
    match = convention.test.search(test)
    assert match is not None
    subjects = filter(None, match.groups())
    subject = _letters(next(subjects, ""))
    path = PurePosixPath(source)
    root = path.stem in _ROOT_MODULES
    near = NEAR if _folder_parts(test) == _folder_parts(source) else 0
    name = _letters(_subject_name(source))
    same_name = subject in (name, _letters(path.stem))
    if same_name and (near or not root):
        return EXACT + near
    if near and (convention.same_folder or root):
        return PREFIX + near
    # A class with many tests may have a folder of its own.
    folder = _letters(PurePosixPath(test).parent.name)
    if subject.startswith(name) or folder == name:
        return PREFIX + near
    if subject and subject == _letters(path.parent.name):
        return PACKAGE + near
    alike = subject in name or name in subject
    alike &= min(len(subject), len(name)) >= _MIN_PART
    if alike or _is_crate_test(test, source):
        return PACKAGE + near
    return near


def _is_crate_test(test: str, source: str) -> bool:
    """Return whether ``test`` is a test program of the crate of ``source``, in Rust."""
    crate, separator, _ = source.rpartition("src/")
    if not separator or not source.endswith(".rs"):
        return False
    return PurePosixPath(test).parent == PurePosixPath(crate, "tests")


def _letters(name: str) -> str:
    return _WORD_BREAKS.sub("", name.lower())


def _folder_parts(path: str) -> list[str]:
    folders = PurePosixPath(path).parts[:-1]
    return [part for part in folders if part.lower() not in _OTHER_LEVELS]
