"""Pure: which licence a repository has, by the names and texts of its licence files.

Ids are those of the SPDX licence list. The texts are recognised by sentences that only this licence
has; the wording is that of the list, in lower case, with single blanks and without punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

UNKNOWN = "NOASSERTION"
"""What SPDX calls a licence that is not known."""
PERMISSIVE = (
    "MIT", "MIT-0", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC", "0BSD", "Unlicense",
    "CC0-1.0", "PSF-2.0", "Zlib", "BSL-1.0",
)  # fmt: skip
_FILE = re.compile(
    r"(un)?licen[sc]es?|copying|((un)?licen[sc]e|copying)[-_.].*", re.IGNORECASE
)
_CODE = re.compile(r"\.(py|pyi|json|in|sh|cfg|toml|ya?ml)$", re.IGNORECASE)
_STATED = re.compile(
    r"SPDX-License-Identifier:[ \t]*([\w.+-]+)[ \t]*(\*/)?[ \t]*$", re.MULTILINE
)
_MAX_SHORT = 600
_GRANT = "permission is hereby granted free of charge to any person obtaining a copy"
_ISC = "permission to use copy modify and or distribute this software for any purpose with or"
_ISC_OLD = (
    "permission to use copy modify and distribute this software for any purpose with or"
)
_BSD = "redistribution and use in source and binary forms"
# All of the first are in the text, none of the second. The first that fits is the licence: those
# that are not permissive stand first, since a text with parts of both is not permissive.
_TEXTS = (
    ("MPL-2.0", ("mozilla public license version 2 0",), ()),
    ("EPL-2.0", ("eclipse public license v 2 0",), ()),
    ("EPL-1.0", ("eclipse public license v 1 0",), ()),
    ("AGPL-3.0", ("gnu affero general public license version 3",), ()),
    ("LGPL-3.0", ("gnu lesser general public license version 3",), ()),
    ("LGPL-2.1", ("gnu lesser general public license version 2",), ()),
    ("GPL-3.0", ("gnu general public license version 3",), ()),
    ("GPL-2.0", ("gnu general public license version 2",), ()),
    ("PSF-2.0", ("python software foundation license version 2",), ()),
    (
        "Apache-2.0",
        ("apache license version 2 0 january 2004", "grant of patent license"),
        (),
    ),
    ("MIT", (_GRANT, "permission notice shall be included in"), ()),
    (
        "MIT-0",
        (_GRANT, "without restriction"),
        ("subject to the following conditions",),
    ),
    ("BSD-4-Clause", (_BSD, "all advertising materials mentioning features"), ()),
    ("BSD-3-Clause", (_BSD, "endorse or promote products derived"), ()),
    ("BSD-2-Clause", (_BSD, "this list of conditions"), ("endorse or promote",)),
    ("ISC", (_ISC, "provided that the above copyright notice"), ()),
    ("ISC", (_ISC_OLD, "provided that the above copyright notice"), ()),
    ("0BSD", (_ISC, "without fee is hereby granted"), ("provided that the above",)),
    (
        "Unlicense",
        ("free and unencumbered software released into the public domain",),
        (),
    ),
    ("CC0-1.0", ("cc0 1 0 universal", "waive"), ()),
    ("Zlib", ("provided as is without any express or implied", "altered source"), ()),
    ("BSL-1.0", ("boost software license version 1 0",), ()),
)
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
# Of short files that only name a licence; those with a copyleft are not told apart.
_NAMES = (
    (UNKNOWN, r"a?l?gpl|gnu|affero|mozilla|mpl|eclipse"),
    ("Apache-2.0", r"apache (software )?license (version )?2|apache 2"),
    ("BSD-3-Clause", r"bsd 3|3 clause bsd|new bsd|modified bsd|revised bsd"),
    ("BSD-2-Clause", r"bsd 2|2 clause bsd|simplified bsd"),
    ("ISC", r"isc license"),
    ("Unlicense", r"the unlicense"),
    ("CC0-1.0", r"cc0"),
    ("Zlib", r"zlib license"),
    ("MIT", r"mit license|license mit"),
)


def known_ids() -> frozenset[str]:
    return frozenset([*PERMISSIVE, *(name for name, _, _ in _TEXTS)])


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
    names = stated or [
        name for name, pattern in _NAMES if re.search(rf"\b({pattern})\b", plain)
    ]
    # Two names in a few words: a choice, or a condition; which is not known.
    if len(names) == 1:
        return names.pop()
    return UNKNOWN


def _name_by_sentences(plain: str) -> str:
    for name, required, excluded in _TEXTS:
        is_excluded = any(part in plain for part in excluded)
        if all(part in plain for part in required) and not is_excluded:
            return name
    return ""
