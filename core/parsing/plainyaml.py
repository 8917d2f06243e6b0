"""Read untrusted YAML within limits of size and depth, without aliases."""

from __future__ import annotations

import re
from typing import Any

import yaml

from core.parsing.untrusted import DEEPEST, TOO_DEEP, DamagedError

MOST_YAML = 32 * 1024
"""The largest YAML text in bytes: PyYAML reads it in a second."""
_BRACKETS = re.compile(r"[\[{\]}]")


def _bracket_line(text: str) -> int:
    # Brackets in quotes count as well: these texts have few of them.
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += 1 if match[0] in "[{" else -1
        if depth > DEEPEST:
            return text.count("\n", 0, match.start()) + 1
    return 0


class ShallowNodes(yaml.composer.Composer):
    """Refuses deep nesting while reading, because PyYAML takes minutes for it."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401 - PyYAML's own types
        self._depth += 1
        if self._depth > DEEPEST:
            mark = self.peek_event().start_mark  # type: ignore[attr-defined]
            raise yaml.MarkedYAMLError(None, None, TOO_DEEP, mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class PlainLoader(ShallowNodes, yaml.SafeLoader):
    """Loads YAML without aliases, because a few of them can expand to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, "it uses aliases (`*name`)", mark)
        return super().compose_node(parent, index)


def yaml_of(text: str, loader: type[ShallowNodes] = PlainLoader, most: int = MOST_YAML) -> Any:  # noqa: ANN401
    """Return the value of a YAML text.

    Raises:
        DamagedError: ``loader`` cannot read it, or it is too large or nested too deep.
    """
    if (size := len(text.encode("utf-8", "surrogatepass"))) > most:
        raise DamagedError(f"it has {size:,} bytes, and {most:,} are the most")
    if line := _bracket_line(text):
        raise DamagedError(f"line {line}: {TOO_DEEP}")
    try:
        return yaml.load(text, loader)  # type: ignore[arg-type]
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DamagedError(f"line {line}: a character that YAML does not allow") from error
    except (yaml.YAMLError, RecursionError, TypeError, ValueError, OverflowError) as error:
        raise DamagedError(" ".join(str(error).split())[:300]) from error
