"""Messages: which are instructions, and what is cleaned out of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.core.errors import UserError
from swe_retry_exercises.editpack.messages import (
    MessageStyle,
    cleaned_message,
    initial_verb,
    judge_message,
    read_verbs,
    without_prefix,
)
from swe_retry_exercises.editpack.rows import reason

VERBS = read_verbs()
HASH = "0123456789abcdef0123456789abcdef01234567"


def outcome(
    message: str,
    style: MessageStyle,
    names: tuple[str, ...] = (),
) -> str:
    row, why = judge_message(message, names, style, VERBS)
    if why:
        return f"!{why['rule']}"
    return str(row["instruction"])


def test_the_rules_of_the_paper() -> None:
    for message, expected in {
        "Fix the sum of an empty list": "Fix the sum of an empty list",
        "fix the sum": "fix the sum",
        "Fixed the sum of lists": "!message-verb",
        "Fixes the sum of lists": "!message-verb",
        "Adds a sum of lists": "!message-verb",
        "Adding a sum of lists": "!message-verb",
        "The sum of lists is right": "!message-verb",
        "Address's end is cut": "!message-verb",
        "fix_sum is right now": "!message-verb",
        "fix: add the missing sum": "add the missing sum",
        "fix: the missing sum": "!message-verb",
        "feat(core)!: add the missing sum": "add the missing sum",
        "[tag] Fix the missing sum": "Fix the missing sum",
        "[a][b] core.sums: Fix the sum": "Fix the sum",
        "https://example.org/a is the address": "!message-verb",
        "Re-add the sum of lists": "Re-add the sum of lists",
        "Don't add the empty list": "Don't add the empty list",
        "Fix it all": "Fix it all",
        "Fix a sum": "!message-length",
        "Fix " + "x" * 996: "Fix " + "x" * 996,
        "Fix " + "x" * 997: "!message-length",
        "": "!message-length",
        " \n\n ": "!message-length",
        "Fix the sum\n\nIt was wrong.\n": "Fix the sum\n\nIt was wrong.",
        "Fix\n\nSigned-off-by: A Name <a@example.org>": "!message-length",
    }.items():
        assert outcome(message, MessageStyle.PAPER) == expected


def test_the_rules_of_the_code() -> None:
    for message, expected in {
        "Fix the sum of lists\n\nA body.": "Fix the sum of lists",
        "Fix sum of lists": "!message-words",
        "fix the sum of lists": "!message-capital",
        "[tag] Fix the sum of lists": "Fix the sum of lists",
        "core: Fix the sum of lists": "Fix the sum of lists",
        "Fix the sum of lists (#12)": "!message-mark",
        "Fix the sum as in https://example.org": "!message-mark",
        f"Fix the sum of commit {HASH}": "!message-mark",
        f"Fix the sum of commit {HASH}0": f"Fix the sum of commit {HASH}0",
        "Fix the sum of lists, WIP": "!message-mark",
        "Fix the merge branch of lists": "!message-mark",
        "Fix the sum that I broke": "!message-mark",
        "Fix the sum of i and j": "Fix the sum of i and j",
        "Fixed the sum of the lists": "!message-verb",
        "A b c d e": "!message-length",
        "Fix a b c d": "Fix a b c d",
        "Fix a a a a " + "x" * 987: "Fix a a a a " + "x" * 987,
        "Fix a a a a " + "x" * 988: "!message-length",
        "Fix the sum of lists\n" + "x" * 20_000: "!message-length",
    }.items():
        assert outcome(message, MessageStyle.CODE) == expected


def test_what_is_cleaned() -> None:
    for message, cleaned in {
        "Fix it\n\nCo-authored-by: Bo Doe <bo@example.org>\nReviewed-by: Cy": "Fix it",
        "Fix it\n\nChange-Id: I01\nFixes: #3\nCc: someone": "Fix it",
        "bug: handle the sum": "bug: handle the sum",
        "Fix it\n\nNote: it was wrong": "Fix it\n\nNote: it was wrong",
        "Ask bo.doe+x@mail.example.org about it": "Ask about it",
        "Ask Bo <bo@localhost> about it": "Ask Bo about it",
        "Ask <mailto:bo@example.org>!": "Ask!",
        "Use @property and x@y here": "Use @property and x@y here",
        "Fix the sum (#12)": "Fix the sum",
        "Fix the sum (fixes #12, closes owner/name#13)": "Fix the sum",
        "Fix the sum. Closes #12": "Fix the sum.",
        "Fix the sum, fixes GH-12 and #13.": "Fix the sum.",
        "Fix #12 by adding a check": "Fix an issue by adding a check",
        "Fix issue #12 in the parser": "Fix issue in the parser",
        "Fix it\n\nFixes #12\nCloses: https://example.org/a/b/issues/12#note": "Fix it",
        "Fix it, see https://example.org/a/b/pull/12": "Fix it",
        "Fix it, see https://docs.example.org/guide": "Fix it, see https://docs.example.org/guide",
        "Use color #123abc and C#12": "Use color #123abc and C#12",
        "Go from #ffffff to #000000": "Go from #ffffff to #000000",
        "Fix for the issue https://example.org/a/b/issues/1280": "Fix for the issue",
        "Fix the sum, followup to #382": "Fix the sum, followup",
        "This is related to #1882 and #1685.": "This is related.",
        "Revert the fix for #1234": "Revert the fix",
        "Fix the bug in #123 now": "Fix the bug in an issue now",
        "Fix #123, #124 and #125 in the parser": "Fix an issue in the parser",
        "Pin numpy@1.2.3 and pip@20.1.1 in tests": "Pin numpy@1.2.3 and pip@20.1.1 in tests",
        "Replace @property by @cached_property": "Replace @property by @cached_property",
        "Add cache via @functools.lru_cache to it": "Add cache via @functools.lru_cache to it",
        "Fix thing (LP: #1234)": "Fix thing",
        "Add a test (via @bo)": "Add a test",
        "Fix it, see https://bugs.python.org/issue20164": "Fix it",
        "Fix it (bpo-20164)": "Fix it",
        "Fix it\n\nSigned-off-by: Bo\n\tDoe of there": "Fix it",
        "Fix it. Thanks to @bo-doe and @cy!": "Fix it.",
        "Fix the sum\r\n\r\nof lists  \r\n\r\n\r\n\r\nhere": "Fix the sum\n\nof lists\n\nhere",
        "Fix \x1b[31mit\x00 all": "Fix [31mit all",
        "Fix it\n\n--HG--\nbranch : trunk\nrename : a.py => b.py\nextra : close : 1": "Fix it",
        "Split it -- --HG-- is kept": "Split it -- --HG-- is kept",
        "Fix it\n\nHG: Enter commit message.\nHG: changed a.py": "Fix it",
        "Fix it\n\n# Conflicts:\n#\ta.py\n#\tb.py\n\nNow.": "Fix it\n\nNow.",
        "Fix it\n\nConflicts:\n\n\ta.py\n\n\tb.py": "Fix it",
        "Conflicts: name them": "Conflicts: name them",
        f"Fix it\n\n(cherry picked from commit {HASH})": "Fix it",
        f"Fix it\n\n(grafted from {HASH})\n(transplanted from {HASH[:12]})": "Fix it",
        "Fix it\n\n(taken from the old code)": "Fix it\n\n(taken from the old code)",
        "Fix it\n\ngit-svn-id: https://svn.example.org/trunk@12 0123-45": "Fix it",
        "Fix it\n\nsvn path=/trunk/x/; revision=12": "Fix it",
        'Fix it\n\n[git-p4: depot-paths = "//a/": change = 12]': "Fix it",
        f"Fix it\n\nFossilOrigin-Name: {HASH}\nFormer-commit-id: {HASH[:8]}": "Fix it",
        "Fix it\n\nby-product: two words": "Fix it\n\nby-product: two words",
        "Bump x\n\n---\nupdated-dependencies:\n- dependency-name: x\n  a: b\n...\n\nNow.": "Bump x"
        "\n\nNow.",
    }.items():
        assert cleaned_message(message) == cleaned


def test_names_of_the_author_go() -> None:
    names = ("Bo van Doe", "Update", "cy")
    message = "Update the sum by bo van doe, as Bo van Doers and @Update asked"
    assert (
        cleaned_message(message, names)
        == "Update the sum by, as Bo van Doers and asked"
    )


@given(st.text(st.sampled_from("ab @.#1/:<>()[]-\n,'IF"), max_size=80))
def test_cleaning_leaves_no_address_and_nothing_at_the_ends(text: str) -> None:
    cleaned = cleaned_message(text)
    assert not re.search(r"\w@\w+\.\w", cleaned)
    assert cleaned == cleaned.strip()
    assert without_prefix(cleaned) == without_prefix(cleaned).strip()


def test_the_initial_verb_is_one_of_the_list() -> None:
    for message, verb in {
        "Fix it": "fix",
        "ui: fix it": "fix",
        "Fixes it": "",
        "fix's": "",
        "Don’t": "don't",
        "": "",
        "1": "",
    }.items():
        assert initial_verb(without_prefix(message), {"fix", "add", "don't"}) == verb


def test_our_verbs_are_imperatives() -> None:
    assert len(VERBS) >= 200
    assert {
        "add",
        "fix",
        "remove",
        "use",
        "make",
        "refactor",
        "rename",
        "don't",
    } <= VERBS
    assert not {"fixed", "fixes", "adds", "added", "adding", "the", "new"} & VERBS
    for verb in VERBS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)?|don't", verb)
        others = {f"{verb}s", f"{verb}es", f"{verb}ed", f"{verb}ing"} | (
            {f"{verb}d"} if verb.endswith("e") else set()
        )
        assert not others & VERBS, verb


def test_a_file_replaces_the_verbs(tmp_path: Path) -> None:
    (tmp_path / "verbs.txt").write_text(
        "\ufeff# ours\nFrob  # odd\n\n", encoding="utf-8"
    )
    verbs = read_verbs(tmp_path / "verbs.txt")
    assert verbs == {"frob"}
    _, why = judge_message("Fix the sum of lists", (), MessageStyle.PAPER, verbs)
    assert why == reason("message-verb", "Fix")
    for data in (b"# none\n", b"\xff"):
        (tmp_path / "verbs.txt").write_bytes(data)
        with pytest.raises(UserError, match=r"mine\.verbs"):
            read_verbs(tmp_path / "verbs.txt")


def test_a_long_message_is_cleaned_in_a_number_of_steps_that_grows_with_it() -> None:
    units = """a|a.|a/|#1 |fix |@a |a@|https://a/issues/|(|[|-by: |--HG--\n|Conflicts:\n|\n\t|---
updated-dependencies:\n|a-|\n(from """
    for unit in units.split("|"):
        # A quadratic pattern with these factors would not come to an end here.
        cleaned_message(unit * (20_000 // len(unit)), ("A Name",))
