"""Choosing among the candidates of runs of any harness, without a look at any verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import SelectionRule
from swe_retry.core.errors import UserError
from swe_retry.demo.setup import DEMO_DATASET
from swe_retry.environments.base import EnvironmentKind
from swe_retry.study.select import candidates_of, select_command
from tests.support import read_json, write_files
from tests.support.reported import Printed, differs, replay
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
+    letters = [character if character.isalnum() else " " for character in text.lower()]  # it is so
+    return "-".join("".join(letters).split())
""".replace(  # noqa: W293
    "{doc}",
    '"""Return ``text`` in lower case with dashes for everything that is not a letter or digit."""',
)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of ours with four attempts, and verdicts that nobody may read."""
    out = tmp_path_factory.mktemp("ours")
    folder = replay(
        out,
        cache,
        NAME,
        replay=RECORDED,
        tries=2,
        all_attempts=True,
    )
    return write_files(folder, {f"verdicts/{NAME}.json": "{ not even JSON"})


def select(
    runs: list[Path],
    out: Path,
    cache: Path,
    environment: EnvironmentKind = EnvironmentKind.NONE,
    **changes: Any,
) -> Printed:
    """Choose among the candidates of runs by recorded evidence, as the run ``s``."""
    values = {
        "replay": RECORDED,
        "environment": environment,
        "select": SelectionRule.EVIDENCE,
        "all_attempts": True,
        "rounds": 0,
        "run": "s",
    }
    lines: list[str] = []
    run_config = options(out, cache).of(config(**{**values, **changes}))
    code = select_command(runs, run_config, lines.append)
    return Printed(code, lines)


def predictions_alone(
    folder: Path, *patches: str, verdict: str = "resolved_ids"
) -> list[Path]:
    """Return runs that are predictions alone, with verdicts beside them."""
    runs = []
    for number, patch in enumerate(patches, 1):
        line = {
            "instance_id": NAME,
            "model_name_or_path": f"m{number}",
            "model_patch": patch,
        }
        verdicts = {"resolved_ids": [], verdict: [NAME]}
        files = {
            "all_preds.jsonl": json.dumps(line) + "\n",
            "m.run.json": json.dumps(verdicts),
        }
        run = write_files(folder / f"theirs{number}", files)
        runs.append(run)
    return runs


def test_candidates_of_several_harnesses_are_chosen_from(
    tmp_path: Path, cache: Path, ours: Path
) -> None:
    other = DIFF.replace("letters = []", "letters = ()")
    theirs = predictions_alone(tmp_path, DIFF.rstrip("\n"), other)
    runs = [ours, *theirs]
    printed = select(runs, tmp_path, cache, EnvironmentKind.LOCAL)
    assert printed.code == 0
    run = tmp_path / "predictions/s"
    prediction = read_json(run / f"{NAME}.json")
    assert prediction["attempt"] == 2
    assert prediction["origin"]["run"] == "r"
    assert prediction["origin"]["harness"]
    results = prediction["all_results"]
    assert results[4]["model"] == "m1"
    assert results[4]["origin"]["run"] == "theirs1"
    classes = [each["attempts"] for each in prediction["evidence"]["classes"]]
    assert classes == [[1], [2, 3, 5], [4]]
    lines = printed.starting(f"{NAME} ")
    assert len(lines) == 7
    for number, text in {
        1: "scripted-b (r, attempt 2) plausible class c2 passes 4 of 4 chosen",
        4: "m1 (theirs1, attempt 1) plausible class c2 passes 4 of 4",
        5: "m2 (theirs2, attempt 1) error no class passes 0 of 4",
    }.items():
        assert lines[number] == f"{NAME} {text}"
    assert "attempt 2 is chosen by evidence" in lines[6]
    # The result is a run like any other.
    assert not differs(run)
    again = tmp_path / "again"
    printed = select(runs, again, cache, EnvironmentKind.LOCAL, replay=run)
    assert printed.code == 0
    result = again / f"predictions/s/{NAME}.json"
    assert result.read_bytes() == (run / f"{NAME}.json").read_bytes()


def test_no_file_of_verdicts_is_opened(
    tmp_path: Path,
    cache: Path,
    ours: Path,
) -> None:
    opened: list[str] = []
    watching = [False]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching[0] and event == "open":
            opened.append(str(arguments[0]))

    sys.addaudithook(hook)  # for the rest of the process
    results = set()
    for kind in ("resolved_ids", "unresolved_ids"):
        out = tmp_path / kind
        theirs = predictions_alone(out, DIFF, verdict=kind)
        runs = [ours, *theirs]
        watching[0] = True
        try:
            printed = select(runs, out, cache)
        finally:
            watching[0] = False
        assert printed.code == 0
        results.add((out / f"predictions/s/{NAME}.json").read_bytes())
    assert any(path.endswith("all_preds.jsonl") for path in opened)
    for path in opened:
        assert not path.startswith(str(ours / "verdicts"))
        assert not path.endswith("m.run.json")
    assert len(results) == 1


def test_a_killed_or_changed_choice_is_not_mixed(
    tmp_path: Path, cache: Path, ours: Path
) -> None:
    """The candidates decide results, so other candidates need another run."""
    assert select([ours], tmp_path, cache).code == 0
    again = select([ours], tmp_path, cache)
    assert again.code == 0
    assert "1 selected, 1 done before" in again.lines[0].replace("instance ", "")
    theirs = predictions_alone(tmp_path, DIFF)
    with pytest.raises(UserError, match="the runs that are given"):
        select([ours, *theirs], tmp_path, cache)


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
    select(predictions_alone(tmp_path, patch), tmp_path, cache)
    assert not list(tmp_path.rglob("evil"))
    files = list(tmp_path.glob(f"predictions/s/{NAME}*.json"))
    files += tmp_path.glob(f"logs/s/{NAME}*.unfinished.json")
    assert files


def test_every_patch_of_a_run_is_a_candidate(tmp_path: Path, ours: Path) -> None:
    runs = [ours, *predictions_alone(tmp_path, DIFF, "")]
    candidates = candidates_of(runs)[NAME]
    origins = [candidate.origin for candidate in candidates]
    assert [(origin.run, origin.attempt) for origin in origins] == [
        ("r", 1),
        ("r", 2),
        ("r", 3),
        ("r", 4),
        ("theirs1", 1),
    ]
    assert candidates[4].model == "m1"
    assert candidates[4].patch == DIFF
    assert candidates[4].origin.harness


def test_requests_that_cannot_be_meant_are_refused(
    tmp_path: Path, cache: Path, ours: Path
) -> None:
    (empty,) = predictions_alone(tmp_path / "empty", "")
    for runs, changes, problem in (
        ([tmp_path / "nothing"], {}, "there is no run"),
        ([empty], {}, "no patch there"),
        ([ours], {"agent": "command:x"}, "leave it out"),
        ([ours, ours], {}, "given twice"),
    ):
        with pytest.raises(UserError, match=problem):
            select(runs, tmp_path, cache, EnvironmentKind.LOCAL, **changes)
    assert not (tmp_path / "predictions").exists()
