"""No line of the patch, no name of an added test and no hash is left in a statement.

A line is what a patch adds, with at least twelve letters, digits and underscores; those alone
count, because a reader sees the line however it is wrapped, quoted or marked up.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable

import pytest

from swe_retry.mining.statement import names_in, remove_names, write_statement
from swe_retry.own.issues import Post
from swe_retry.record.patches import split_patch

PATCH = """\
diff --git a/lib/netrc.py b/lib/netrc.py
index 68e55296c3f9dbfc3e77da92326d696dbd131ac6..a7b0f302b6c83af2bf4de0023f76c89a8df32646 100644
--- a/lib/netrc.py
+++ b/lib/netrc.py
@@ -1,4 +1,6 @@
 def get_auth(url):
-    host = url.netloc.split(":")[0]
+    if url.username and _is_plain(url.hostname, default=False):
+        return None
+    host = "".join(url.hostname.partition("_")[:1])
     check(host)
     return find(host)
"""
TEST_PATCH = """\
diff --git a/tests/test_netrc.py b/tests/test_netrc.py
index bfd7330c719a3f8e668c3737e22e70b83fbc9c26..c13d5ccae7013c9540d06921da09734114eefd12 100644
--- a/tests/test_netrc.py
+++ b/tests/test_netrc.py
@@ -1,3 +1,7 @@
+@pytest.mark.parametrize("user", ["ab", "c_d"])
+def test_user_wins_over_file(user):
+    assert get_auth(f"http://{user}:@evil.com/") is None
+
+
 def test_host():
     assert get_auth("http://example.com") is None
"""
COMMIT = "5b4b64c3467fd7a3c03f91ee641aaa348b6bed3b"
ADDED = [
    line[1:]
    for part in split_patch(PATCH + TEST_PATCH)
    for line in part.data.decode().split("\n")
    if line.startswith("+") and not line.startswith("+++ ")
]
CODE = "\n".join(ADDED)
NAME = "test_user_wins_over_file"
START = "A login in the address is lost"
END = "It worked until last week."


def each(form: str) -> str:
    return "\n".join(form.format(line.strip()) for line in ADDED)


def wrapped(width: int, prefix: str = "") -> str:
    lines = textwrap.wrap(" ".join(CODE.split()), width)
    return "\n".join(f"{prefix}{line}" for line in lines)


QUOTES = {
    "diff": PATCH + TEST_PATCH,
    "fenced diff": f"```diff\n{PATCH}{TEST_PATCH}```",
    "indented diff": textwrap.indent(PATCH + TEST_PATCH, "    "),
    "quoted diff": textwrap.indent(PATCH + TEST_PATCH, "> ", lambda _: True),
    "hunks": "\n".join(f"+{line}" for line in ADDED),
    "code": CODE,
    "fenced code": f"```python\n{CODE}\n```",
    "open fence": f"~~~\n{CODE}",
    "re-indented": textwrap.indent(CODE, "\t  "),
    "tabs": CODE.replace("    ", "\t"),
    "quoted": textwrap.indent(CODE, "> ", lambda _: True),
    "list": each("* `{}`"),
    "prompt": each(">>> {}"),
    "prose": " and then ".join(CODE.split("\n")),
    "line ends": CODE.replace("\n", "\r\n"),
    "wrapped": wrapped(30),
    "wrapped in a quote": wrapped(30, "> "),
    "no spaces": CODE.replace(", ", ",").replace(" = ", "="),
    "other quotes": CODE.replace('"', "'"),
    "escaped": re.sub(r"([_*\[\]])", r"\\\1", CODE),
    "html": f"<pre>{html.escape(CODE)}</pre>",
    "zero width": CODE.replace(" ", " \u200b"),
    "no-break": CODE.replace(" ", "\xa0"),
    "names": f"{NAME} tests/test_netrc.py::{NAME}[ab] -k {NAME}; {NAME}()",
    "hashes": f"{COMMIT} {COMMIT[:7]}, ({COMMIT[:12]}).",
    "upper case": COMMIT[:10].upper(),
    "describe": f"v2.31-4-g{COMMIT[:9]} fix_{COMMIT[:9]}",
    "links": f"https://github.com/own/calc/pull/12/files#r1 "
    f"[fix](https://github.com/own/calc/commit/{COMMIT}.diff) "
    f"<https://gitlab.com/own/calc/-/merge_requests/12/diffs> "
    f"https://github.com/own/calc/compare/v1...{COMMIT[:9]}",
    "bare links": "see github.com/own/calc/pull/12/files.",
}


def letters(text: str) -> str:
    return re.sub(r"\W+", "", text).lower()


def of_issue(text: str) -> str:
    post = Post.model_validate({"number": 7, "title": START, "body": text})
    messages = ["Use it\n\nFixes #7"]
    return write_statement(messages, {"#7": post}, PATCH, TEST_PATCH, COMMIT).text


def of_request(text: str) -> str:
    post = Post.model_validate({"number": 8, "title": START, "body": text})
    messages = ["Merge pull request #8 from own/topic"]
    return write_statement(messages, {"#8": post}, PATCH, TEST_PATCH, COMMIT).text


def of_message(text: str) -> str:
    return write_statement([f"{START}\n\n{text}"], {}, PATCH, TEST_PATCH, COMMIT).text


@pytest.mark.parametrize("statement_of", [of_issue, of_request, of_message])
@pytest.mark.parametrize("spelling", QUOTES)
def test_what_gives_the_fix_away_is_removed(
    spelling: str, statement_of: Callable[[str], str]
) -> None:
    text = f"I saw it today.\n\n{QUOTES[spelling]}\n\n{END}"
    statement = statement_of(text)
    assert statement.startswith(START)
    assert statement.endswith(END)
    for line in ADDED:
        needle = letters(line)
        assert len(needle) < 12 or needle not in letters(html.unescape(statement))
    assert NAME not in statement
    assert COMMIT[:7] not in statement.lower()
    assert not re.search(r"/(pull|commit|compare|merge_requests)/", statement)


def test_what_says_nothing_of_the_fix_stays() -> None:
    text = (
        "host is a part of netloc; `get_auth` finds no login. See test_host, #7, 0x1f."
    )
    assert text in of_issue(text)


# Names of tests as the readers of output give them, what is said of them, and their lines.
NAMES = {
    "calc tests/calc.rs: handles_overflow": (
        "handles_overflow",
        "#[test]\nfn handles_overflow() {",
    ),
    "calc src/lib.rs: tests::keeps_sign": ("keeps_sign", "#[test]\nfn keeps_sign() {"),
    "calc::TestAddsSmall": ("TestAddsSmall", "func TestAddsSmall(t *testing.T) {"),
    "calc::TestAdd/adds_a_digit": (
        "adds a digit",
        't.Run("adds a digit", func(t *testing.T) {',
    ),
    "CalcTest::shouldAddTwo": (
        "shouldAddTwo",
        "@Test\npublic void shouldAddTwo() {",
    ),
    "Calc > adds two numbers": ("adds two numbers", 'it "adds two numbers" do'),
    "calc.test.js > sums > adds 1/2": ("adds 1/2", "it('adds 1/2', () => {"),
    "CalcTest#adds_many": ("adds_many", "define_method(:adds_many) do"),
    "Calc.AddsBig": ("AddsBig", "TEST(Calc, AddsBig) {"),
    "CalcTest > adds signs": ("adds signs", "#[TestDox('adds signs')]"),
    "test_calc.py::Sums::check_half[1]": ("check_half", "def check_half(self, n):"),
}


@pytest.mark.parametrize("test", NAMES)
def test_names_of_tests_in_any_language_are_removed(test: str) -> None:
    name, source = NAMES[test]
    lines = "".join(f"+{line}\n" for line in source.split("\n"))
    test_patch = f"--- a/tests/calc\n+++ b/tests/calc\n@@ -1 +1,9 @@\n{lines}"
    message = f"{START}\n\nThe case {name} says it all, and so do others.\n\n{END}"
    statement = write_statement([message], {}, PATCH, test_patch, COMMIT).text
    assert name not in remove_names(statement, names_in([test], test_patch))[0]
