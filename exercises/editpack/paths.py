"""Pure: globs of paths, and those of generated and vendored files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import cached_property

GENERATED = (
    "*_pb2.py", "*_pb2_grpc.py", "*_rc.py", "*_generated.py", "_version.py", "versioneer.py",
    "parsetab.py", "lextab.py", "generated", "_generated", "__generated__", "*/migrations/0*.py",
)  # fmt: skip
VENDORED = (
    "vendor", "vendored", "_vendor", "_vendored", "third_party", "third-party", "thirdparty",
    "3rdparty", "extern", "externals", "bundled", "node_modules", "site-packages",
    "dist-packages", ".venv", "venv", "ez_setup.py", "distribute_setup.py", "get-pip.py",
    "*/packages/urllib3/*", "*/packages/chardet/*",
)  # fmt: skip


class PathPatterns:
    """Globs; one without ``/`` fits a file or a folder at any depth, others the whole path.

    ``*`` also stands for ``/``, as in git, and a leading ``*/`` also for nothing.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(filter(None, patterns))

    def fit(self, path: str) -> bool:
        names, paths = self._choices
        return bool(any(map(names.match, path.split("/"))) or paths.match(f"/{path}"))

    @cached_property
    def _choices(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        names = [pattern for pattern in self.patterns if "/" not in pattern]
        paths = [pattern for pattern in self.patterns if "/" in pattern]
        whole = [p if p.startswith(("/", "*/")) else f"/{p}" for p in paths]
        return _any_of(names), _any_of(whole)


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    # Nothing matches an empty choice.
    return re.compile("|".join(map(translate, patterns)) or r"(?!)")
