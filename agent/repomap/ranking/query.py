"""Read what a text says of files and definitions: words, names, tracebacks."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from swe_retry.agent.repomap.scanning.tags import IDENTIFIER, parts

_FENCED = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"`([^`\n]+)`")
# Lines of an indented block, or behind the prompt of Python or IPython.
_INDENTED = re.compile(r"^(?: {4}|\t|>>> |In \[\d+\]:)(.*)$", re.MULTILINE)
# _name, camelCase, snake_case, v2, CONSTANT, or a name before a parenthesis.
_LIKE_CODE = re.compile(r"^_|[a-z0-9][A-Z]|\w_\w|[A-Za-z]\d|^[A-Z]{2,}$|\w+(?=\()")
_CALLED = re.compile(r"([^\W\d]\w+)\(")
# Looks ahead, so that a.b.c has two.
_QUALIFIED = re.compile(r"(?=\b([^\W\d]\w*)\.([^\W\d]\w+))")
# File and function of one line of Python's traceback.
_FRAME = re.compile(r"File \"([^\"\n]+)\", line \d+, in (\w+)")
_ON_TESTS = re.compile(
    r"\b(?:failing|broken|flaky|add|missing|write|new) (?:\w+ )?tests?\b", re.I
)
_ON_DOCUMENTATION = re.compile(
    r"\b(?:docs|documentation|tutorial|readme|changelog)\b", re.I
)
_TITLE_WEIGHS = 3.0
# Words of any issue. Rarity in code does not show that: there, "would" is a rare word.
_EVERYDAY = """
    about above after again all also although always and another any anything are around ask back
    because been before being below between both bug but can cannot case cause change code com
    come confirm could current currently did different does doing done down during each either
    else email enough error even ever every everything exactly example expect expected fact fail
    few find first fix following for found from further get github give going good got had happen
    has have having hello help here hope how however html http https idea instead into issue its
    itself just know later least let like line little local look made make many maybe mean might
    more most much must need never new not nothing now off once one only org other our out over
    own pip please possible probably problem put python question quite rather really recent reason
    reproduce result run same say see seem set several should show simple simply since some
    something still such sure system take than thank that the their them then there these they
    thing think this those though through too traceback tried try trying two under until usage use
    used user using version very via want was way well were what when where whether which while
    who why will with within without won work would wrong www yes yet you your actual behavior
    behaviour bit linux windows macos call last file module
    """
_EVERYDAY_STEMS = frozenset(chain.from_iterable(map(parts, _EVERYDAY.split())))


@dataclass(frozen=True)
class Query:
    """The evidence in one text; all weights are positive.

    Attributes:
        stems: words and parts of identifiers, everyday words left out.
        identifiers: as they stand, where they look like code.
        qualified: names with the name before their dot: ``("Add", "flatten")``.
        frames: file and function of each traceback line, innermost last.
        asks_for_tests, asks_for_documentation: the title is about them.
    """

    stems: Mapping[str, float]
    identifiers: Mapping[str, float]
    qualified: tuple[tuple[str, str], ...]
    frames: tuple[tuple[str, str], ...]
    asks_for_tests: bool = False
    asks_for_documentation: bool = False


def read_query(text: str) -> Query:
    """Return the evidence in ``text``; its first line counts as the title."""
    title, _, body = text.strip().partition("\n")
    stems: dict[str, float] = defaultdict(float)
    identifiers: dict[str, float] = defaultdict(float)
    prose = _FENCED.sub(" ", text)
    code = [*_FENCED.findall(text), *_QUOTED.findall(prose), *_INDENTED.findall(prose)]
    called = set(_CALLED.findall(text))
    marked = set(IDENTIFIER.findall(" ".join(code))) | called
    for part, weight in ((title, _TITLE_WEIGHS), (body, 1.0)):
        counts = Counter(IDENTIFIER.findall(part))
        for word, count in counts.items():
            word_stems = [s for s in parts(word) if s not in _EVERYDAY_STEMS]
            for stem in word_stems:
                stems[stem] += weight * count
            if word_stems and (word in marked or _LIKE_CODE.search(word)):
                identifiers[word] += weight * count
    return Query(
        stems=_dampen(stems),
        identifiers=_dampen(identifiers),
        qualified=tuple(dict.fromkeys(_QUALIFIED.findall(text))),
        frames=tuple(dict.fromkeys(_FRAME.findall(text))),
        asks_for_tests=_ON_TESTS.search(title) is not None,
        asks_for_documentation=_ON_DOCUMENTATION.search(title) is not None,
    )


def _dampen(counts: Mapping[str, float]) -> dict[str, float]:
    """Return weights that grow more slowly than the counts, by sorted names."""
    sorted_counts = sorted(counts.items())
    return {name: 3.0 * count / (2.0 + count) for name, count in sorted_counts}
