"""``report.py gold`` finds what cannot be judged, goes on after a kill, refuses other files."""

from __future__ import annotations

import json
import os
import runpy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from swe_retry.core.errors import UserError
from swe_retry.demo.images import build_images
from swe_retry.demo.setup import build_mirrors
from swe_retry.instances.dataset import load_dataset
from swe_retry.instances.selection import Instances
from swe_retry.report.evaluation.evaluation_settings import (
    EvaluationSettings,
    EvaluatorKind,
    GoldSettings,
)
from swe_retry.runner.settings import FolderSettings
from swe_retry.study.gold import gold_command
from tests.fixtures import ShareVenvs
from tests.support import TOP, read_json, write_json
from tests.support.commands import Preloaded
from tests.support.evaluated import BANK, TEXTKIT, UNITS, change_json, rows
from tests.support.reported import Printed

FLAKY = "planted__flaky-1"
INVALID = "planted__invalid-1"
NOWHERE = "tests/test_parse.py::test_that_is_nowhere"
_LUCK = "tests/test_luck.py"
# In each run another one of so many tests fails. Three runs agree once in 60,000.
_TESTS = 250
_SOURCE = f"""\
import random

import pytest

UNLUCKY = random.SystemRandom().randrange({_TESTS})


@pytest.mark.parametrize("number", range({_TESTS}))
def test_luck(number):
    assert number != UNLUCKY
"""
SCHEMA = TOP / "docs/validity.schema.json"
DOCKER = EvaluatorKind.DOCKER
Gold = Callable[..., Printed]


def write_rows(folder: Path, *instances: Mapping[str, Any]) -> str:
    """Write a dataset into ``folder`` and return its path."""
    return str(write_json(folder / "rows.json", instances))


def write_planted(folder: Path) -> str:
    """Write the demo with a flaky and an invalid instance; return the path."""
    demo = rows()
    flaky = _make_flaky(demo[TEXTKIT])
    invalid = _make_invalid(demo[UNITS])
    return write_rows(folder, *demo.values(), flaky, invalid)


def _make_invalid(row: Mapping[str, Any]) -> dict[str, Any]:
    tests = [*_names(row, "FAIL_TO_PASS"), NOWHERE]
    return {
        **row,
        "instance_id": INVALID,
        "FAIL_TO_PASS": json.dumps(tests),
    }


def _make_flaky(row: Mapping[str, Any]) -> dict[str, Any]:
    added = "".join(f"+{line}\n" for line in _SOURCE.splitlines())
    patch = (
        f"{row['test_patch']}diff --git a/{_LUCK} b/{_LUCK}\nnew file mode 100644\n"
        f"--- /dev/null\n+++ b/{_LUCK}\n@@ -0,0 +1,{_SOURCE.count(chr(10))} @@\n{added}"
    )
    tests = _names(row, "PASS_TO_PASS")
    tests += [f"{_LUCK}::test_luck[{number}]" for number in range(_TESTS)]
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
    if isinstance(value, str):
        value = json.loads(value)
    return list(value)


def instances_of(path: Path) -> dict[str, dict[str, Any]]:
    return dict(read_json(path)["instances"])


def states(path: Path) -> dict[str, str]:
    return {name: each["state"] for name, each in instances_of(path).items()}


def check_planted(path: Path, valid: Sequence[str]) -> None:
    """Check that exactly the two planted instances are found, with their tests."""
    Draft202012Validator(read_json(SCHEMA)).validate(read_json(path))
    planted = {FLAKY: "flaky", INVALID: "invalid"}
    others = dict.fromkeys(valid, "valid")
    assert states(path) == {**others, **planted}
    instances = instances_of(path)
    lucky = instances[FLAKY]["flaky_tests"]
    assert len(lucky) > 1
    for test in lucky:
        assert test.startswith("tests/test_luck.py::test_luck[")
    for name, instance in instances.items():
        assert len(instance["gold"]) == 3
        assert len(instance["empty"]) == 3
        assert instance["versions"]["swebench"]
        assert name == FLAKY or not instance["flaky_tests"]
    reason = f"the gold patch does not resolve it: {NOWHERE}"
    assert instances[INVALID]["reason"] == reason


def test_the_schema_in_the_docs_is_the_codes_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Written by ``python -m swe_retry.study.gold``."""
    runpy.run_path(str(TOP / "swe_retry/study/gold.py"), run_name="__main__")
    schema = json.loads(capsys.readouterr().out)
    assert read_json(SCHEMA) == schema


@pytest.mark.parametrize(
    "valid",
    [
        [BANK],
        pytest.param([*rows()], marks=pytest.mark.long),
    ],
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
    ids = ",".join([*valid, FLAKY, INVALID])
    arguments = ["gold", write_planted(tmp_path), "validity.json"]
    arguments += ["--evaluator", "local", "--repeat", "3", "--instances", ids]
    for setting in (f"folders.cache={cache}", f"folders.repos={mirrors}"):
        arguments += ["--set", setting]
    readable, writable = os.pipe()
    process = preloaded.start(
        *arguments,
        script="report.py",
        cwd=tmp_path,
        output=writable,
    )
    os.close(writable)
    evaluations = 6 * len(valid) + 12
    with os.fdopen(readable) as lines:
        assert any(line.startswith(f"[4/{evaluations}] ") for line in lines)
        process.kill()
    process.wait()
    path = tmp_path / "validity.json"
    before = instances_of(path)
    first = next(iter(before))
    assert len(before) == len(valid) + 2
    assert set(states(path).values()) == {"not_evaluated"}

    done = preloaded.run(*arguments, script="report.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    check_planted(path, valid)
    after = instances_of(path)
    assert before[first]["gold"]
    for kind in ("gold", "empty"):
        trials = before[first][kind]
        assert after[first][kind][: len(trials)] == trials
    for line in (
        f"valid              {len(valid)}",
        "flaky              1",
        "invalid            1",
        f"  {INVALID}: the gold patch does not resolve it: {NOWHERE}",
    ):
        assert line in done.stdout
    log = tmp_path / f"logs/validity/{FLAKY}/gold.1.eval.log"
    assert "tests/test_luck.py" in log.read_text()

    # Everything is known: a third start evaluates nothing.
    again = preloaded.run(*arguments, script="report.py", cwd=tmp_path)
    assert "0 evaluations to do" in again.stdout
    assert "[1/" not in again.stdout


@pytest.fixture
def gold(tmp_path: Path, cache: Path) -> Gold:
    """Runs the command, by default locally and once on one instance of the demo."""

    def run(
        *ids: str,
        repeat: int = 1,
        path: Path = tmp_path / "v.json",
        evaluator: EvaluatorKind = EvaluatorKind.LOCAL,
        dataset: str = "demo",
        lines: list[str] | None = None,
    ) -> Printed:
        evaluation = EvaluationSettings(
            timeout=120,
            evaluator=evaluator,
            dataset=dataset,
        )
        settings = GoldSettings(
            evaluation=evaluation,
            folders=FolderSettings(cache=cache),
            instances=Instances(ids=ids),
        )
        if lines is None:
            lines = []
        code = gold_command(settings, path, repeat, lines.append)
        return Printed(code, lines)

    return run


@pytest.mark.long
@pytest.mark.docker
def test_in_docker_exactly_the_planted_ones_are_found(
    tmp_path: Path, gold: Gold
) -> None:
    build_images([*rows()])
    path = tmp_path / "v.json"
    dataset = write_planted(tmp_path)
    printed = gold(evaluator=DOCKER, dataset=dataset, repeat=3)
    assert printed.code == 0, printed.text
    check_planted(path, [*rows()])
    image = instances_of(path)[FLAKY]["image"]
    assert image.startswith("swe-retry-harness/demo__textkit-1:demo@sha256:")


def test_what_an_engine_could_not_evaluate_is_evaluated_later(
    gold: Gold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    printed = gold(BANK, evaluator=DOCKER)
    assert printed.code == 1
    problem = "no Docker engine answers: start one, or use --evaluator local"
    assert f"  {BANK}: {problem}" in printed.lines
    assert states(tmp_path / "v.json") == {BANK: "not_evaluated"}
    path = tmp_path / "w.json"
    assert gold(BANK, path=path).code == 0
    assert states(path) == {BANK: "valid"}

    def make_older(validity: dict[str, Any]) -> None:
        instance = validity["instances"][BANK]
        gold_trial = instance["gold"][0]
        empty_trial = instance["empty"][0]
        for part in (instance, gold_trial, empty_trial):
            part["seconds"] = 1.5

    # A further instance, and a further trial of each patch, in a file of version 0.12.
    change_json(path, make_older)
    printed = gold(BANK, TEXTKIT, repeat=2, path=path)
    assert printed.code == 0
    assert "2 instances, 6 evaluations to do (local)" in printed.lines
    assert states(path) == {BANK: "valid", TEXTKIT: "valid"}
    assert len(instances_of(path)[BANK]["gold"]) == 2


def test_a_row_without_a_gold_patch_is_not_evaluated(
    gold: Gold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_patch = {**rows()[BANK], "patch": ""}
    dataset = write_rows(tmp_path, without_patch, rows()[TEXTKIT])
    assert gold(BANK, dataset=dataset).code == 1
    assert states(tmp_path / "v.json") == {BANK: "not_evaluated"}
    # It keeps no other instance from its evaluation.
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    path = tmp_path / "w.json"
    printed = gold(
        BANK,
        TEXTKIT,
        path=path,
        evaluator=DOCKER,
        dataset=dataset,
    )
    assert printed.code == 1
    instances = instances_of(path)
    assert instances[BANK]["reason"] == "the row has no gold patch"
    assert instances[TEXTKIT]["reason"].startswith("no Docker engine answers")


OTHER = {
    "name": "x",
    "split": "test",
    "sha256": "",
    "revision": "",
}
OTHER_ROWS = {**OTHER, "name": "demo", "sha256": "5"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"dataset": OTHER}, "is about x"),
        ({"dataset": OTHER_ROWS}, "is about other rows of demo"),
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
    problem: str,
) -> None:
    path = tmp_path / "v.json"
    without_patch = {**rows()[BANK], "patch": ""}
    dataset = write_rows(tmp_path, without_patch)
    assert gold(BANK, dataset=dataset).code == 1
    validity = read_json(path)
    sha256 = load_dataset("demo", "test").identity().sha256
    validity["dataset"] |= {"name": "demo", "sha256": sha256}
    write_json(path, {**validity, **change})
    lines: list[str] = []
    with pytest.raises(UserError) as error:
        gold(BANK, lines=lines)
    message = str(error.value)
    assert problem in message
    assert str(path) in message
    assert "\n" not in message
    assert not lines


@pytest.mark.parametrize(
    ("arguments", "problem"),
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
    arguments: list[str],
    problem: str,
) -> None:
    gold = ("gold", "demo", "validity.json")
    done = preloaded.run(
        *gold,
        *arguments,
        script="report.py",
        cwd=tmp_path,
    )
    (line,) = done.stdout.strip().splitlines()
    assert done.returncode == 2
    assert line.startswith("error: ")
    assert problem in line
