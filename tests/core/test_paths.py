"""Paths in settings are absolute once they are read, whatever command has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.settings import Section, settings_of
from swe_retry.core.sources import SourcedValue, check_settings
from swe_retry.runner.settings import CommonSettings
from tests.support.programs import programs


def roots() -> Iterator[type[Section]]:
    """Yield the settings of all commands."""
    assert list(programs())  # all commands are imported
    subclasses: list[type[Section]] = [Section]
    while subclasses:
        root = subclasses.pop()
        subclasses += root.__subclasses__()
        fields = [field.annotation for field in root.model_fields.values()]
        if fields and all(_is_section(kind) for kind in fields):
            yield root


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def paths_of(settings: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    for section, fields in settings.items():
        for name, value in fields.items():
            values = value if isinstance(value, tuple) else (value,)
            for item in values:
                if isinstance(item, Path):
                    yield f"{section}.{name}", item


def test_every_path_is_absolute_by_default_and_when_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_text("")
    seen: set[str] = set()
    for root in roots():
        fields = settings_of(root)
        names = [name for name, field in fields.items() if "Path" in repr(field)]
        layer = {name: SourcedValue("--set", "here") for name in names}
        given = dict(paths_of(check_settings(root, layer).model_dump()))
        assert given == dict.fromkeys(names, tmp_path / "here")
        for _, path in paths_of(check_settings(root, {}).model_dump()):
            assert path.is_absolute()
        seen |= given.keys()
    assert {"folders.out", "calls.replay", "report.validity", "mine.verbs"} <= seen


def test_an_unknown_user_in_a_path_is_no_traceback() -> None:
    layer = {"folders.out": SourcedValue("--out", "~no-such-user/x")}
    out = check_settings(CommonSettings, layer).folders.out
    assert out == Path.cwd() / "~no-such-user/x"
