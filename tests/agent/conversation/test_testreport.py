"""Reports of failing tests to the model: within a budget, without repetition."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from swe_retry.agent.conversation.testreport import Failure, cut, describe

A = Failure("t.py::test_a", "t.py:3: AssertionError\nE  assert 1 == 2")
B = Failure("t.py::test_b", "t.py:9: KeyError\nE  KeyError: 'x'")
C = Failure("t.py::test_c")


def test_names_come_first_and_then_why() -> None:
    assert describe([A, B, C]) == (
        "- t.py::test_a\n- t.py::test_b\n- t.py::test_c\n\n"
        "## t.py::test_a\nt.py:3: AssertionError\nE  assert 1 == 2\n\n"
        "## t.py::test_b\nt.py:9: KeyError\nE  KeyError: 'x'"
    )


def test_a_shared_cause_is_reported_once() -> None:
    alike = []
    for number in range(9):
        detail = f"frame {number}\nboom"
        alike.append(Failure(f"test_{number}", detail, cause="boom"))
    text = describe(alike)
    assert text.count("boom") == 1
    names = "test_1, test_2, test_3, test_4, test_5 … and 3 more"
    assert f"## test_0\nLikewise: {names}\n" in text


def test_names_are_capped_and_counted() -> None:
    failures = [Failure(f"test_{number:03d}") for number in range(100)]
    text = describe(failures)
    assert "- test_029\n… and 70 more" in text
    assert "test_030" not in text


def test_changes_since_the_last_failures_are_reported() -> None:
    moved = Failure(A.name, A.detail.replace("t.py:3", "t.py:4"))
    other = Failure(B.name, "t.py:9: TypeError")
    new = Failure("t.py::test_new", "new reason")
    assert describe([moved, other, new], [A, B, C]) == (
        "Since the last report of failing tests:\n"
        "- no longer failing (1 of 3): t.py::test_c\n"
        "- failing in the same way as before (1): t.py::test_a\n"
        "- failing in another way than before (1): t.py::test_b\n"
        "- failing that did not fail before (1): t.py::test_new\n\n"
        "## t.py::test_b\nt.py:9: TypeError\n\n## t.py::test_new\nnew reason"
    )


def test_the_same_failures_are_not_explained_again() -> None:
    text = describe([A, B], [A, B])
    assert "KeyError" not in text
    assert "made no difference" in text
    assert "test_a" in text


def test_clock_times_and_line_numbers_are_no_difference_but_values_are() -> None:
    def differ(before: str, now: str) -> bool:
        text = describe([Failure("t", now)], [Failure("t", before)])
        return "another way" in text

    assert not differ("at 12:30:01", "at 13:45:59")
    assert not differ('File "a.py", line 3', 'File "a.py", line 44')
    assert differ("assert 1 == 2", "assert 3 == 2")
    assert differ("{'a': 1}", "{'a': 2}")


def test_a_cut_says_so_and_keeps_whole_lines() -> None:
    lines = [f"line {number}" for number in range(100)]
    text = cut("\n".join(lines), 200)
    assert len(text) <= 200
    head, _, tail = text.partition("… (")
    left_out, _, end = tail.partition(" lines left out)\n")
    for line in [*head.splitlines(), *end.splitlines()]:
        assert line in lines
    assert int(left_out) + head.count("\n") + end.count("\n") + 1 == 100
    assert text.endswith("line 99")
    assert text.startswith("line 0\n")


def test_what_has_no_room_is_counted() -> None:
    failures = []
    for number in range(40):
        detail = f"{number}\n" + "why\n" * 300
        failures.append(Failure(f"test_{number}", detail))
    text = describe(failures, room=2_000)
    assert len(text) <= 2_000
    assert "left out)" in text
    explained = text.count("## ")
    assert f"(Why {40 - explained} more fail is left out for lack of room.)" in text


def test_the_room_is_used() -> None:
    failures = [Failure("test", "why\n" * 5_000)]
    assert len(describe(failures, room=400)) <= 400
    assert 600 < len(describe(failures, room=800)) <= 800


FAILURES = st.lists(
    st.builds(
        Failure,
        st.text("abc:/[] ", min_size=1, max_size=300),
        st.text("xyz \n", max_size=3_000) | st.just("long " * 2_000),
        st.sampled_from(["", "shared"]),
    ),
    max_size=60,
    unique_by=lambda failure: failure.name,
)


@settings(max_examples=60)
@given(FAILURES, FAILURES, st.integers(50, 3_000))
def test_the_budget_is_kept(
    now: list[Failure],
    before: list[Failure],
    tokens: int,
) -> None:
    assert len(describe(now, before, 4 * tokens)) <= 4 * tokens


@given(FAILURES.filter(bool), FAILURES)
def test_every_failure_is_in_one_part_of_a_comparison(
    before: list[Failure], now: list[Failure]
) -> None:
    text = describe(now, before, room=200_000)
    pattern = r"^- (no longer|failing in the|failing in an|failing that).*?\((\d+)"
    counts = dict(re.findall(pattern, text, re.M))
    gone = int(counts.pop("no longer", 0))
    names_before = {failure.name for failure in before}
    names_now = {failure.name for failure in now}
    assert gone == len(names_before - names_now)
    assert sum(map(int, counts.values())) == len(now)
