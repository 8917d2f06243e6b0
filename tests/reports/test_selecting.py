"""Choosing among the candidates of runs of any harness, without a look at any verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.attempts import RecordedCandidate
from bench.cli.commands import run_command
from bench.config import SelectionRule
from core.errors import UserError
from demo.setup import DEMO_DATASET
from environments.base import EnvironmentKind
from reports.selecting import candidates_of, select_command
from reports.verify import verify_command
from tests.support.runs import config, options

NAME = "demo__textkit-1"
RECORDED = DEMO_DATASET / "evidence"
DIFF = """diff --git a/textkit/slug.py b/textkit/slug.py
--- a/textkit/slug.py
+++ b/textkit/slug.py
@@ -3,10 +3,5 @@
 
 def slugify(text):
     {doc}
-    letters = []
-    for character in text.lower():
-        if character.isalnum():
-            letters.append(character)
-        else:
-            letters.append("-")
-    return "".join(letters)
+    letters = [character if character.isalnum() else " " for character in text.lower()]  # so
+    return "-".join("".join(letters).split())
""".replace(  # noqa: W293
    "{doc}",
    '"""Return ``text`` in lower case with dashes for everything that is not a letter or digit."""',
)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of ours with four attempts, and verdicts that nobody may read."""
    out = tmp_path_factory.mktemp("ours")
    given = config(
        replay=RECORDED, tries=2, all_attempts=True, environment=EnvironmentKind.NONE
    )
    assert run_command(given, options(out, cache, NAME), lambda _: None) == 0
    folder = out / "predictions/r"
    verdicts = folder / "verdicts"
    verdicts.mkdir()
    (verdicts / f"{NAME}.json").write_text("{ not even JSON")
    return folder


def selection(**changes: Any) -> Any:
    values = {
        "replay": RECORDED,
        "environment": EnvironmentKind.LOCAL,
        "select": SelectionRule.EVIDENCE,
        "all_attempts": True,
        "rounds": 0,
        "run": "s",
    }
    return config(**{**values, **changes})


def plain(
    folder: Path,
    *patches: str,
    verdict: str = "resolved_ids",
) -> list[Path]:
    """Return runs that are predictions alone, with verdicts beside them."""
    made = []
    for number, patch in enumerate(patches, 1):
        place = folder / f"theirs{number}"
        place.mkdir(parents=True)
        line = {
            "instance_id": NAME,
            "model_name_or_path": f"m{number}",
            "model_patch": patch,
        }
        (place / "all_preds.jsonl").write_text(json.dumps(line) + "\n")
        (place / "m.run.json").write_text(
            json.dumps({"resolved_ids": [], verdict: [NAME]})
        )
        made.append(place)
    return made


def test_candidates_of_several_harnesses_are_chosen_from(
    tmp_path: Path, cache: Path, ours: Path
) -> None:
    runs = [
        ours,
        *plain(
            tmp_path, DIFF.rstrip("\n"), DIFF.replace("letters = []", "letters = ()")
        ),
    ]
    said: list[str] = []
    assert select_command(runs, selection(), options(tmp_path, cache), said.append) == 0
    found = json.loads((tmp_path / f"predictions/s/{NAME}.json").read_text())
    assert found["attempt"] == 2
    assert [one["attempts"] for one in found["evidence"]["classes"]] == [
        [1],
        [2, 3, 5],
        [4],
    ]
    lines = [line for line in said if line.startswith(f"{NAME} ")]
    assert len(lines) == 7
    assert (
        lines[1]
        == f"{NAME} scripted-b (r, attempt 2) plausible class c2 passes 4 of 4 chosen"
    )
    assert (
        lines[4] == f"{NAME} m1 (theirs1, attempt 1) plausible class c2 passes 4 of 4"
    )
    assert lines[5] == f"{NAME} m2 (theirs2, attempt 1) error no class passes 0 of 4"
    assert "attempt 2 is chosen by evidence" in lines[6]
    # The result is a run like any other.
    words: list[str] = []
    place = tmp_path / "predictions/s"
    assert verify_command([place], words.append) == 0, words
    again = tmp_path / "again"
    replay = selection(replay=place)
    assert select_command(runs, replay, options(again, cache), lambda _: None) == 0
    assert (again / f"predictions/s/{NAME}.json").read_bytes() == (
        place / f"{NAME}.json"
    ).read_bytes()


def test_no_file_of_verdicts_is_opened(tmp_path: Path, cache: Path, ours: Path) -> None:
    opened: list[str] = []
    watching = [False]
    kinds = ("resolved_ids", "unresolved_ids")
    others = {kind: plain(tmp_path / kind, DIFF, verdict=kind) for kind in kinds}

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if watching[0] and event == "open":
            opened.append(str(given[0]))

    sys.addaudithook(hook)  # for the rest of the process
    results = set()
    watching[0] = True
    try:
        for kind in kinds:
            out = tmp_path / kind
            runs = [ours, *others[kind]]
            given = selection(environment=EnvironmentKind.NONE)
            assert select_command(runs, given, options(out, cache), lambda _: None) == 0
            results.add((out / f"predictions/s/{NAME}.json").read_bytes())
    finally:
        watching[0] = False
    assert any(path.endswith("all_preds.jsonl") for path in opened)
    verdicts = (str(ours / "verdicts"), "m.run.json")
    assert not [
        p for p in opened if p.startswith(verdicts[0]) or p.endswith(verdicts[1])
    ]
    assert len(results) == 1


def test_a_killed_or_changed_choice_is_not_mixed(
    tmp_path: Path, cache: Path, ours: Path
) -> None:
    """The candidates decide results, so other candidates need another run."""
    given = selection(environment=EnvironmentKind.NONE)
    run = options(tmp_path, cache)
    assert select_command([ours], given, run, lambda _: None) == 0
    said: list[str] = []
    assert select_command([ours], given, run, said.append) == 0
    assert "1 selected, 1 done before" in said[0].replace("instance ", "")
    with pytest.raises(UserError, match="the runs that are given"):
        select_command([ours, *plain(tmp_path, DIFF)], given, run, lambda _: None)


@pytest.mark.parametrize(
    "patch",
    [
        "diff --git a/../../evil b/../../evil\nnew file mode 100644\n--- /dev/null\n"
        "+++ b/../../evil\n@@ -0,0 +1 @@\n+1\n",
        "diff --git a/.git/hooks/x b/.git/hooks/x\nnew file mode 100755\n--- /dev/null\n"
        "+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+1\n",
        "not a patch",
        "diff --git a/\udcff b/\udcff\n",
    ],
)
def test_a_hostile_patch_is_an_attempt_that_failed(
    tmp_path: Path, cache: Path, patch: str
) -> None:
    (run,) = plain(tmp_path, patch)
    given = selection(environment=EnvironmentKind.NONE)
    select_command([run], given, options(tmp_path, cache), lambda _: None)
    assert not list(tmp_path.rglob("evil"))
    found = list((tmp_path / "predictions").glob("s/*.json")) + list(
        (tmp_path / "logs").glob("s/*.unfinished.json")
    )
    assert any(path.name.startswith(NAME) for path in found)


def test_every_patch_of_a_run_is_a_candidate(tmp_path: Path, ours: Path) -> None:
    found = candidates_of([ours, *plain(tmp_path, DIFF, "")])
    assert [one.origin for one in found[NAME]] == [
        *(f"r, attempt {number}" for number in (1, 2, 3, 4)),
        "theirs1, attempt 1",
    ]
    assert found[NAME][4] == RecordedCandidate("theirs1, attempt 1", "m1", DIFF)


@pytest.mark.parametrize(
    ("runs", "words"),
    [(["nothing"], "there is no run"), (["empty"], "no patch there")],
)
def test_runs_without_candidates_are_named(
    tmp_path: Path,
    cache: Path,
    runs: list[str],
    words: str,
) -> None:
    plain(tmp_path / "empty_of", "")
    places = []
    for name in runs:
        places.append(tmp_path / ("empty_of/theirs1" if name == "empty" else name))
    with pytest.raises(UserError, match=words):
        select_command(places, selection(), options(tmp_path, cache), lambda _: None)


def test_options_for_attempts_are_refused(
    tmp_path: Path, cache: Path, ours: Path
) -> None:
    agent = selection(agent="command:x")
    with pytest.raises(UserError, match="leave it out"):
        select_command([ours], agent, options(tmp_path, cache), print)
    with pytest.raises(UserError, match="given twice"):
        select_command([ours, ours], selection(), options(tmp_path, cache), print)
    assert not (tmp_path / "predictions").exists()
