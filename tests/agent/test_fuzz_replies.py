"""Mutated replies never escape the checkout and never raise."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agent.workspace import Workspace
from llm.chat import Reply
from tests.agent.fuzz_replies import Arena, EscapedError, carry_out, fuzz
from tests.agent.hostile_replies import HOSTILE_PATHS, Writer, blocks_in, files_of, replies_in

_RECORDED = Path(__file__).parents[2] / "demo" / "replies"


@pytest.mark.parametrize(
    ("seed", "count"), [(7, 400), pytest.param(1, 100_000, marks=pytest.mark.long)]
)
def test_nothing_escapes_and_nothing_is_raised(seed: int, count: int) -> None:
    texts = replies_in([_RECORDED])
    blocks = blocks_in(texts)
    figures = fuzz(Writer(texts, blocks), files_of(blocks), seed, range(count))
    assert not figures.raised
    total = sum(figures.outcomes.values())
    assert figures.outcomes["diff", "applied"] and figures.outcomes["whole-func", "failed"], total


def _arena(folder: Path) -> Arena:
    return Arena(folder, {"package/b.py": "y = 1\n"})


@pytest.mark.parametrize("path", HOSTILE_PATHS)
@pytest.mark.parametrize("form", ["diff", "whole", "patch", "udiff"])
def test_a_hostile_path_is_a_failed_edit_or_a_plain_new_file(
    tmp_path: Path, path: str, form: str
) -> None:
    arena = _arena(tmp_path)
    reply = {
        "diff": f"{path}\n```\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n```\n",
        "whole": f"{path}\n```\nx\n```\n",
        "patch": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n",
        "udiff": f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n",
    }[form]
    carry_out(Reply(reply), form, random.Random(0), arena)


@pytest.mark.parametrize("name", ["outside/secret.txt", "checkout/.git/config", "checkout/a.py"])
def test_the_arena_notices_changes_made_outside_the_workspace(tmp_path: Path, name: str) -> None:
    arena = _arena(tmp_path)
    (tmp_path / name).write_text("changed")
    with pytest.raises(EscapedError, match="changed"):
        arena.check_and_reset(Workspace(arena.root), "")


def test_the_arena_notices_a_disclosed_secret(tmp_path: Path) -> None:
    arena = _arena(tmp_path)
    secret = (arena.outside / "secret.txt").read_text()
    with pytest.raises(EscapedError, match="disclosed"):
        arena.check_and_reset(Workspace(arena.root), f"… {secret} …")
