"""Licences: known texts and names are recognised, others are not taken for permissive ones."""

from __future__ import annotations

from exercises.tests.support.editpack import MIT
from swe_retry_exercises.editpack.licenses import (
    PERMISSIVE,
    UNKNOWN,
    is_license_file,
    is_permitted,
    known_ids,
    license_expression,
    license_of,
)
from swe_retry_exercises.editpack.mine import GENERATED, VENDORED, fits

BSD = """Redistribution and use in source and binary forms, with or without modification, are
permitted provided that the following conditions are met:
1. Redistributions of source code must retain the above copyright notice,
   this list of conditions and the following disclaimer.
"""
NO_NAMES = "3. Neither the name of the holder nor the names of its contributors may be used to\n"
NO_NAMES += "endorse or promote products derived from this software.\n"
ISC = """Permission to use, copy, modify, and/or distribute this software for any purpose with or
without fee is hereby granted"""
APACHE = """Apache License
Version 2.0, January 2004
3. Grant of Patent License. Subject to the terms"""
TEXTS = {
    MIT.decode(): "MIT",
    f"{BSD}{NO_NAMES}": "BSD-3-Clause",
    BSD: "BSD-2-Clause",
    f"{BSD}3. All advertising materials mentioning features or use": "BSD-4-Clause",
    f"{ISC}, provided that the above copyright notice": "ISC",
    f"{ISC}.": "0BSD",
    APACHE: "Apache-2.0",
    "This is free and unencumbered software released into the public domain.": "Unlicense",
    "CC0 1.0 Universal ... waive": "CC0-1.0",
    "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2 ... under the GNU GPL": "PSF-2.0",
    "This software is provided 'as-is', without any express or implied; altered source": "Zlib",
    "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007": "GPL-3.0",
    "GNU LESSER GENERAL PUBLIC LICENSE Version 2.1": "LGPL-2.1",
    "GNU AFFERO GENERAL PUBLIC LICENSE Version 3": "AGPL-3.0",
    f"{MIT.decode()}\nOther parts: GNU General Public License, version 2.": "GPL-2.0",
    "Mozilla Public License Version 2.0 ... GNU General Public License, Version 2.0": "MPL-2.0",
    f'{MIT.decode()}\n"Commons Clause" License Condition v1.0': UNKNOWN,
    f"{MIT.decode()}\nFiles in gpl/ are licensed under the GPL v3.": UNKNOWN,
    f"{MIT.decode()}\nPictures: CC BY-NC-SA 4.0": UNKNOWN,
    f"{MIT.decode()}\nNot for commercial use.": UNKNOWN,
    f"{MIT.decode()}\nSPDX-License-Identifier: GPL-3.0-only": UNKNOWN,
    "SPDX-License-Identifier: MIT\nSPDX-License-Identifier: GPL-3.0-only": UNKNOWN,
    "All rights reserved.": UNKNOWN,
    "": UNKNOWN,
    "Released under the MIT license.": "MIT",
    "SPDX-License-Identifier: BSD-3-Clause": "BSD-3-Clause",
    "SPDX-License-Identifier: MIT OR GPL-2.0-only": UNKNOWN,
    "Choose the MIT license, or Apache License, Version 2.0.": UNKNOWN,
    "MIT license, but the GPL for parts": UNKNOWN,
    "MIT license " + "and more words " * 50: UNKNOWN,
}


def test_the_license_of_a_text() -> None:
    for text, expected in TEXTS.items():
        assert license_of(text) == expected
        shouted = text.upper().replace("SPDX-LICENSE-IDENTIFIER", "")
        assert license_of(shouted) in (expected, UNKNOWN), text


def test_all_files_must_be_permitted() -> None:
    both = license_expression([MIT.decode(), BSD])
    assert both == "BSD-2-Clause AND MIT"
    assert is_permitted(both, PERMISSIVE)
    assert not is_permitted(both, ("MIT",))
    mixed = license_expression([MIT.decode(), "All rights reserved."])
    assert not is_permitted(mixed, PERMISSIVE)
    none = license_expression([])
    assert none == UNKNOWN
    assert not is_permitted(none, PERMISSIVE)
    assert set(PERMISSIVE) <= known_ids()


def test_the_names_of_license_files() -> None:
    names = "LICENSE license.txt LICENCE.md COPYING UNLICENSE LICENSE-MIT"
    for name in names.split():
        assert is_license_file(name), name
    names = "license.py LICENSES_bundled.txt relicense copying.sh NOTICE"
    for name in names.split():
        assert not is_license_file(name), name


def test_globs_fit_paths() -> None:
    for patterns, path, fit in (
        (GENERATED, "a/b_pb2.py", True),
        (GENERATED, "app/migrations/0001_initial.py", True),
        (GENERATED, "migrations/0001_initial.py", True),
        (GENERATED, "app/migrations/env.py", False),
        (GENERATED, "regenerated.py", False),
        (VENDORED, "vendor/a.py", True),
        (VENDORED, "a/_vendor/b/c.py", True),
        (VENDORED, "vendors.py", False),
        (VENDORED, "requests/packages/urllib3/a.py", True),
        (VENDORED, "requests/packages/__init__.py", False),
        (("src/*",), "src/a/b.py", True),
        (("src/*",), "lib/src/a.py", False),
        (("*.py",), "a\nb.py", True),
        (("",), "a.py", False),
        ((), "a.py", False),
    ):
        assert fits(patterns, path) is fit
