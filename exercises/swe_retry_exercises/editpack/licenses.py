"""Pure: which licence a repository has, by the names and texts of its licence files.

Ids are those of the SPDX licence list. The texts are recognised by sentences that only this licence
has (``licenses.yaml``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

import yaml

from swe_retry_exercises.values import values_of

UNKNOWN = "NOASSERTION"
"""What SPDX calls a licence that is not known."""
_FILE_OF_TABLES = Path(__file__).with_name("licenses.yaml")
_TABLES = yaml.safe_load(_FILE_OF_TABLES.read_text("utf-8"))
PERMISSIVE: tuple[str, ...] = tuple(_TABLES["permissive"])
_FILE = re.compile(
    r"(un)?licen[sc]es?|copying|((un)?licen[sc]e|copying)[-_.].*", re.IGNORECASE
)
_CODE = re.compile(r"\.(py|pyi|json|in|sh|cfg|toml|ya?ml)$", re.IGNORECASE)
_STATED = re.compile(
    r"SPDX-License-Identifier:[ \t]*([\w.+-]+)[ \t]*(\*/)?[ \t]*$", re.MULTILINE
)
_MAX_SHORT = 600
# Words that take a grant back, or add to it.
_LIMITS = re.compile(
    r"commons clause|non ?commercial|not for commercial|business source license"
    r"|server side public|\bcc by (nc|sa|nd)\b"
)
# Beside a permissive text: other files, or a choice, under other terms.
_COPYLEFT = re.compile(
    r"\b(?:a?l?gpl(?! compatible)|(?:gnu|affero) [a-z ]{0,20}public license|mozilla public"
    r"|eclipse public)\b"
)


def known_ids() -> frozenset[str]:
    return frozenset([*PERMISSIVE, *values_of(_TABLES["texts"], "id")])


def is_license_file(name: str) -> bool:
    """Return whether a file of the top folder holds a licence, by its name."""
    return bool(_FILE.fullmatch(name)) and not _CODE.search(name)


def license_expression(texts: Iterable[str]) -> str:
    """Return the licence that licence files state, as SPDX writes it.

    Several files are read as if all hold.
    """
    return " AND ".join(sorted(set(map(license_of, texts)))) or UNKNOWN


def is_permitted(expression: str, permitted: Collection[str]) -> bool:
    return set(expression.split(" AND ")) <= set(permitted)


def license_of(text: str) -> str:
    """Return the id of the licence of a text, ``NOASSERTION`` if it is not recognised."""
    plain = " ".join(re.findall(r"[a-z0-9]+", text.lower()))
    if _LIMITS.search(plain):
        return UNKNOWN
    stated = {match[0] for match in _STATED.findall(text)}
    name = _name_by_sentences(plain)
    # A text with a permissive licence may also name another that is not; the one of Python
    # tells of the GPL.
    is_mixed = _COPYLEFT.search(plain) or stated - {name}
    if is_mixed and name in PERMISSIVE and name != "PSF-2.0":
        return UNKNOWN
    if name or len(plain) > _MAX_SHORT:
        return name or UNKNOWN
    names: list[str] = list(stated)
    if not names:
        for name, pattern in _TABLES["names"].items():
            if re.search(rf"\b({pattern})\b", plain):
                names.append(name)
    # Two names in a few words: a choice, or a condition; which is not known.
    if len(names) == 1:
        return names.pop()
    return UNKNOWN


def _name_by_sentences(plain: str) -> str:
    for row in _TABLES["texts"]:
        is_excluded = any(part in plain for part in row.get("lacks", ()))
        if all(part in plain for part in row["holds"]) and not is_excluded:
            return str(row["id"])
    return ""
