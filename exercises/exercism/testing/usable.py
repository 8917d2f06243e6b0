"""Which languages can be tested here, with which tools, and why the others cannot."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from core.errors import UserError
from environments.base import EnvironmentKind
from exercises.exercism.languages import LANGUAGES
from exercises.exercism.testing.tester import IMAGE, TestSettings, make_tester


def usable(
    languages: Iterable[str],
    settings: TestSettings,
    kind: EnvironmentKind,
    python: Path | None = None,
    image: str = IMAGE,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of the tools by language that start here, and why others do not."""
    versions, reasons = dict[str, str](), dict[str, str]()
    with tempfile.TemporaryDirectory() as cache:
        tester = make_tester(
            kind, settings, Path(cache), "", lambda: None, lambda _: None, python, image
        )
        try:
            for name in dict.fromkeys(languages):
                try:
                    if name not in LANGUAGES:
                        raise UserError(f"there is no language {name}")
                    versions[name] = tester.versions(name)
                except UserError as error:
                    reasons[name] = str(error)
        finally:
            tester.close()
    return versions, reasons
