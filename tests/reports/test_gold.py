"""``report.py gold`` finds what cannot be judged, goes on after a kill, refuses other files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bench.instances.dataset import load_dataset
from bench.selection import Instances
from core.errors import UserError
from demo.images import build_images
from demo.setup import build_mirrors
from reports.evaluation.settings import EvaluationSettings, EvaluatorKind
from reports.gold import GoldSettings, gold_command
from runs.settings import FolderSettings
from tests.conftest import ShareVenvs
from tests.support import TOP
from tests.support.commands import Preloaded
from tests.support.evaluated import (
    BANK,
    TEXTKIT,
    UNITS,
    rows,
)

FLAKY = "planted__flaky-1"
INVALID = "planted__invalid-1"
NOWHERE = "tests/test_parse.py::test_that_is_nowhere"
_LUCK = "tests/test_luck.py"
# In each run another one of so many tests fails. Three runs agree once in a quarter of a million.
_TESTS = 500
_SOURCE = f"""\
import random

import pytest

UNLUCKY = random.SystemRandom().randrange({_TESTS})


@pytest.mark.parametrize("number", range({_TESTS}))
def test_luck(number):
    assert number != UNLUCKY
"""


def planted(folder: Path) -> Path:
    """Write the dataset into ``folder`` and return its path."""
    every = rows()
    path = folder / "rows.json"
    path.write_text(
        json.dumps([*every.values(), _flaky(every[TEXTKIT]), _invalid(every[UNITS])])
    )
    return path


def _invalid(row: Mapping[str, Any]) -> dict[str, Any]:
    tests = [*_names(row, "FAIL_TO_PASS"), NOWHERE]
    return {**row, "instance_id": INVALID, "FAIL_TO_PASS": json.dumps(tests)}


def _flaky(row: Mapping[str, Any]) -> dict[str, Any]:
    added = "".join(f"+{line}\n" for line in _SOURCE.splitlines())
    patch = (
        f"{row['test_patch']}diff --git a/{_LUCK} b/{_LUCK}\nnew file mode 100644\n"
        f"--- /dev/null\n+++ b/{_LUCK}\n@@ -0,0 +1,{_SOURCE.count(chr(10))} @@\n{added}"
    )
    tests = [
        *_names(row, "PASS_TO_PASS"),
        *(f"{_LUCK}::test_luck[{n}]" for n in range(_TESTS)),
    ]
    command = "no:cacheprovider tests/test_slug.py"
    script = row["eval_script"].replace(row["test_patch"], patch)
    return {
        **row,
        "instance_id": FLAKY,
        "test_patch": patch,
        "PASS_TO_PASS": json.dumps(tests),
        "eval_script": script.replace(command, f"{command} {_LUCK}"),
    }


def _names(row: Mapping[str, Any], key: str) -> list[str]:
    value = row[key]
    return list(json.loads(value) if isinstance(value, str) else value)


SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "validity.schema.json"
Gold = Callable[..., int]


def content(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def states(path: Path) -> dict[str, str]:
    return {name: one["state"] for name, one in content(path)["instances"].items()}


def check_planted(path: Path, valid: Sequence[str]) -> None:
    """Check that exactly the two planted instances are found, with their tests."""
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(content(path))
    assert states(path) == {
        **dict.fromkeys(valid, "valid"),
        FLAKY: "flaky",
        INVALID: "invalid",
    }
    every = content(path)["instances"]
    assert all(len(one["gold"]) == len(one["empty"]) == 3 for one in every.values())
    assert all(one["versions"]["swebench"] for one in every.values())
    lucky = every[FLAKY]["flaky_tests"]
    assert len(lucky) > 1 and all(
        n.startswith("tests/test_luck.py::test_luck[") for n in lucky
    )
    assert not any(one["flaky_tests"] for name, one in every.items() if name != FLAKY)
    assert every[INVALID]["reason"] == f"the gold patch does not resolve it: {NOWHERE}"


def test_the_schema_in_the_docs_is_the_codes_own() -> None:
    """Written by ``python -m reports.gold``."""
    argv = [sys.executable, "-m", "reports.gold"]
    printed = subprocess.run(argv, cwd=TOP, capture_output=True, check=True).stdout
    assert json.loads(SCHEMA.read_text()) == json.loads(printed)


@pytest.mark.parametrize(
    "valid", [[BANK], pytest.param([*rows()], marks=pytest.mark.long)]
)
def test_locally_with_a_kill_exactly_the_planted_ones_are_found(
    tmp_path: Path,
    share_venvs: ShareVenvs,
    preloaded: Preloaded,
    valid: list[str],
) -> None:
    # Its own: other tests expect that nothing was killed in the middle of an evaluation.
    cache = tmp_path / "cache"
    share_venvs(cache / "environments")
    mirrors = build_mirrors(cache / "demo-mirrors")
    words = [
        "gold",
        str(planted(tmp_path)),
        "validity.json",
        "--evaluator",
        "local",
        "--set",
        f"folders.cache={cache}",
        "--set",
        f"folders.repos={mirrors}",
        "--repeat",
        "3",
        "--instances",
        ",".join([*valid, FLAKY, INVALID]),
    ]
    reading, output = os.pipe()
    process = preloaded.start(*words, script="report.py", cwd=tmp_path, output=output)
    os.close(output)
    with os.fdopen(reading) as lines:
        assert any(line.startswith(f"[4/{6 * len(valid) + 12}] ") for line in lines)
        process.kill()
    process.wait()
    path = tmp_path / "validity.json"
    first = next(name for name in content(path)["instances"])
    before = content(path)["instances"][first]
    assert [*states(path).values()] == ["not_evaluated"] * (len(valid) + 2)

    done = preloaded.run(*words, script="report.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    check_planted(path, valid)
    after = content(path)["instances"][first]
    assert before["gold"]
    for kind in ("gold", "empty"):
        assert after[kind][: len(before[kind])] == before[kind]
    for line in (
        f"valid              {len(valid)}",
        "flaky              1",
        "invalid            1",
    ):
        assert line in done.stdout
    assert f"  {INVALID}: the gold patch does not resolve it: {NOWHERE}" in done.stdout
    assert (
        "tests/test_luck.py"
        in (tmp_path / f"logs/validity/{FLAKY}/gold.1.eval.log").read_text()
    )

    # Everything is known: a third start evaluates nothing.
    again = preloaded.run(*words, script="report.py", cwd=tmp_path)
    assert "0 evaluations to do" in again.stdout and "[1/" not in again.stdout


@pytest.mark.long
@pytest.mark.docker
def test_in_docker_exactly_the_planted_ones_are_found(
    tmp_path: Path, cache: Path
) -> None:
    build_images([*rows()])
    path = tmp_path / "v.json"
    dataset = str(planted(tmp_path))
    settings = gold_settings(cache, evaluator=EvaluatorKind.DOCKER, dataset=dataset)
    said: list[str] = []
    assert gold_command(settings, path, 3, said.append) == 0, "\n".join(said)
    check_planted(path, [*rows()])
    image = content(path)["instances"][FLAKY]["image"]
    assert image.startswith("swe-retry-harness/demo__textkit-1:demo@sha256:")


def gold_settings(
    cache: Path,
    *ids: str,
    **evaluation: Any,
) -> GoldSettings:
    return GoldSettings(
        evaluation=EvaluationSettings(timeout=120, **evaluation),
        folders=FolderSettings(cache=cache),
        instances=Instances(ids=ids),
    )


@pytest.fixture
def gold(tmp_path: Path, cache: Path) -> Gold:
    """Runs the command on one instance of the demo, with another file for each test."""

    def run(
        *ids: str,
        say: Callable[[str], None] = print,
        repeat: int = 1,
        path: Path = tmp_path / "v.json",
        **changes: Any,
    ) -> int:
        values: dict[str, Any] = {"evaluator": EvaluatorKind.LOCAL, "dataset": "demo"}
        settings = gold_settings(cache, *(ids or (BANK,)), **{**values, **changes})
        return gold_command(settings, path, repeat, say)

    return run


def test_what_an_engine_could_not_evaluate_is_evaluated_later(
    gold: Gold,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    said: list[str] = []
    assert gold(evaluator=EvaluatorKind.DOCKER, say=said.append) == 1
    assert (
        f"  {BANK}: no Docker engine answers: start one, or use --evaluator local"
        in said
    )
    assert states(tmp_path / "v.json") == {BANK: "not_evaluated"}
    other = tmp_path / "w.json"
    assert gold(path=other) == 0
    assert states(other) == {BANK: "valid"}
    # A further instance, and a further trial of each patch, in a file of version 0.12.
    before = content(other)
    before["instances"][BANK]["seconds"] = 1.5
    for kind in ("gold", "empty"):
        before["instances"][BANK][kind][0]["seconds"] = 1.5
    other.write_text(json.dumps(before))
    assert gold(BANK, TEXTKIT, repeat=2, path=other, say=said.append) == 0
    assert "2 instances, 6 evaluations to do (local)" in said
    assert states(other) == {BANK: "valid", TEXTKIT: "valid"}
    assert len(content(other)["instances"][BANK]["gold"]) == 2


def test_a_row_without_a_gold_patch_is_not_evaluated(
    gold: Gold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [{**rows()[BANK], "patch": ""}, rows()[TEXTKIT]]
    (tmp_path / "rows.json").write_text(json.dumps(data))
    assert gold(BANK, dataset=str(tmp_path / "rows.json")) == 1
    assert states(tmp_path / "v.json") == {BANK: "not_evaluated"}
    # It keeps no other instance from its evaluation.
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    other = tmp_path / "w.json"
    changes = {"evaluator": "docker", "dataset": str(tmp_path / "rows.json")}
    assert gold(BANK, TEXTKIT, path=other, **changes) == 1
    reasons = {n: one["reason"] for n, one in content(other)["instances"].items()}
    assert reasons[BANK] == "the row has no gold patch"
    assert reasons[TEXTKIT].startswith("no Docker engine answers")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"dataset": {"name": "x", "split": "test", "sha256": "", "revision": ""}},
            "is about x",
        ),
        (
            {
                "dataset": {
                    "name": "demo",
                    "split": "test",
                    "sha256": "5",
                    "revision": "",
                }
            },
            "is about other rows of demo",
        ),
        ({"evaluator": "docker"}, "was made with --evaluator docker"),
        ({"schema_version": 2}, "is not a validity file"),
        ({"repeat": "often"}, "is not a validity file: 'repeat'"),
        (
            {"instances": {BANK: {"state": "good"}}},
            f"instances.{BANK}.state': Input should be",
        ),
        ({"instances": {"../x": {"state": "valid"}}}, "'../x' cannot be an id"),
        (
            {"instances": {BANK: {"state": "valid", "gold": [5]}}},
            f"instances.{BANK}.gold[0]",
        ),
    ],
)
def test_another_or_a_damaged_file_is_refused(
    gold: Gold,
    tmp_path: Path,
    change: dict[str, Any],
    words: str,
) -> None:
    path = tmp_path / "v.json"
    reached = []
    assert gold(dataset=str(_without_gold(tmp_path))) == 1
    known = content(path)
    known["dataset"] |= {"name": "demo", "sha256": _demo_sha256()}
    path.write_text(json.dumps({**known, **change}))
    with pytest.raises(UserError) as error:
        gold(say=reached.append)
    assert words in str(error.value) and str(path) in str(error.value)
    assert "\n" not in str(error.value) and not reached


def _without_gold(folder: Path) -> Path:
    path = folder / "rows.json"
    path.write_text(json.dumps([{**rows()[BANK], "patch": ""}]))
    return path


def _demo_sha256() -> str:
    return load_dataset("demo", "test").identity().sha256


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--evaluator", "none"], "give another --evaluator than none"),
        (["predictions/r"], "unexpected extra argument(s) (predictions/r)"),
        (["--repeat", "0"], "'--repeat'"),
        (["--instances", "x"], "not in the dataset: x"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    preloaded: Preloaded,
    words: list[str],
    said: str,
) -> None:
    gold = ("gold", "demo", "validity.json")
    done = preloaded.run(*gold, *words, script="report.py", cwd=tmp_path)
    (line,) = done.stdout.strip().splitlines()
    assert done.returncode == 2 and line.startswith("error: ") and said in line
