"""The root noun of a commit message: what its verb is applied to.

Y. Wang et al., "Self-Instruct" (2022, arXiv:2212.10560), show instructions by verb and direct
object, by a parse. Ours is the head of the first noun phrase after the verb, found by lists of
words, which agrees with labels more often than a parse: parsers take many imperatives for nouns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LONGEST, _LONGEST_NOUN = 300, 40
_PARTICLES = _words("up out off down back over away")
_ARTICLES = _words("a an the")
# Other determiners, and adjectives that no ending shows.
_SKIPPED = _words(
    "this that these those its their our your my his her any all some each every no both "
    "either another other such more most many few several same own one two three only "
    "new old unused missing wrong correct incorrect extra further additional different broken "
    "redundant simple small minor major initial final first last next previous current better best "
    "good bad proper right early late full empty whole actual real common general specific single "
    "double multiple various internal external public private global local explicit implicit plain "
    "bright dark short long large big little low high safe unsafe fast slow strict native optional "
    "flaky stale dead built-in"
)
_ADJECTIVE = re.compile(r".{3,}(?:able|ible|ous|ful|less|ary|ical|[^e]ed)|\d+(?:st|nd|rd|th)")
_PREPOSITIONS = _words(
    "to in on of for from with without by at as into onto under via after before between within "
    "during across against about through per until since upon like"
)
# The phrase is over before these.
_ENDS = _PREPOSITIONS | _words(
    "so how when where if whether that what which who while because unless than then and or but "
    "nor is are was were be been has have had can could should would will does do did not instead "
    "too also again just now even using being having causing failing rather"
)
# Also versions, issues and hashes of commits.
_NUMBER = re.compile(r"(?:#?v?\d[\d.,]*x?|(?=[a-f]*\d)[0-9a-f]{7,40})$")
_TOKEN = re.compile(
    r"`+(?P<code>[^`]+)`+|(?P<call>[\w.]+)\([^()]*\)"
    r"|(?P<word>(?:--?|[#.])?\w(?:[\w./=+*'’-]*\w)?)|(?P<mark>[:;,.!?&|(){}\[\]…–—-])"
)
_ENDING = re.compile(r"\([^()]*\)$|['’]s?$")
_ADVERB = re.compile(r".{4,}ly")
_NOUNS = _words("assembly anomaly family reply")
_NAME = re.compile(r"\w")
_AS_IT_IS = re.compile(r".*(?:ss|us|is)|.*[^a-z].*|.{1,3}")
_SINGULAR = _words("alias bias canvas atlas series news kwargs")


def ruled_noun(message: str, verb: str) -> str:
    """Return the head of the first noun phrase after the verb, in lower case and singular."""
    phrase = list[str]()
    for token in _from_phrase(_tokens(message[:_LONGEST], verb)):
        if _ends(token):
            break
        phrase.append(token)
    return singular(phrase[-1])[:_LONGEST_NOUN] if phrase else ""


def _tokens(message: str, verb: str) -> list[str]:
    line = message.strip().partition("\n")[0].lower().replace("’", "'")
    rest = line[line.find(verb) + len(verb) :].lstrip()
    if verb == "revert" and rest.startswith('"'):
        return []  # the subject of another commit
    found = (match[match.lastgroup or 0] for match in _TOKEN.finditer(rest))
    return [_ENDING.sub("", words[-1]) for token in found if (words := token.split())]


def _from_phrase(tokens: Sequence[str]) -> Sequence[str]:
    place = 0
    while place < len(tokens) and (step := _skipped(tokens[place], tokens[place + 1 :], place)):
        place += step
    return tokens[place:]


def _ends(token: str) -> bool:
    adverb = _ADVERB.fullmatch(token) and token not in _NOUNS
    return bool(token in _ENDS or adverb or _NUMBER.match(token) or not _NAME.search(token))


def _skipped(token: str, rest: Sequence[str], place: int) -> int:
    """Return how many tokens before the noun phrase end here, 0 in the phrase."""
    after = rest[0] if rest else ""
    goes_on = bool(after) and not _ends(after)
    if token in ("and", "or", "to", "&"):
        # A second verb: "refactor and simplify x", "fix to load x"; but not "bump to x".
        further = len(rest) > 1 and not _ends(rest[1])
        return 2 if further or token != "to" else 1
    if token in _PREPOSITIONS or token in ("so", "that", "how", "when", "if"):
        return 1
    if token in _ARTICLES or (not place and token in _PARTICLES):
        return 1
    skipped = token in _SKIPPED or _ADJECTIVE.fullmatch(token) or _NUMBER.fullmatch(token)
    # "fetching the parameters", but "capturing".
    return int(bool(goes_on and (skipped or token.endswith("ing"))))


def singular(noun: str) -> str:
    """Return a noun in the singular; names with other characters than letters stay."""
    if noun in _SINGULAR or not noun.endswith("s") or _AS_IT_IS.fullmatch(noun):
        return noun
    if noun.endswith("ies") and noun not in ("cookies", "movies"):
        return f"{noun[:-3]}y"
    return noun[:-2] if noun.endswith(("sses", "xes", "shes", "tches", "nches")) else noun[:-1]
