"""The longest expected first, from timings that may be missing or broken."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.attempts.solve import InstanceJob
from swe_retry.runner.jobs import longest_first
from swe_retry.runner.session import Timings
from tests.fixtures import an_instance
from tests.support import TOP
from tests.support.runner import in_threads


def job(name: str, repo: str = "") -> InstanceJob:
    """Return the job of an instance, of the repository that its id names by default."""
    if not repo:
        repo = name.rpartition("-")[0].replace("__", "/")
    return InstanceJob(an_instance(instance_id=name, repo=repo))


def order(names: Sequence[str], seconds: Mapping[str, float]) -> list[str]:
    jobs = [job(name) for name in names]
    return [each.key for each in longest_first(jobs, seconds)]


@pytest.mark.parametrize(
    ("seconds", "names", "expected"),
    [
        (
            {"a__b-1": 1, "a__b-2": 3, "a__b-3": 2},
            "a__b-1 a__b-2 a__b-3",
            "a__b-2 a__b-3 a__b-1",
        ),
        # The repository's median is 100, that of all 95.
        (
            {"a__b-1": 100, "a__b-2": 300, "a__b-3": 90, "c__d-1": 10},
            "e__f-1 a__b-9 a__b-1 a__b-2 a__b-3 c__d-1",
            "a__b-2 a__b-9 a__b-1 e__f-1 a__b-3 c__d-1",
        ),
        (
            {"a__b-1": 5, "c__d-1": 50, "odd": 7},
            "e__f-1 a__b-2 c__d-2",
            "c__d-2 e__f-1 a__b-2",
        ),
    ],
    ids=[
        "known ones go by their seconds",
        "unknown ones count as the median of their repository, else of all",
        "timings of what is not selected count for their repository",
    ],
)
def test_the_longest_expected_is_first(
    seconds: dict[str, float],
    names: str,
    expected: str,
) -> None:
    assert order(names.split(), seconds) == expected.split()


def test_the_repository_is_the_instances_own_where_its_id_says_another() -> None:
    selected = [job("c__d-5"), job("a__b-1"), job("odd", "c/d")]
    ordered = longest_first(selected, {"odd": 50, "a__b-1": 20})
    assert [each.key for each in ordered] == ["c__d-5", "odd", "a__b-1"]


def test_with_nothing_known_the_order_stays() -> None:
    names = ["b__b-2", "a__a-1", "c__c-3"]
    assert order(names, {}) == names
    assert order(names, {"x__y-1": 5}) == names
    assert order([], {"x__y-1": 5}) == []


def repo_of(name: str) -> str:
    return name.partition("-")[0]


def names_of(*repos: str) -> st.SearchStrategy[str]:
    """Return five names of each repository to choose from."""
    numbers = st.integers(0, 4)
    return st.builds("{}-{}".format, st.sampled_from(repos), numbers)


_NAMES = st.lists(names_of("a__b", "c__d", "e__f"), unique=True)
_SECONDS = st.dictionaries(names_of("a__b", "c__d"), st.integers(0, 4).map(float))


@given(_NAMES, _SECONDS)
def test_a_stable_order_of_all(names: list[str], seconds: dict[str, float]) -> None:
    def expected_seconds(name: str) -> float:
        if name in seconds:
            return seconds[name]
        of_repo = []
        for other, value in seconds.items():
            if repo_of(other) == repo_of(name):
                of_repo.append(value)
        return median(of_repo or seconds.values() or [0])

    ordered = order(names, seconds)
    assert sorted(ordered) == sorted(names)
    keys = []
    for name in ordered:
        keys.append((-expected_seconds(name), names.index(name)))
    assert keys == sorted(keys)


def test_timings_are_kept_and_the_last_wins(tmp_path: Path) -> None:
    timings = Timings(tmp_path / "cache" / "timings.json")
    assert timings.load() == {}
    timings.note("a__b-1", 5)
    timings.note("a__b-2", 7.5)
    timings.note("a__b-1", 6)
    assert timings.load() == {"a__b-1": 6, "a__b-2": 7.5}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"\xff",
        b'{"a": ',
        b"[" * 100_000,
        b"null",
    ],
)
def test_a_broken_file_is_as_good_as_an_empty_one(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "timings.json"
    path.write_bytes(content)
    assert Timings(path).load() == {}
    Timings(path).note("a__b-1", 5)
    assert json.loads(path.read_text()) == {"a__b-1": 5}


def test_what_is_no_number_of_seconds_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "timings.json"
    path.write_text(
        '{"ok": 1.5, "a": null, "b": "5", "c": true, "d": NaN, "e": Infinity, "f": -1, "g": [1], '
        f'"h": 1{"0" * 400}}}'
    )
    assert Timings(path).load() == {"ok": 1.5}


def test_a_folder_in_its_place_is_no_timings(tmp_path: Path) -> None:
    assert Timings(tmp_path).load() == {}
    with pytest.raises(OSError, match=tmp_path.name):
        Timings(tmp_path).note("a__b-1", 5)


def test_threads_and_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "timings.json"
    code = (
        "import sys; from pathlib import Path; from swe_retry.runner.session import Timings\n"
        "for n in range(20): Timings(Path(sys.argv[1])).note(f'process-{n}', n)"
    )
    command = [sys.executable, "-c", code, str(path)]
    other = subprocess.Popen(command, cwd=TOP)

    def work(worker: int) -> None:
        for n in range(5):
            Timings(path).note(f"thread{worker}-{n}", n)

    in_threads(4, work)
    assert other.wait() == 0
    assert len(Timings(path).load()) == 40
