"""Pure: messages of commits as instructions: what is cleaned away, and which are taken.

``paper``: the rules of Commits2023FT (F. Cassano et al., "Can It Edit?", 2023, arXiv:2312.12450,
appendix on data): the first word is an imperative verb, the message has 10 to 1,000 characters.
``code``: the rules of CommitPackFT (N. Muennighoff et al., "OctoPack", 2023, arXiv:2308.07124) for
the subject line. Lists of verbs are in neither paper's text; ours is ``verbs.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from pathlib import Path

from swe_retry.kit import UserError
from swe_retry_exercises.editpack.rows import INSTRUCTION, DropReason, JudgedRow, reason

MIN_LENGTH = 10
"""Characters of a message, inclusive; in ``code``, exclusive and of the subject."""
MAX_LENGTH = 1_000
_MAX_CLEANED = 20_000
"""Characters of what is cleaned at all."""
_MIN_WORDS = 5
_VERBS = Path(__file__).with_name("verbs.txt")


class MessageStyle(StrEnum):
    """Whose rules messages are judged by."""

    PAPER = "paper"
    CODE = "code"


def read_verbs(path: Path | None = None) -> frozenset[str]:
    """Return the verbs of a file, one a line, ``#`` for comments; ours by default."""
    try:
        lines = (path or _VERBS).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"mine.verbs {path} cannot be read: {error}") from error
    verbs = set()
    for line in lines:
        verb = line.partition("#")[0].strip().lower()
        if verb:
            verbs.add(verb)
    if not verbs:
        raise UserError(f"mine.verbs {path} has no verbs; give one a line")
    return frozenset(verbs)


def judge_message(
    message: str, names: Iterable[str], style: MessageStyle, verbs: frozenset[str]
) -> JudgedRow:
    """Return instruction, subject and message of a commit, or why it gives no row.

    The instruction is the whole message, or its subject in ``code``, without prefix. ``names`` are
    those of the author and the committer, which are removed.
    """
    original = message.strip()
    longest = MAX_LENGTH
    if style is MessageStyle.CODE:
        longest = _MAX_CLEANED
    if len(original) > longest:
        return {}, reason("message-length", f"{len(original):,} characters")
    cleaned = cleaned_message(original, names)
    subject = cleaned.partition("\n")[0]
    if style is MessageStyle.CODE:
        text = without_prefix(subject)
        why = _fault_of_subject(text, original.partition("\n")[0])
    else:
        text = without_prefix(cleaned)
        why = None
        if len(text) < MIN_LENGTH:
            why = _fault_of_length(text)
    if not why and not initial_verb(text, verbs):
        why = reason("message-verb", text.split()[0][:40])
    return {"subject": subject, "message": cleaned, INSTRUCTION: text}, why


def _fault_of_length(text: str) -> DropReason:
    return reason("message-length", f"{len(text)} characters")


def _fault_of_subject(text: str, original: str) -> DropReason | None:
    """Return what CommitPackFT's rules find in a subject, which was ``original``."""
    if not MIN_LENGTH < len(text) < MAX_LENGTH:
        return _fault_of_length(text)
    if len(text.split()) < _MIN_WORDS:
        return reason("message-words", text)
    if not text[0].isupper():
        return reason("message-capital", text[0])
    mark = _MARKS.search(original)
    if mark:
        return reason("message-mark", mark[0])
    return None


_MARKS = re.compile(
    r"#|https?://|\b[0-9a-f]{40}\b|\bwip\b|merge branch|signed-off-by|(?-i:\bI\b)(?!/O)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z]+(?:[-'’][A-Za-z]+)*(?![\w'’])")


def initial_verb(text: str, verbs: Collection[str]) -> str:
    """Return the verb of the list that a message without prefix begins with, empty if none."""
    match = _WORD.match(text)
    if match:
        word = match[0].lower().replace("’", "'")
        if word in verbs:
            return word
    return ""


_PREFIX = re.compile(
    r"\s*(?:\[[^\]\n]{1,60}\]:?|[A-Za-z][\w./-]{0,60}(?:\([^()\n]{0,60}\))?!?:(?=\s))"
)
_MAX_PREFIXES = 3


def without_prefix(text: str) -> str:
    """Return a message without ``[tag]`` and ``word:``, ``word(scope):`` in front."""
    for _ in range(_MAX_PREFIXES):
        prefix = _PREFIX.match(text)
        if prefix:
            text = text[prefix.end() :]
    return text.strip()


# A trailer goes on in lines that begin with white space.
_FOLDED = r"(?:\n[ \t]+\S.*)*$"
_BY = re.compile(
    rf"^[ \t]*[\w-]{{1,40}}-by[ \t]*:[ \t].*{_FOLDED}", re.IGNORECASE | re.MULTILINE
)
# Other keys of trailers, as hosts of code write them; a subject may begin with the same word.
_TRAILER = re.compile(
    r"(?<=\n)[ \t]*(?:cc|change-id|reviewed-on|git-svn-id|piperorigin-revid|thanks(?:-to)?"
    r"|co-?authors?|authors?|committer|from|see-also|link|bug|issues?|refs?|references|closes"
    r"|fixes|resolves|differential revision|reviewers?|(?:original )?patch by|reported by"
    rf"|submitted by|contributed by|reviewed by|suggested by)[ \t]*:[ \t].*{_FOLDED}",
    re.IGNORECASE | re.MULTILINE,
)
# What tools append, recognized by its form: Mercurial's extras (to the end) and its editor's
# comments, conflicts, origins of commits, other converters, Dependabot's YAML, and any key-with-
# hyphens whose value is one word.
_APPENDED = re.compile(
    r"(?<=\n)(?:--HG--$[\s\S]*|HG:.*$|[# \t]{0,4}Conflicts:[ \t]*(?:\n{1,3}#?[ \t]+\S.*)+"
    r"|\((?:\w{1,20}[ ]){1,3}from (?:commit )?[0-9a-f]{7,40}\)$"
    r"|svn path=.*$|\[git-p4:.*\]$|---\nupdated-dependencies:\n[\s\S]*?^\.{3}$"
    r"|[A-Za-z]\w{0,30}(?:-\w{1,30}){1,5}:[ \t]*\S+[ \t]*$)",
    re.MULTILINE,
)
_MAIL = re.compile(
    r"(?:mailto:)?<?(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,7}\.[A-Za-z]{2,24}\b>?"
)
_ANGLED_MAIL = re.compile(r"<[^<>@\s]{1,64}@[^<>@\s]{1,255}>")
_LINK = (
    r"(?:<?https?://[^\s<>()\[\]]{1,200}/(?:(?:issues?|pulls?|merge_requests|tickets?|\+?bugs?|browse"
    r"|-/issues)/?[\w-]{0,20}?|show_bug\.cgi\?id=)\d+[^\s<>()\[\],]{0,200}>?"
    # No number of an issue begins with 0, as colours do.
    r"|(?:(?<![\w./-])[\w.-]{1,60}/[\w.-]{1,60}|(?<![\w&]))#[1-9]\d{0,8}\b"
    r"|\b(?:gh-|bpo-|ticket:)\d{1,9}\b)"
)
_KEY = (
    r"(?:(?:fix(?:es|ed)?|clos(?:es?|ed)|resolv(?:es?|ed)|refs?|references|see|re|related to"
    r"|part of|address(?:es)?|issues?|bugs?|tickets?|lp|pr|pull request|gh|for|per|via|from|in"
    r"|and)[ :]{1,3})"
)
_LINKS = rf"{_LINK}(?:(?:[ ]?[,&][ ]?|[ ]and[ ]|[ ]){_KEY}?{_LINK}){{0,20}}"
_KEYS = rf"(?:{_KEY}){{0,3}}"
# From the surest to the barest: alone on a line, between brackets, at the end of a line, anywhere.
_ISSUES = (
    re.compile(rf"^[ \t*-]*{_KEYS}{_LINKS}[ \t.]*$", re.IGNORECASE | re.MULTILINE),
    re.compile(rf"[(\[][ ]?{_KEYS}{_LINKS}[ ]?[)\]]", re.IGNORECASE),
    re.compile(
        rf"(?<=\S)(?<!\bthe)(?<!\ba)(?<!\bis)[ ]?[,;:-]?[ ]{_KEY}{{1,3}}{_LINKS}(?=[ \t.]*$)",
        re.IGNORECASE | re.MULTILINE,
    ),
    # With the word before it that would be left alone.
    re.compile(
        rf"(?:[ ](?:to|for|in|of|and|from|with|by|on|at))?[ ]?{_LINKS}(?=[ \t.]*$)",
        re.IGNORECASE | re.MULTILINE,
    ),
)
_WITHIN = re.compile(
    rf"(\b(?:issues?|bugs?|tickets?|pr)\b)?([ ]?){_LINKS}", re.IGNORECASE
)
# As hosts of code allow them; a decorator has an underscore, a part behind a dot, or arguments.
_HANDLES = r"(?:@[A-Za-z0-9-]{1,39}(?!\w|\.\w|\()(?:(?:,| and|, and)?[ ](?=@))?){1,9}"
_CREDITS = (
    re.compile(
        r"[ ]?[(\[]?\b(?:(?:many |big )?(?:thanks|thx|props|kudos|credits?)(?: goes)?(?: to)?|cc"
        rf"|/cc|patch by|h/t):?,?[ ]{_HANDLES}[)\]]?[.!]?",
        re.IGNORECASE,
    ),
    re.compile(
        rf"[ ]?(?:[(\[](?:via|by):?[ ]{_HANDLES}[)\]]|\b(?:via|by):?[ ]{_HANDLES}(?=[.!]?[ \t]*$))",
        re.IGNORECASE | re.MULTILINE,
    ),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_EMPTY = re.compile(r"[(\[<][ \t]*[)\]>]")


def cleaned_message(text: str, names: Iterable[str] = ()) -> str:
    """Return a message without trailers, e-mail addresses, issue links and the names given.

    Within a line "an issue" stands for a link. Thanks to ``@handles`` go as well. A name of one
    word is removed only behind an ``@``, because it may be a word of the message. Control
    characters go, so does white space at ends of lines.
    """
    text = text.replace("\r\n", "\n")
    text = text.replace("\r", "\n")
    text = _CONTROL.sub("", text)
    for pattern in (_BY, _TRAILER, _ANGLED_MAIL, _MAIL, _APPENDED, *_ISSUES):
        text = pattern.sub("", text)
    text = _WITHIN.sub(lambda link: link[1] or f"{link[2]}an issue", text)
    for pattern in _CREDITS:
        text = pattern.sub("", text)
    for name in sorted(map(str.strip, names), key=len, reverse=True):
        before = "@"
        if re.search(r"\s", name):
            before = r"(?<!\w)"
        if len(name) >= 3:
            mention = rf"{before}{re.escape(name)}(?!\w)"
            text = re.sub(mention, "", text, flags=re.IGNORECASE)
    text = _EMPTY.sub("", text)
    text = re.sub(r"(?<=\S)[ \t]{2,}(?=\S)", " ", text)
    text = re.sub(r"[ \t]+(?=[,;:!?.](?:\s|$))", "", text)
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip()
