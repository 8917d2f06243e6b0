"""The repo map as a whole, on small real trees. Each test's name states its rule."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_retry.agent.repomap.build import RepoMap, largest_number
from swe_retry.agent.repomap.ranking.index import build_index
from swe_retry.agent.repomap.rendered import RenderedMaps
from swe_retry.agent.repomap.scanning.scan import scan
from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.agent.repomap.scanning.tree import blobs_below
from swe_retry.llm.chat import estimate_tokens
from tests.support import write_files

FILES = {
    "shop/__init__.py": "from shop.cart import Cart\n",
    "shop/cart.py": (
        "import shop.price\n\n"
        "class Cart:\n"
        '    """Holds what a customer wants.\n\n    More."""\n\n'
        "    @property\n"
        "    def total(self):\n"
        "        return shop.price.rounded(sum(self.items))\n\n"
        "    def add_item(self, item, count=1):\n"
        '        """Put an item in."""\n'
        "        self.items.append(item)\n"
    ),
    "shop/price.py": "def rounded(value):\n    return discounted(value)\n\ndef discounted(v): ...",
    "shop/mail.py": "class Mailer:\n    def send(self, shop): ...\n",
    "shop/util.py": "def rarely_named(shop): ...\n\ndef common(shop): ...\n",
    "tests/test_cart.py": "def test_total():\n    cart = Cart()\n    assert cart.total == 0\n",
    "docs/cart.rst": "Cart\n====\n",
    "setup.cfg": "[metadata]\nname = shop\n",
}


def map_of(folder: Path, files: Mapping[str, str] = FILES) -> RepoMap:
    root = write_files(folder / "tree", files)
    return RepoMap.of(blobs_below(root), root, TagStore(folder / "tags.sqlite"))


@pytest.fixture
def shop(tmp_path: Path) -> RepoMap:
    return map_of(tmp_path)


def paths(repo_map: RepoMap, text: str) -> list[str]:
    return [file.path for file in repo_map.ranked_files(text)]


@pytest.mark.parametrize(
    "text",
    [
        "It breaks in shop/mail.py",
        'File "/usr/lib/python3/site-packages/shop/mail.py", line 2, in send',
        "shop.mail.Mailer is slow",
        "see https://github.com/acme/shop/blob/main/shop/mail.py#L2",
    ],
)
def test_a_named_file_comes_first_with_any_other_text(shop: RepoMap, text: str) -> None:
    text = f"Cart.total of the cart is wrong, rounded and discounted\n{text}"
    assert paths(shop, text)[0] == "shop/mail.py"
    assert shop.ranked_files(text)[0].reasons[0] == "named"
    assert shop.render(text, 100).startswith("shop/mail.py:")


def test_named_files_are_in_the_order_of_the_text(shop: RepoMap) -> None:
    text = "shop/util.py, then shop/mail.py; the cart"
    assert paths(shop, text)[:2] == ["shop/util.py", "shop/mail.py"]


def test_the_packages_own_name_weighs_nothing(tmp_path: Path) -> None:
    files = {"pkg/quiet.py": "import pkg\nseldom()\n"}
    for number in range(8):
        files[f"pkg/m{number}.py"] = "import pkg\n" + "pkg.go()\n" * 30
    repo_map = map_of(tmp_path, files)
    ranking = paths(repo_map, "pkg fails\npkg pkg pkg, when pkg is seldom")
    assert ranking[0] == "pkg/quiet.py"


def test_a_rare_identifier_weighs_more_than_a_common_word(tmp_path: Path) -> None:
    files = {"pkg/special.py": "def f(x): return peculiar_thing(x)\n"}
    for number in range(9):
        code = f"def value{number}(common): return common\n"
        files[f"pkg/m{number}.py"] = code
    ranking = paths(map_of(tmp_path, files), "common common common peculiar_thing")
    assert ranking[0] == "pkg/special.py"


def test_tests_and_documentation_come_below_sources(shop: RepoMap) -> None:
    ranking = paths(shop, "the total of the cart is wrong")
    assert ranking[0] == "shop/cart.py"
    assert ranking.index("tests/test_cart.py") > 0
    # They come first where they are asked for.
    ranking = paths(shop, "Broken test: test_total asserts nothing")
    assert ranking[0] == "tests/test_cart.py"


def test_what_the_relevant_code_uses_is_relevant(tmp_path: Path) -> None:
    files = {
        "a.py": "def helper_used(): ...\n",
        "b.py": "def helper_unused(): ...\n",
        "c.py": "def frobnicate():\n    helper_used()\n",
    }
    ranked = map_of(tmp_path, files).ranked_files("frobnicate crashes")
    reasons = {file.path: file.reasons for file in ranked}
    ranking = list(reasons)
    assert ranking.index("a.py") < ranking.index("b.py")
    assert "references" in reasons["a.py"]


def test_signatures_decorators_and_docstrings_are_shown_under_their_class(
    shop: RepoMap,
) -> None:
    lines = shop.render("Cart.total and add_item of shop/cart.py", 400).split("\n")
    start = lines.index("shop/cart.py:")
    assert lines[start + 1 : start + 7] == [
        " class Cart",
        "   # Holds what a customer wants.",
        "  @property",
        "  def total(self)",
        "  def add_item(self, item, count=1)",
        "    # Put an item in.",
    ]


def test_no_budget_is_exceeded_and_a_larger_one_shows_more(shop: RepoMap) -> None:
    text = "the total of the cart, mailed"
    for tokens in range(150):
        rendered = shop.render(text, tokens)
        assert len(rendered) <= 4 * tokens
    assert len(rendered) > 300


def build_map() -> RepoMap:
    """Return the map of FILES without a folder: hypothesis does not allow tmp_path."""
    tags = {}
    for path, text in FILES.items():
        if path.endswith(".py"):
            tags[path] = scan(text.encode(), "python")
    return RepoMap(build_index(FILES, tags.items()))


BUILT = build_map()


@settings(max_examples=20)
@given(st.text(max_size=80), st.integers(0, 200))
def test_a_models_own_counter_is_obeyed(text: str, tokens: int) -> None:
    def count(rendered: str) -> int:
        return len(rendered.split()) + rendered.count("_")

    rendered = BUILT.render(text, tokens, count=count)
    assert count(rendered) <= tokens


@pytest.mark.parametrize(
    "text", ["", " \n", "?!", "the and of", "\0", "é" * 1000, 'File "", line']
)
def test_any_text_gives_a_map(shop: RepoMap, text: str) -> None:
    assert "shop/" in shop.render(text, 200)


def test_strange_paths_and_comments_are_no_error(tmp_path: Path) -> None:
    files = {
        "a\nb.c": "// odd \x1f\x1e\x1c words\nint f(int a) { return a; }\n",
        "c\udce9.c": "int g;",
    }
    for _ in range(2):  # the second time from the store
        repo_map = map_of(tmp_path, files)
        assert paths(repo_map, "words") == list(files)
        lines = repo_map.render("words", 100).encode().split(b"\n")
        assert lines[::3] == [b"a?b.c:", b"c?.c:"]


def test_a_tree_without_files_gives_an_empty_map(tmp_path: Path) -> None:
    repo_map = RepoMap.of({}, tmp_path, TagStore(tmp_path / "tags.sqlite"))
    assert repo_map.render("anything", 1000) == ""
    assert repo_map.ranked_files("anything") == ()


@dataclass
class KeptMaps:
    """The maps that a store of ``folder`` keeps of its tree."""

    folder: Path

    @property
    def store(self) -> TagStore:
        return TagStore(self.folder / "tags.sqlite")

    def render(
        self,
        text: str = "cart",
        tokens: int = 99,
        counter: str = "c",
        count: Callable[[str], int] = estimate_tokens,
    ) -> str:
        root = self.folder / "tree"
        maps = RenderedMaps(blobs_below(root), self.store)
        return maps.render(root, text, tokens, count=count, counter=counter)

    def edit(self, *statements: str) -> None:
        with sqlite3.connect(self.folder / "tags.sqlite") as database:
            for statement in statements:
                database.execute(statement)


@pytest.fixture
def shop_maps(tmp_path: Path) -> KeptMaps:
    write_files(tmp_path / "tree", FILES)
    return KeptMaps(tmp_path)


def refuse(text: str) -> int:
    raise AssertionError("nothing is to be counted")


def test_a_kept_map_needs_neither_tags_nor_files_nor_counting(
    shop_maps: KeptMaps,
) -> None:
    first = shop_maps.render()
    assert "class Cart" in first
    shop_maps.edit("DELETE FROM trees", "DELETE FROM blobs")
    maps = RenderedMaps(blobs_below(shop_maps.folder / "tree"), shop_maps.store)
    nowhere = shop_maps.folder / "nowhere"
    assert maps.render(nowhere, "cart", 99, count=refuse, counter="c") == first


def test_what_decides_a_map_decides_which_is_read(shop_maps: KeptMaps) -> None:
    first = shop_maps.render()
    changes: list[dict[str, Any]] = [
        {"text": "mailer"},
        {"tokens": 98},
        {"counter": "other"},
    ]
    for change in changes:
        with pytest.raises(AssertionError, match="counted"):
            shop_maps.render(**change, count=refuse)
    (shop_maps.folder / "tree/shop/cart.py").write_text("class Basket: ...\n")
    assert shop_maps.render() != first


def test_without_a_name_for_the_counter_nothing_is_kept(shop_maps: KeptMaps) -> None:
    shop_maps.render(counter="")
    with pytest.raises(AssertionError, match="counted"):
        shop_maps.render(counter="", count=refuse)


def test_a_broken_text_is_made_again_and_old_ones_are_removed(
    shop_maps: KeptMaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shop_maps.render()
    shop_maps.edit("UPDATE texts SET value = x'ff'")
    assert shop_maps.render() == first
    monkeypatch.setattr("swe_retry.agent.repomap.scanning.store._MAX_TEXTS", 2)
    store = shop_maps.store
    for number in range(4):
        store.keep_text(str(number), f"map {number}")
    texts = [store.text(str(number)) for number in range(4)]
    assert texts == [None, None, "map 2", "map 3"]


@given(
    steps=st.lists(st.integers(1, 9) | st.just(10_000), max_size=2_000),
    limit=st.integers(0, 30_000),
)
def test_the_most_choices_that_fit_are_found_in_few_steps(
    steps: list[int], limit: int
) -> None:
    sizes = [0, *accumulate(steps)]
    looked_at: list[int] = []

    def size_of(number: int) -> int:
        looked_at.append(number)
        return sizes[number]

    number = largest_number(size_of, len(steps), limit)
    fitting = [size for size in sizes if size <= limit]
    assert number == len(fitting) - 1
    assert len(looked_at) <= 20
