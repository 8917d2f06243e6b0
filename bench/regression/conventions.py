"""Which test files belong to an edited file, by the conventions of each language. Pure.

Only paths and texts of the base commit are read. Sources: the documentation of ``go test``, Cargo's
and Maven's standard layouts, and the default patterns of jest, PHPUnit, RSpec and minitest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

Read = Callable[[str], str | None]

EXACT, PREFIX, USE, PACKAGE, NEAR = 8, 4, 3, 2, 1
"""Scores: the name of the file, its beginning, a use of the file, its folder's name, its place."""

# Folders of tests, and folders of sources that they mirror.
_TEST_FOLDERS = frozenset({"test", "tests", "spec", "specs", "__tests__", "t", "unittest", "it"})
_SOURCE_FOLDERS = frozenset({"src", "lib", "app", "source", "include", "main", "java", "kotlin"})
_LEVELS = _TEST_FOLDERS | _SOURCE_FOLDERS | {"unit", "scala", "groovy"}
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


@dataclass(frozen=True)
class Convention:
    """How one family of languages names tests.

    Attributes:
        sources: suffixes of its files.
        test: matches the path of a test file; its group ``subject`` is the name of what is tested.
        uses: patterns of a test's text that uses a source file: ``{stem}`` is its name without
            suffix, ``{folder}`` the folder's, ``{camel}`` the stem as the name of a class.
        same_folder: whether a test may use what lies in its folder without naming it.
        inside: matches the text of a source file that holds tests itself.
    """

    sources: tuple[str, ...]
    test: re.Pattern[str]
    uses: tuple[str, ...] = ()
    same_folder: bool = False
    inside: re.Pattern[str] | None = None


_CONVENTIONS = (
    Convention(
        (".go",),
        re.compile(r"(?:^|/)(?P<subject>[^/]+)_test\.go$"),
        (r'"[^"\s]*/{folder}"',),
        same_folder=True,
    ),
    Convention(
        (".rs",),
        re.compile(
            r"(?:^|/)(?:tests/(?:[^/]+/)*(?:test_)?(?P<subject>[^/]+?)(?:_tests?)?"
            r"|(?P<module>[^/]+)/tests?|(?P<beside>[^/]+)_tests?)\.rs$"
        ),
        (r"\b{stem}::", r"::{stem}\b", r"\{{[^{{}}]{{0,300}}\b{stem}\b"),
        inside=re.compile(r"^\s*#\[(?:cfg\(test\)|test\]|\w+::test\b)", re.M),
    ),
    Convention(
        (".java", ".kt", ".kts", ".groovy", ".scala"),
        re.compile(
            r"(?:^|/)src/\w*[tT]est\w*/(?:.*/)?(?P<subject>\w+?)(?:Tests?|TestCase|IT|Spec)\.\w+$"
            r"|(?:^|/)src/\w*[tT]est\w*/(?:.*/)?Test(?P<behind>[A-Z]\w*)\.\w+$"
        ),
        (r"\b{stem}\b",),
    ),
    Convention(
        (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte"),
        re.compile(
            r"(?:^|/)(?P<subject>[^/]+?)[._-](?:unit\.)?(?:test|tests|spec)\.[cm]?[jt]sx?$"
            r"|(?:^|/)(?:__tests__|tests?|specs?)/(?:.*/)?(?:test[-_.])?(?P<inside>[^/.]+)"
            r"(?:\.[^/.]+)?\.[cm]?[jt]sx?$"
        ),
        (r"""['"`](?:[^'"`\n]*/)?{stem}(?:\.\w+)?['"`]""",),
    ),
    Convention(
        (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".ipp", ".inl"),
        re.compile(
            r"(?:^|/)(?P<subject>[^/]+?)[_-]?(?:unit)?[tT]ests?\.(?:c|cc|cpp|cxx)$"
            r"|(?:^|/)(?:unit)?[tT]est[_-]?(?P<behind>[^/]+)\.(?:c|cc|cpp|cxx)$"
            r"|(?:^|/)(?:tests?|t|unittest)/(?:.*/)?(?:test[_-]?)?(?P<inside>[^/]+?)"
            r"(?:[_-]?[tT]ests?)?\.(?:c|cc|cpp|cxx)$"
        ),
        (r"""#\s*include\s*["<](?:[^">\n]*/)?{stem}\.h\w*[">]""",),
    ),
    Convention(
        (".php",),
        re.compile(r"(?:^|/)[tT]ests?/(?:.*/)?(?P<subject>\w+?)Test\.php$"),
        (r"\b{stem}\b",),
    ),
    Convention(
        (".rb",),
        re.compile(
            r"(?:^|/)(?P<subject>[^/]+)_(?:test|spec)\.rb$|(?:^|/)test_(?P<behind>[^/]+)\.rb$"
            r"|(?:^|/)test/(?:.*/)?tc?_(?P<inside>[^/]+)\.rb$"
        ),
        (r"""require(?:_relative)?\s*\(?\s*['"][^'"\n]*\b{stem}(?:\.rb)?['"]""", r"\b{camel}\b"),
    ),
)


def conventions_of(edited: Iterable[str]) -> Mapping[str, Convention]:
    """Return the convention of each of ``edited`` that has one."""
    found = ((path, _convention(path)) for path in edited)
    return {path: convention for path, convention in found if convention}


def _convention(path: str) -> Convention | None:
    suffix = PurePosixPath(path).suffix.lower()
    return next((one for one in _CONVENTIONS if suffix in one.sources), None)


def is_named_as_test(path: str) -> bool:
    """Tell whether the conventions of its language call the file ``path`` a test."""
    convention = _convention(path)
    return convention is not None and _is_test(convention, path)


def _is_test(convention: Convention, path: str) -> bool:
    return convention.test.search(path) is not None and not _NOT_TESTS.search(path)


def scores_by_convention(edited: Iterable[str], files: Sequence[str], read: Read) -> dict[str, int]:
    """Return the test files that belong to ``edited``, with their scores.

    Args:
        edited: source files, no tests.
        files: of the base commit.
        read: returns the text of one of them.
    """
    scores: dict[str, int] = {}
    sources = conventions_of(edited)
    for convention in {id(one): one for one in sources.values()}.values():
        group = [path for path, one in sources.items() if one is convention]
        tests = [path for path in files if _is_test(convention, path)]
        patterns = [[_use(form, source) for form in convention.uses] for source in group]
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
    stem = sorted(_names(source))[0]
    camel = "".join(part.capitalize() for part in re.split(r"[_-]", stem))
    words = {"stem": stem, "folder": PurePosixPath(source).parent.name or stem, "camel": camel}
    return re.compile(form.format(**{key: re.escape(word) for key, word in words.items()}))


def _names(source: str) -> frozenset[str]:
    """Return the names by which tests call a source file; the root of a crate has none."""
    path = PurePosixPath(source)
    if path.stem not in _ROOT_MODULES:
        return frozenset({path.stem})
    folder = path.parent.name
    return frozenset({folder} if folder and folder not in _SOURCE_FOLDERS else {path.stem})


def _score(convention: Convention, test: str, source: str) -> int:
    match = convention.test.search(test)
    assert match is not None
    subject = _plain(next((text for text in match.groups() if text), ""))
    path = PurePosixPath(source)
    near = _folder(test) == _folder(source)
    names = {_plain(name) for name in (*_names(source), path.stem)}
    if subject in names and (near or path.stem not in _ROOT_MODULES):
        return EXACT + NEAR * near
    if near and (convention.same_folder or path.stem in _ROOT_MODULES):
        return PREFIX + NEAR
    # A class with many tests may have a folder of its own.
    folder = _plain(PurePosixPath(test).parent.name)
    if any(subject.startswith(name) or folder == name for name in map(_plain, _names(source))):
        return PREFIX + NEAR * near
    alike = any(_alike(subject, _plain(name)) for name in _names(source))
    package = bool(subject) and subject == _plain(path.parent.name)
    whole = path.suffix == ".rs" and _is_program_of_its_crate(test, source)
    return PACKAGE * (alike or package or whole) + NEAR * near


def _alike(subject: str, name: str) -> bool:
    """Tell whether one name is a part of the other, and long enough to mean something."""
    return min(len(subject), len(name)) >= _SHORTEST_PART and (subject in name or name in subject)


def _is_program_of_its_crate(test: str, source: str) -> bool:
    """Tell whether ``test`` is a test program, which tests its crate as a whole."""
    crate, found, _ = source.rpartition("src/")
    return bool(found) and PurePosixPath(test).parent == PurePosixPath(crate, "tests")


def _plain(name: str) -> str:
    return _WORD_BREAKS.sub("", name.lower())


def _folder(path: str) -> tuple[str, ...]:
    """Return the folders of ``path`` without those that only separate tests from sources."""
    return tuple(part for part in PurePosixPath(path).parts[:-1] if part.lower() not in _LEVELS)
