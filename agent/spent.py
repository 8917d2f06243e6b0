"""Read the costs that an outside agent reports, in an optional and untrusted file."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from core.money import dollars
from core.parsing.untrusted import json_of
from llm.chat import Usage

_MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Spent:
    """Dollars and tokens, None where unknown; ``note`` says what is wrong with the file."""

    cost: Decimal | None = None
    usage: Usage | None = None
    note: str = ""


UNKNOWN = Spent()


def read_spent(path: Path) -> Spent:
    """Return the content of ``path``: ``{"cost": dollars, "tokens": {"prompt": n, …}}``.

    A missing file is no error; an unreadable file gives a note.
    """
    if path.is_symlink() or not path.exists():
        return UNKNOWN
    try:
        data = _load(path)
        return Spent(_cost(data.get("cost")), _usage(data.get("tokens")))
    except (OSError, ValueError, OverflowError) as error:
        return Spent(note=f"the agent's result file is wrong, so its cost is unknown: {error}")


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError("not a regular file")
    with path.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES} bytes")
    content = json_of(data)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


def _cost(value: object) -> Decimal | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("`cost` is not a number")
    try:
        return dollars(value)
    except ValueError as error:
        raise ValueError(f"`cost`: {error}") from None


def _usage(value: object) -> Usage | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("`tokens` is not an object")
    counts = [value.get(key, 0) for key in ("prompt", "completion", "cached")]
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts):
        raise ValueError("`tokens` holds something else than counts")
    return Usage(*counts)
