"""Store maps as texts between runs, by tree, text, budget and tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.llm.tokens import Count

if TYPE_CHECKING:
    from swe_retry.agent.repomap.build import RepoMap

_PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class RenderedMaps:
    """The maps of one tree, which is ranked only for maps that are not stored.

    Attributes:
        blobs: the tree's files, path to git blob hash.
    """

    blobs: Mapping[str, str]
    store: TagStore
    _maps: list[RepoMap] = field(default_factory=list)

    def render(
        self, root: Path, text: str, tokens: int, *, count: Count, counter: str
    ) -> str:
        """Return the map for ``text``, at most ``tokens`` long by ``count``.

        Args:
            root: a folder with the tree's files; read only where the store lacks their tags.
            counter: names the tokenizer of ``count`` with its version, as maps are stored by it;
                empty where it is unknown: the map is not stored then.
        """
        if not counter:
            return self._build_map(root).render(text, tokens, count=count)
        key = _hash([self._tree, code_version(), str(tokens), counter, text])
        rendered = self.store.text(key)
        if rendered is None:
            rendered = self._build_map(root).render(text, tokens, count=count)
            self.store.keep_text(key, rendered)
        return rendered

    @cached_property
    def _tree(self) -> str:
        from swe_retry.agent.repomap.build import tree_key

        return tree_key(self.blobs)

    def _build_map(self, root: Path) -> RepoMap:
        from swe_retry.agent.repomap.build import RepoMap  # it loads numpy

        if not self._maps:
            self._maps.append(RepoMap.of(self.blobs, root, self.store))
        return self._maps[0]


@cache
def code_version() -> str:
    """Return a hash of the code that ranks and renders, as any change may change a map."""
    mentions = _PACKAGE.parent / "mentions.py"
    files = [*sorted(_PACKAGE.rglob("*.py")), mentions]
    return _hash(path.read_text("utf-8") for path in files)


def _hash(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()
