"""Parsers of rows run in a sandbox, and what they do there changes nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_retry.environments.base import UnavailableError
from swe_retry.environments.folders import Folders
from swe_retry.testing.baselines import parser_folders, run_parser

GOOD = """print("noise")
def parser(log):
    return {line[3:]: line[:2] == "ok" and "pass" or "fail" for line in log.splitlines()}
"""


@pytest.fixture(scope="module")
def folders() -> Iterator[Folders]:
    try:
        parsers = parser_folders()
    except UnavailableError as error:
        pytest.skip(str(error))
    yield parsers
    parsers.stop()


def test_results_of_a_parser(folders: Folders) -> None:
    assert run_parser(GOOD, "ok a::b\nno c\n", folders) == {
        "a::b": "PASSED",
        "c": "FAILED",
    }


@pytest.mark.parametrize(
    "source",
    [
        "def parser(log): raise ValueError",
        "def parser(log): return 5",
        "nothing = 1",
        "def parser(log",
        "import os\ndef parser(log): os._exit(3)",
        "def parser(log): return {'a': 'unheard of'}",
    ],
)
def test_broken_parsers_say_nothing(source: str, folders: Folders) -> None:
    assert run_parser(source, "x", folders) == {}


def test_a_parser_reaches_nothing_of_this_machine(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZQ_SECRET", "1")
    mark = tmp_path / "mark"
    source = (
        "import os, socket\n"
        "def parser(log):\n"
        f"    try:\n        open({str(mark)!r}, 'w')\n    except OSError:\n        pass\n"
        "    seen = 'fail' if 'ZQ_SECRET' in os.environ else 'pass'\n"
        "    try:\n        socket.create_connection(('127.0.0.1', 22), 1)\n"
        "    except OSError:\n        return {'environment': seen}\n"
    )
    assert run_parser(source, "", folders) == {"environment": "PASSED"}
    assert not mark.exists()
