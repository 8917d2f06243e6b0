"""The tree under test: a candidate without its changes of tests and of how tests run. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath

from agent.workspace import TextFile
from bench.regression.configuration.testsettings import is_shared, with_settings_of
from bench.repos.patches import (
    RUNNER_CONFIGURATION,
    SOURCE_ROOTS,
    STARTUP_MODULES,
    TEST_CONFIGURATION,
    is_excluded,
    split_patch,
)
from core.worktree import Changes

Read = Callable[[str], str | None]
"""Returns the text of a file of the base commit; None if there is none."""

# With installed entry points; below, sympy's runner.
_WHOLE = TEST_CONFIGURATION | {f"{name}.py" for name in STARTUP_MODULES} | {"entry_points.txt"}
_RUNNERS = frozenset({"bin/test"})


class ConfigurationEdits(Enum):
    """How much of a candidate is test configuration."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True)
class TreeUnderTest:
    """The tree in which a candidate's tests run.

    Attributes:
        changes: against the base commit.
        configuration: sorted files whose edits of test configuration were removed.
    """

    changes: Changes
    configuration: tuple[str, ...] = ()

    def edits(self, plugins: Collection[str]) -> ConfigurationEdits:
        """Tell how much of the candidate is test configuration, including its ``plugins``."""
        if not self.changes.keys() - {*plugins} and (plugins or self.configuration):
            return ConfigurationEdits.ALL
        return ConfigurationEdits.SOME if self.configuration else ConfigurationEdits.NONE


def may_configure_tests(path: str) -> bool:
    """Tell whether an edit of the existing file ``path`` may change how tests run."""
    name = PurePosixPath(path).name
    named = name in _WHOLE or RUNNER_CONFIGURATION.fullmatch(name) is not None
    return named or path in _RUNNERS or path.endswith(".pth") or is_shared(path)


def plugins_of(patch: str) -> frozenset[str]:
    """Return the new modules of a raw patch that are named in its edits of test configuration.

    Without these edits they do nothing.
    """
    parts = tuple(split_patch(patch.encode("utf-8", "surrogateescape")))
    edits = b"\n".join(part.data for part in parts if may_configure_tests(part.path))
    new = [part.path for part in parts if part.new and part.path.endswith(".py")]
    return frozenset(path for path in new if edits and _module(path).search(edits))


def _module(path: str) -> re.Pattern[bytes]:
    """Return a pattern of the name by which the file ``path`` is imported."""
    names = PurePosixPath(path.removesuffix("/__init__.py")).with_suffix("").parts
    dotted = ".".join(names[1:] if names[0] in SOURCE_ROOTS and len(names) > 1 else names)
    return re.compile(rb"(?<![\w.])" + re.escape(os.fsencode(dotted)) + rb"(?!\w)")


def tree_under_test(changes: Changes, files: Collection[str], read: Read) -> TreeUnderTest:
    """Return the tree of ``changes`` with the base commit's tests and test configuration.

    Args:
        changes: of the candidate.
        files: of the base commit.
        read: returns the text of one of them.
    """
    known = frozenset(files)
    kept: dict[str, bytes | None] = {}
    configuration = []
    for path, data in changes.items():
        new = path not in known
        if is_excluded(path, new=new):
            continue
        if not may_configure_tests(path) or (new and not is_shared(path)):
            kept[path] = data
            continue
        file = _kept_file(path, "" if new else read(path), data)
        kept.update(file)
        if file != {path: data}:
            configuration.append(path)
    return TreeUnderTest(kept, tuple(sorted(configuration)))


def _kept_file(path: str, base: str | None, data: bytes | None) -> Changes:
    """Return the change of a file with the base's test configuration; empty if nothing is left."""
    if data is not None and TextFile.decode(data).text == base:
        return {path: data}
    text = _text(data)
    if base is None or text is None or not is_shared(path):
        return {}
    found = with_settings_of(path, base, text)
    if found == text:
        return {path: data}
    # A deleted file can only be restored completely.
    kept = None not in (found, data) and found != base
    return {path: found.encode()} if kept and found else {}


def _text(data: bytes | None) -> str | None:
    """Return the text that parsers of settings read; None if not UTF-8, empty if deleted."""
    try:
        return "" if data is None else data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None
