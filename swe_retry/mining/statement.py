"""Pure: the statement of a mined row, without what gives the fix away."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from swe_retry.own.issues import Post

Posts = Mapping[str, Post]
"""Issues and pull requests by ``#`` and their number; merge requests of GitLab by ``!``.

Issues also with the project's name before the ``#``, in lower case.
"""

# A title with so few words behind it says nothing beyond itself.
_MIN_WORDS = 5
_MIN_TITLE = 3
_MAX_CHARACTERS = 60_000
# An issue, by its number or its address, with the name of its project where that is given.
_ISSUE = (
    r"\[?(?:https?://[^/\s]{1,99}/([\w./-]{1,99}?)/(?:-/)?issues/"
    r"|([\w./-]{0,99}?)(?:#|gh-))(\d{1,9})\b"
)
_ANY_ISSUE = re.compile(_ISSUE, re.IGNORECASE)
_NO_GROUPS = _ISSUE.replace("(?:", "(").replace("(", "(?:")
# GitHub's words and GitLab's.
_CLOSING = re.compile(
    r"\b(?:fix(?:e[sd]|ing)?|clos(?:e[sd]?|ing)|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)"
    rf"\b[:\s]+(?:issues?\s+)?({_NO_GROUPS}(?:(?:\s*[,&]\s*|\s+and\s+){_NO_GROUPS})*)",
    re.IGNORECASE,
)
_PULL_REQUEST = re.compile(
    r"(?i)\bmerge pull request (#\d{1,9})\b|\((#\d{1,9})\)[ \t]*$"
    r"|\bsee merge request \S{0,200}(!\d{1,9})\b",
    re.MULTILINE,
)
# Lines of a message that git, servers and their robots write.
_WRITTEN_BY_TOOLS = re.compile(
    r"(?im)^[ \t]*(?:merge (?:pull request|branch|branches|remote-tracking|tag|commit)\b.*"
    r"|see merge request .*|[\w-]{1,40}-by: .*|\(?cherry[ -]picked from .*"
    r"|(?:change-id|reviewed-on|pr-url|refs?|see|issue|gh-issue): .*|#\d{1,9}\.?)$"
)
_NUMBER_AT_END = re.compile(r"(?m)[ \t]*\((?:#|!|gh-)\d{1,9}\)[ \t]*$")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BLANK_LINES = re.compile(r"\n\s*\n\s*\n+")
_DIFF_BLOCK = re.compile(
    r"(?ms)^[ \t]*```[ \t]*(?:diff|patch)\b.*?(?:^[ \t]*```[ \t]*$|\Z)"
)
_DIFF_LINES = re.compile(
    r"(?m)^[ \t]*(?:diff --git .*|index [0-9a-f]+\.\.[0-9a-f]+.*|--- \S.*\n[ \t]*\+\+\+ \S.*"
    r"|@@ -\d.*(?:\n[-+ ].*)*)\n?"
)
_LINK = re.compile(
    r"(?:https?://|(?<![\w.-]))[\w.-]{1,99}\.\w{2,20}/[^\s)>\]]{1,500}"
    r"/(?:pull|commits?|compare|merge_requests)/[^\s)>\]]{1,500}"
)
# Numbers and words alone are no hashes.
_HASH = re.compile(
    r"(?i)(?<![^\W_])g?(?=[0-9a-f]{0,63}\d)(?=\d{0,63}[a-f])[0-9a-f]{7,64}(?![^\W_])"
)
_LEAKS = (
    ("diffs", _DIFF_BLOCK),
    ("diffs", _DIFF_LINES),
    ("links", _LINK),
    ("hashes", _HASH),
)
_TEST_NAME = re.compile(
    r"(?:def|class|func|function|fn)\s+(?:\([^()\n]{0,100}\)\s*)?(\w*[tT]est\w*)"
    r"|\b(?:it|test|describe|specify)(?:\.\w+)?\(\s*"
    r"""(?:"(.{4,200}?)"|'(.{4,200}?)'|`(.{4,200}?)`)"""
)
_WORD = re.compile(r"[A-Za-z_]\w{3,}")
_DEFINED = re.compile(
    r"\b(?:def|class|func|function|fn|type|struct|enum|trait|interface|const|let|var)\s+(\w{4,})"
    r"|(?<![\w.])(\w{4,})\s*[:=](?![=:])"
)
_USED = re.compile(r"\.(\w{4,})|\bimport\s.*?\b(\w{4,})|(?<![\w.])(\w{4,})\s*[(=](?!=)")
# Shorter lines of code are removed only where they are a line of the statement.
_MIN_IN_TEXT = 12
_MIN_LETTERS = 6
_MIN_LINE = 4
_MIN_HASH = 7
_GAP = "[…]"
_PARAMETERS = re.compile(r"\[.*\]$")
# Between the file, the class and the name of a test, as runners write them.
_SEPARATOR = re.compile(r"::|: | > |[/#.(]")
_LETTER = re.compile(r"\w")
_BETWEEN = re.compile(r"\W+")


class StatementSource(StrEnum):
    """Where a statement comes from; ``TITLE``: a message that says nothing beyond its title."""

    ISSUE = "issue"
    PULL_REQUEST = "pull request"
    COMMIT = "commit"
    TITLE = "title"


@dataclass(frozen=True)
class Statement:
    """What a row asks for.

    Attributes:
        text: empty where too little is left.
        removed: how much of each kind gave the fix away; the same kinds for all.
    """

    text: str
    source: StatementSource
    removed: Mapping[str, int]


def write_statement(
    messages: Sequence[str], posts: Posts, patch: str, test_patch: str, commit: str
) -> Statement:
    """Return the statement of ``commit``.

    Args:
        messages: of the commit, then of the commits that it merges.
        patch: the fix; what it adds is removed from the statement, as are tests that are added.
    """
    text, source, comments = _choose_text(messages, posts)
    own_hash = re.compile(rf"(?i){commit[:_MIN_HASH]}[0-9a-f]*")
    text, count = own_hash.subn(_GAP, html.unescape(text[:_MAX_CHARACTERS]))
    text, removed = _remove_leaks(text, patch, test_patch)
    removed["hashes"] += count
    if len(text.replace(_GAP, "").split()) < _MIN_TITLE:
        # Nobody could tell from what is left what is asked for.
        text = ""
    return Statement(text, source, {**removed, "comments": comments})


def _choose_text(
    messages: Sequence[str], posts: Posts
) -> tuple[str, StatementSource, int]:
    """Return text, source, and the number of comments that are left out, all of them later."""
    joined = "\n".join(messages)
    requests = []
    for match in _PULL_REQUEST.finditer(messages[0]):
        reference = next(filter(None, match.groups()))
        if reference in posts:
            requests.append(posts[reference])
    bodies = [post.body or "" for post in requests]
    for match in _CLOSING.finditer("\n".join([joined, *bodies])):
        for address, name, number in _ANY_ISSUE.findall(match[1]):
            issue = posts.get(f"{(address or name).lower()}#{number}")
            if issue:
                return _text_of(issue), StatementSource.ISSUE, len(issue.comments)
    for request in requests:
        if (request.body or "").strip():
            text = clean_message(_text_of(request))
            return text, StatementSource.PULL_REQUEST, len(request.comments)
    text = _join_messages(list(map(clean_message, messages)))
    if _says_more(text):
        return text, StatementSource.COMMIT, 0
    return text, StatementSource.TITLE, 0


def _join_messages(messages: Sequence[str]) -> str:
    """Return the text of a merge with those of its commits that say more than a title."""
    text, *merged = messages
    for message in merged:
        title, _, body = message.partition("\n")
        if not text:
            text = message
        elif _says_more(message) and body.strip() not in text:
            text += "\n\n" + (body.strip() if title in text else message)
    return text


def _text_of(post: Post) -> str:
    return _clean(f"{post.title}\n\n{post.body or ''}")


def _says_more(text: str) -> bool:
    body = text.partition("\n")[2]
    return len(body.split()) >= _MIN_WORDS


def clean_message(message: str) -> str:
    """Return a commit's message without what tools wrote and which issue it closes."""
    text = _WRITTEN_BY_TOOLS.sub("", _clean(message))
    text = _NUMBER_AT_END.sub("", text)
    lines = []
    for line in text.split("\n"):
        closing = _CLOSING.search(line)
        # A line may say more than the number.
        if not closing or len(line.split()) > _MIN_WORDS:
            lines.append(line)
    return _clean("\n".join(lines))


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub("", text).encode("utf-8", "replace").decode()
    text = "\n".join(map(str.rstrip, text.split("\n")))
    return _BLANK_LINES.sub("\n\n", text).strip()


def _remove_leaks(text: str, patch: str, test_patch: str) -> tuple[str, dict[str, int]]:
    removed = dict.fromkeys(("diffs", "links", "hashes", "tests", "code"), 0)
    for kind, pattern in _LEAKS:
        text, count = pattern.subn(_GAP, text)
        removed[kind] += count
    text, removed["tests"] = remove_names(text, _added_tests(test_patch))
    text, removed["code"] = _remove_code(text, changed_lines(patch + test_patch, "+"))
    return _clean(text), removed


def _remove_code(text: str, added: Iterable[str]) -> tuple[str, int]:
    """Return a text without lines of code, and how many were removed.

    Letters, digits and underscores are compared, whatever stands between them: spaces, quotes and
    marks of Markdown differ. Short lines are compared with lines, as they are.
    """
    positions = [match.start() for match in _LETTER.finditer(text)]
    letters = "".join(text[position].lower()[0] for position in positions)
    short_lines = set()
    spans = []
    for line in set(added):
        code = _BETWEEN.sub("", line).lower()
        if len(" ".join(line.split())) < _MIN_IN_TEXT or len(code) < _MIN_LETTERS:
            short_lines.add(line.strip())
            continue
        start = letters.find(code)
        while start >= 0:
            end = start + len(code)
            spans.append((positions[start], positions[end - 1] + 1))
            start = letters.find(code, end)
    parts = []
    removed_to = 0
    for start, end in sorted(spans):
        if start >= removed_to:
            parts += [text[removed_to:start], _GAP]
        removed_to = max(removed_to, end)
    text = "".join([*parts, text[removed_to:]])
    removed = len(spans)
    lines = []
    for line in text.split("\n"):
        is_code = len(line.strip()) >= _MIN_LINE and line.strip() in short_lines
        removed += is_code
        if not is_code:
            lines.append(line)
    return "\n".join(lines), removed


def changed_lines(patch: str, signs: str) -> Iterator[str]:
    """Yield the lines of a patch with one of some signs, without it."""
    for line in patch.split("\n"):
        if line and line[0] in signs and not line.startswith(("+++ ", "--- ")):
            yield line[1:]


def _added_tests(test_patch: str) -> set[str]:
    """Return the names of tests that a patch adds, in the languages that ``_TEST_NAME`` knows."""
    # A test that is only changed stands on the other side too.
    added = _names(_TEST_NAME, changed_lines(test_patch, "+"))
    return added - _names(_TEST_NAME, changed_lines(test_patch, "-"))


def names_in(tests: Iterable[str], test_patch: str) -> set[str]:
    """Return those parts of names of tests that a patch adds, in any language."""
    added = "\n".join(changed_lines(test_patch, "+"))
    before = re.sub(r"(?m)^\+.*", "", test_patch)
    names: set[str] = set()
    for test in tests:
        # Its parameters are not in the code. A title in words may hold any character.
        test = _PARAMETERS.sub("", test)
        starts = [0, *(match.end() for match in _SEPARATOR.finditer(test))]
        for start in starts:
            name = test[start:].rstrip("()")
            # Go writes the spaces of a title so.
            for spelling in (name, name.replace("_", " ")):
                is_added = spelling in added and spelling not in before
                if is_added and len(name) >= _MIN_LINE:
                    names.add(spelling)
    return names


def remove_names(text: str, names: Iterable[str]) -> tuple[str, int]:
    """Return a text without names, and how many were removed."""
    removed = 0
    for name in sorted(names, key=len, reverse=True):
        text, count = re.subn(rf"(?<!\w){re.escape(name)}(?!\w)", _GAP, text)
        removed += count
    return text, removed


def unnamed_names(
    statement: str, patch: str, test_patch: str, before: Iterable[str]
) -> list[str]:
    """Return the names that the tests ask for, the fix adds and the statement does not give.

    ``before`` are the texts of the changed files at the base commit. A solution cannot know such
    names, so that its tests may fail whatever it does.
    """
    defined = _names(_DEFINED, changed_lines(patch, "+"))
    used = _names(_USED, changed_lines(test_patch, "+"))
    old_names: set[str] = set()
    for text in [statement, *before]:
        old_names.update(_WORD.findall(text))
    return sorted((defined & used) - old_names)


def _names(pattern: re.Pattern[str], lines: Iterable[str]) -> set[str]:
    names: set[str] = set()
    for line in lines:
        for match in pattern.finditer(line):
            names.update(filter(None, match.groups()))
    return names
