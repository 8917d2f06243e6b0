"""Describe rows of edits as Table 2 of the first paper does, with the root nouns of messages. Pure.

F. Cassano et al., "Can It Edit?" (2023), arXiv:2312.12450. What is counted is kept as how often
each value came, so that memory grows with distinct values and not with rows.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from math import fsum, sqrt
from typing import Any

from pydantic import TypeAdapter

from exercises.canitedit.problems import MOST_CHARACTERS
from exercises.editpack.messages import initial_verb, without_prefix
from exercises.editpack.rows import NEW, OLD, EditRow, message_of

MOST_VERBS, MOST_NOUNS = 20, 10
"""Those of the paper's figure."""
# rapidfuzz needs time in proportion to the product of the lengths that differ.
_MOST_PRODUCT = MOST_CHARACTERS**2


@dataclass(frozen=True)
class Distribution:
    """Values of rows: mean, sample deviation, median, 99th percentile; zeros without values.

    The percentile is the smallest value that at least 99 % of the values do not exceed.
    """

    mean: float
    deviation: float
    median: float
    percentile_99: int

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Distribution:
        """Return that of values with the number of rows that have them."""
        rows = sum(counts.values())
        if not rows:
            return cls(0.0, 0.0, 0.0, 0)
        mean = sum(value * n for value, n in counts.items()) / rows
        squares = fsum(n * (value - mean) ** 2 for value, n in sorted(counts.items()))
        deviation = sqrt(squares / (rows - 1)) if rows > 1 else 0.0
        middle = (at(counts, (rows - 1) // 2) + at(counts, rows // 2)) / 2
        return cls(mean, deviation, middle, at(counts, -(-99 * rows // 100) - 1))


def at(counts: Mapping[int, int], place: int) -> int:
    """Return the value at a place, from 0, of all values in ascending order."""
    values = sorted(counts)
    ends = accumulate(counts[value] for value in values)
    return next(value for value, end in zip(values, ends, strict=True) if place < end)


@dataclass(frozen=True)
class Counted:
    """A word and the rows that have it."""

    word: str
    rows: int


@dataclass(frozen=True)
class VerbUse:
    """An initial verb with its rows and its most frequent root nouns."""

    verb: str
    rows: int
    nouns: tuple[Counted, ...]


@dataclass(frozen=True)
class PublishedSpread:
    """A mean and a deviation as the paper prints them."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class PublishedColumn:
    """A column of Table 2 of the first paper."""

    name: str
    rows: int
    initial_verbs: int
    lines: PublishedSpread
    levenshtein: PublishedSpread
    message_tokens: PublishedSpread


@dataclass(frozen=True)
class EditStats:
    """The statistics of a set of rows (docs/editpack-stats.schema.json).

    Attributes:
        input, input_sha256: name and hash of the rows.
        unreadable: what is not a row, left out of all else.
        initial_verbs: distinct ones.
        rows_without_verb: rows whose message does not begin with a verb of the list.
        lines: of both sides together.
        levenshtein: distance of both sides in characters.
        rows_without_distance: rows whose sides are too long to be compared.
        message_tokens: of the message, counted by ``tokenizer``.
        tokenizer: ``words`` for what white space separates, or the name of a tokenizer.
        verbs: the 20 most frequent, each with its 10 most frequent root nouns.
        published: the columns of the paper, for comparison; nothing of them was counted here.
    """

    input: str
    input_sha256: str
    rows: int
    unreadable: int
    initial_verbs: int
    rows_without_verb: int
    lines_before: Distribution
    lines_after: Distribution
    lines: Distribution
    levenshtein: Distribution
    rows_without_distance: int
    message_tokens: Distribution
    tokenizer: str
    verbs: tuple[VerbUse, ...]
    published: tuple[PublishedColumn, ...]


def _published(name: str, rows: int, verbs: int, *values: float) -> PublishedColumn:
    spreads = [PublishedSpread(*values[n : n + 2]) for n in (0, 2, 4)]
    return PublishedColumn(name, rows, verbs, *spreads)


PUBLISHED = (
    _published("EditPackFT", 22_602, 184, 29.2, 13.7, 197.1, 260.6, 10.1, 4.6),
    _published("Commits2023FT", 24_129, 199, 119.3, 75.9, 406.6, 631.2, 23.1, 35.2),
)


@dataclass
class EditTally:
    """What is counted of rows; ``noun_of`` finds the root noun of a message with its verb."""

    verbs_known: Collection[str]
    tokens_of: Callable[[str], int]
    noun_of: Callable[[str, str], str]
    rows: int = 0
    before: Counter[int] = field(default_factory=Counter)
    after: Counter[int] = field(default_factory=Counter)
    together: Counter[int] = field(default_factory=Counter)
    distances: Counter[int] = field(default_factory=Counter)
    tokens: Counter[int] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    nouns: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, row: EditRow) -> None:
        old, new, message = row[OLD], row[NEW], message_of(row)
        before, after = len(old.splitlines()), len(new.splitlines())
        self.rows += 1
        self.before[before] += 1
        self.after[after] += 1
        self.together[before + after] += 1
        if (distance := distance_of(old, new)) is not None:
            self.distances[distance] += 1
        self.tokens[self.tokens_of(message)] += 1
        said = without_prefix(message)
        if verb := initial_verb(said, self.verbs_known):
            self.verbs[verb] += 1
            noun = self.noun_of(said, verb)
            self.nouns.setdefault(verb, Counter())[noun] += bool(noun)

    def top_verbs(self) -> tuple[VerbUse, ...]:
        """Return the most frequent verbs; of equally frequent words the first by letters."""
        return tuple(
            VerbUse(one.word, one.rows, _top(+self.nouns[one.word], MOST_NOUNS))
            for one in _top(self.verbs, MOST_VERBS)
        )

    def stats(self, name: str, sha256: str, unreadable: int, tokenizer: str) -> EditStats:
        return EditStats(
            input=name,
            input_sha256=sha256,
            rows=self.rows,
            unreadable=unreadable,
            initial_verbs=len(self.verbs),
            rows_without_verb=self.rows - self.verbs.total(),
            lines_before=Distribution.of(self.before),
            lines_after=Distribution.of(self.after),
            lines=Distribution.of(self.together),
            levenshtein=Distribution.of(self.distances),
            rows_without_distance=self.rows - self.distances.total(),
            message_tokens=Distribution.of(self.tokens),
            tokenizer=tokenizer,
            verbs=self.top_verbs(),
            published=PUBLISHED,
        )


def _top(counts: Mapping[str, int], most: int) -> tuple[Counted, ...]:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Counted(word, rows) for word, rows in ordered[:most])


def distance_of(old: str, new: str) -> int | None:
    """Return the Levenshtein distance, None of texts that would take minutes to compare."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.distance(old, new) if len(old) * len(new) <= _MOST_PRODUCT else None


# The root noun of a message is what its verb is applied to. Y. Wang et al., "Self-Instruct" (2022,
# arXiv:2212.10560), show instructions by verb and direct object, by a parse. Ours is the head of
# the first noun phrase after the verb, found by lists of words, which agrees with labels more often
# than a parse: parsers take many imperatives for nouns.
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
    line = message[:_LONGEST].strip().partition("\n")[0].lower().replace("’", "'")
    rest = line[line.find(verb) + len(verb) :].lstrip()
    if verb == "revert" and rest.startswith('"'):
        return ""  # the subject of another commit
    found = (match[match.lastgroup or 0] for match in _TOKEN.finditer(rest))
    tokens = [_ENDING.sub("", words[-1]) for token in found if (words := token.split())]
    place = 0
    while place < len(tokens) and (step := _skipped(tokens[place], tokens[place + 1 :], place)):
        place += step
    phrase = [*takewhile(lambda token: not _ends(token), tokens[place:])]
    return singular(phrase[-1])[:_LONGEST_NOUN] if phrase else ""


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


def stats_schema() -> dict[str, Any]:
    """Return the JSON schema of ``table.json`` (docs/editpack-stats.schema.json)."""
    return TypeAdapter(EditStats).json_schema(mode="serialization")


if __name__ == "__main__":
    print(json.dumps(stats_schema(), indent=1))
