from __future__ import annotations

from pathlib import Path

import pytest

from agent.mentions import FileIndex
from agent.repomap import RepoMap, TagStore
from agent.repomap.tags import scan

INDEX = FileIndex.of(["src/app/main.py", "src/app/util.py", "lib/util.py", "setup.py", "a b.py"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see src/app/main.py.", ("src/app/main.py",)),
        ("`main.py`, please", ("src/app/main.py",)),
        ("(src/app/util.py)", ("src/app/util.py",)),
        ("at lib/util.py:347 and ./setup.py", ("lib/util.py", "setup.py")),
        ('File "src/app/main.py", line 3', ("src/app/main.py",)),
        ("util.py is ambiguous; main.pyx is none", ()),
        ("**setup.py**", ("setup.py",)),
    ],
)
def test_files_named_in_a_text(text: str, expected: tuple[str, ...]) -> None:
    assert INDEX.mentioned(text) == expected


def test_scan_finds_top_level_definitions_only() -> None:
    data = b"class A(B):\n    def method(self): ...\nasync  def f(): ...\n# def no(): ...\n"
    assert scan(data) == ("class A", "async def f")


def the_map(root: Path, store: TagStore) -> RepoMap:
    files = {
        "pkg/core.py": "class Engine:\n    pass\ndef start(): ...\n",
        "pkg/other.py": "def unrelated(): ...\n",
        "tests/test_core.py": "def test_engine(): ...\n",
        "README.md": "engine",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return RepoMap.of({path: f"hash-{path}" for path in files}, root, store)


def test_named_files_come_first_and_tests_after_sources(tmp_path: Path) -> None:
    found = the_map(tmp_path / "tree", TagStore(tmp_path / "tags.sqlite"))
    assert found.ranked("the engine fails in other.py")[0] == "pkg/other.py"
    assert found.ranked("the engine fails") == ["pkg/core.py", "pkg/other.py", "tests/test_core.py"]


def test_the_map_never_exceeds_its_budget(tmp_path: Path) -> None:
    found = the_map(tmp_path / "tree", TagStore(tmp_path / "tags.sqlite"))
    for tokens in range(40):
        assert len(found.render("engine", tokens)) <= tokens * 4
    assert "class Engine" in found.render("engine", 40)


def test_tags_are_kept_by_blob_hash(tmp_path: Path) -> None:
    store = TagStore(tmp_path / "tags.sqlite")
    first = the_map(tmp_path / "tree", store)
    (tmp_path / "tree/pkg/core.py").unlink()
    blobs = {path: f"hash-{path}" for path in first.tags}
    assert RepoMap.of(blobs, tmp_path / "tree", store).tags == first.tags
