"""Select the existing tests that are related to edited files, by name and by import. Pure.

Nothing here knows the tests of the evaluation. The leaderboard's maintainers allow tests that
exist at the base commit, and forbid any knowledge of the evaluation (experiments issue 122).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from bench.regression.conventions import conventions_of, scores_by_convention
from bench.regression.runners import Runner
from bench.repos.patches import SOURCE_ROOTS, is_test_path

_MOST_FILES = 8
_TEST_MODULE = re.compile(r"^(test_.*|.*_tests?|tests?)\.py$")
_EXACT, _PREFIX, _IMPORT, _PACKAGE, _NEAR = 8, 4, 2, 2, 1


def related_tests(
    edited: Iterable[str], files: Sequence[str], read: Callable[[str], str | None]
) -> tuple[str, ...]:
    """Return the test files that are related to ``edited``, the most related first, at most eight.

    A test file of Python scores for its name (``test_x.py`` for ``x.py``, also with the folder in
    front, as in ``test_ext_x.py``), for the name of its package (``test_pkg.py`` for
    ``pkg/x.py``), for an import of the module, and for a ``tests`` folder beside the module;
    those of other languages score by ``conventions``. Ties go to the shorter path, then to
    alphabetical order.
    """
    sources = [path for path in edited if not is_test_path(path)]
    scores = _python_scores([path for path in sources if path.endswith(".py")], files, read)
    scores |= scores_by_convention(sources, files, read)
    return tuple(sorted(scores, key=lambda p: (-scores[p], len(p), p))[:_MOST_FILES])


def has_convention(edited: Iterable[str]) -> bool:
    """Tell whether one of ``edited`` is a source file in a language whose tests are known."""
    sources = [path for path in edited if not is_test_path(path)]
    return any(path.endswith(".py") for path in sources) or bool(conventions_of(sources))


def _python_scores(
    sources: Sequence[str], files: Sequence[str], read: Callable[[str], str | None]
) -> dict[str, int]:
    if not sources:
        return {}
    tests = [path for path in files if is_test_path(path) and _TEST_MODULE.match(_name(path))]
    scores = {path: sum(_name_score(path, source) for source in sources) for path in tests}
    patterns = [_import_pattern(source) for source in sources]
    for path in tests:
        text = read(path) or ""
        scores[path] += _IMPORT * sum(bool(pattern.search(text)) for pattern in patterns)
    return {path: score for path, score in scores.items() if score > _NEAR}


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _name_score(test: str, source: str) -> int:
    stem = re.sub(r"^test_|_tests?$", "", PurePosixPath(test).stem)
    module = _module(source)
    # Parts of the dotted name joined by "_", starting with the last: x, ext_x, pkg_ext_x.
    names = ["_".join(module[start:]) for start in range(len(module))]
    near = _NEAR * (PurePosixPath(test).parent.parent == PurePosixPath(source).parent)
    if stem in names:
        return _EXACT + near
    starts = any(name and stem.startswith(f"{name}_") for name in names)
    if starts:
        return _PREFIX + near
    return (_PACKAGE if stem in module[:-1] else 0) + near


def _module(path: str) -> list[str]:
    """Return the parts of a source file's dotted name, without leading underscores."""
    return [part.lstrip("_") or part for part in _dotted(path)]


def _dotted(path: str) -> list[str]:
    """Return the parts of the name under which a source file is imported."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[0] in SOURCE_ROOTS and len(parts) > 1:
        parts = parts[1:]
    if parts[-1] == "__init__" and len(parts) > 1:
        parts = parts[:-1]
    return parts


def _import_pattern(source: str) -> re.Pattern[str]:
    """Return a pattern of imports of ``source``: ``import a.b`` or ``from a import b``."""
    parts = _dotted(source)
    whole = re.escape(".".join(parts))
    forms = [rf"^\s*(?:from|import)\s+{whole}(?:\.|\s|$|,)"]
    if len(parts) > 1:
        package, last = re.escape(".".join(parts[:-1])), re.escape(parts[-1])
        forms.append(rf"^\s*from\s+{package}\s+import\s+[^\n]*\b{last}\b")
    return re.compile("|".join(forms), re.MULTILINE)


def directives(runner: Runner, path: str) -> str:
    """Return the name of ``path`` on the runner's command line."""
    if runner is Runner.DJANGO:
        return path.removeprefix("tests/").removesuffix(".py").replace("/", ".")
    if runner is Runner.UNITTEST:
        return path.removesuffix(".py").replace("/", ".")
    return path
