"""Packages are fetched once; an exercise whose packages cannot be had is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from exercises.exercism.languages import LANGUAGES
from exercises.exercism.testing.tester import argv_of, cleaned, placed, seen_folders
from exercises.exercism.testing.toolchains import (
    find_toolchain,
    prepare,
    prepared_folder,
    prepared_root,
)
from tests.support.exercism import six

Fetching = Callable[[str], None]


@pytest.fixture
def fetching(monkeypatch: pytest.MonkeyPatch) -> Fetching:
    """Let Python exercises with ``strikes`` in a file need packages, which a shell line fetches."""

    def by(line: str) -> None:
        packages = ("cuckoo_clock.py", r"^def \w+")
        rules = replace(
            LANGUAGES["python"], packages=packages, prepare=(("sh", "-c", line),)
        )
        monkeypatch.setitem(LANGUAGES, "python", rules)

    return by


def test_packages_are_fetched_once_into_a_folder_of_their_own(
    fetching: Fetching, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    fetching(f"ls cuckoo_clock.py .meta 2>&1 | sed 's/^ls: //' >got; echo ran >>{log}")
    for _ in range(2):
        assert prepare(six().values(), tmp_path) == {}
    assert log.read_text() == "ran\n"
    folder = prepared_folder(tmp_path, six()["cuckoo-clock"])
    assert folder is not None and folder.parent == prepared_root(tmp_path)
    got = (folder / "got").read_text()
    assert ".meta" in got and "No such file" in got, "the example is not there"
    assert prepared_folder(tmp_path, six()["name-tags"]) is None


def test_packages_that_cannot_be_had_are_named(
    fetching: Fetching, tmp_path: Path
) -> None:
    fetching("echo no registry; echo answers; exit 3")
    reasons = prepare(six().values(), tmp_path)
    assert list(reasons) == ["python/cuckoo-clock"]
    assert reasons["python/cuckoo-clock"].endswith("fails: no registry answers")
    assert [p for p in prepared_root(tmp_path).iterdir() if p.is_dir()] == []
    fetching("true")
    assert prepare(six().values(), tmp_path) == {}


def test_the_command_and_folder_of_a_language() -> None:
    exercise = replace(six()["cuckoo-clock"], language="cpp")
    argv = argv_of(exercise, False, None)
    assert '-S "cuckoo-clock" -B build' in argv[2]
    assert {*placed(exercise, {"a.cpp": b""})} == {"cuckoo-clock/a.cpp"}
    script = replace(exercise, language="javascript")
    argv = argv_of(script, True, Path("/cache/x"))
    assert argv[2].startswith('ln -s "/cache/x/node_modules"')
    output = "at ../cache/x/node_modules/expect/a.js\nat /sandbox/b.js (12 ms)\nTime:  1.2 s\n"
    folders = seen_folders(script, Path("/cache/x"))
    assert cleaned(output, "clock", folders, script.rules.changing) == (
        "at clock/node_modules/expect/a.js\nat clock/b.js\n"
    )
    go = LANGUAGES["go"].changing
    assert cleaned("ok  \tzebra\t0.003s\n--- FAIL: A (0.01s)\n", "z", [], go) == (
        "ok  \tzebra\t\n--- FAIL: A \n"
    )


def test_tools_of_the_system_need_no_further_folder() -> None:
    assert find_toolchain("python").readable == ()
