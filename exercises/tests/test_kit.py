"""The exercises import the kit of the house and nothing else of it, and the kit is their list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import swe_retry_exercises
from swe_retry import kit
from tests.support import write_files

pytestmark = pytest.mark.check

ROOT = Path(swe_retry_exercises.__file__).parent
KIT = "swe_retry.kit"
IN_TEXT = re.compile(r"swe_retry(\.\w+)+")
# The goal is 40 names.
MOST_NAMES = 178


def imports_of_the_house(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield module, imported module and name; also of late imports and of names in strings."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Constant) and IN_TEXT.fullmatch(str(node.value)):
                names = [(str(node.value), "")]
            for module, name in names:
                if module.split(".")[0] in ("swe_retry", "harness", "report", "agent"):
                    yield path.name, module, name


def other_imports(root: Path) -> list[tuple[str, str, str]]:
    return [
        entry for entry in imports_of_the_house(root) if entry[1] != KIT or not entry[2]
    ]


def test_the_exercises_import_nothing_of_the_house_but_the_kit() -> None:
    assert not other_imports(ROOT)


@pytest.mark.parametrize(
    "line",
    [
        "from swe_retry.core.errors import UserError",
        "from swe_retry import kit",
        "import swe_retry.kit",
        "def f():\n    import swe_retry.llm.chat",
        "import_module('swe_retry.llm.chat')",
        "import agent.builtin",
    ],
)
def test_another_import_is_seen(tmp_path: Path, line: str) -> None:
    root = write_files(tmp_path, {"a.py": "from swe_retry.kit import UserError\n"})
    assert not other_imports(root)
    write_files(root, {"b/c.py": f"{line}\n"})
    assert len(other_imports(root)) == 1


def test_the_kit_has_what_the_exercises_use_and_no_more() -> None:
    used = {name for _, module, name in imports_of_the_house(ROOT) if module == KIT}
    assert set(kit.__all__) == used
    assert len(used) <= MOST_NAMES


def test_each_name_of_the_kit_is_there_for_programs_and_for_type_checkers() -> None:
    homes = {}
    for node in ast.walk(ast.parse(Path(kit.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(
            "swe_retry"
        ):
            homes.update({alias.name: node.module for alias in node.names})
    del homes["homes_in"]  # by which the kit finds them
    assert sorted(homes) == kit.__all__
    for name, home in homes.items():
        assert getattr(kit, name) is getattr(import_module(str(home)), name)
    with pytest.raises(AttributeError, match="has no name 'gone'"):
        getattr(kit, "gone")  # noqa: B009 - mypy knows that it is not there
