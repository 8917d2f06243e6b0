"""``report.py select --matrix``: choosing from results of scripts that others made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.worlds import WORLDS, make_instances
from swe_retry.core.errors import UserError
from swe_retry.study.matrix import choices, matrix_command, read_matrix

INSTANCE: dict[str, Any] = {
    "instance_id": "a__b-1",
    "candidates": [
        {
            "id": 1,
            "model": "m",
            "equals": "x",
            "failing_tests": 0,
            "patch_size": 9,
        },
        {
            "id": 2,
            "model": "n",
            "equals": "y",
            "failing_tests": None,
            "patch_size": 2,
        },
        {
            "id": 3,
            "model": "m",
            "equals": "y",
            "failing_tests": 0,
            "patch_size": 5,
        },
        {"id": 4, "model": "m"},
    ],
    "scripts": [
        {
            "id": "s1",
            "author": None,
            "passed_by": [2, 3],
        },
        {"id": "s2", "author": 1, "passed_by": [1]},
    ],
}


def matrix_file(folder: Path, *instances: object) -> Path:
    path = folder / "matrix.jsonl"
    lines = [json.dumps(instance) + "\n" for instance in instances]
    path.write_text("".join(lines))
    return path


def test_a_line_has_the_choice_and_the_weights_of_all(tmp_path: Path) -> None:
    lines: list[str] = []
    path = matrix_file(tmp_path, INSTANCE)
    code = matrix_command(path, 0.4, lines.append)
    assert code == 0
    (line,) = map(json.loads, lines)
    assert line["instance_id"] == "a__b-1"
    assert line["chosen"] == 3
    weights = line["weights"]
    assert list(weights) == ["1", "2", "3", "4"]
    highest = max(weights.values())
    assert weights["2"] == highest
    assert weights["3"] == highest
    assert line["weight"] == highest
    assert line["none"] + line["weight"] <= 1


def test_more_attempts_are_right_where_more_is_expected(tmp_path: Path) -> None:
    instances = read_matrix(matrix_file(tmp_path, INSTANCE))
    (few,) = choices(instances, 0.1)
    (many,) = choices(instances, 0.9)
    assert few["none"] > many["none"]
    assert few["weight"] < many["weight"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"candidates": []}, "'candidates'"),
    (
        {
            "candidates": [
                {"id": 1},
                {"id": 1},
            ]
        },
        "the same id",
    ),
    ({"scripts": [{"passed_by": [9]}]}, "'9', which is not a candidate"),
    (
        {
            "candidates": [{"id": 1, "failing_tests": -1}],
            "scripts": [],
        },
        "failing_tests",
    ),
]


def test_what_is_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    for change, problem in WRONG:
        path = matrix_file(tmp_path, INSTANCE, INSTANCE | change)
        with pytest.raises(UserError, match="line 2") as refused:
            read_matrix(path)
        assert problem in str(refused.value)
    with pytest.raises(UserError, match="no instance"):
        read_matrix(matrix_file(tmp_path))


@pytest.mark.parametrize(
    ("name", "margin"),
    [
        ("typical", 3.0),
        ("random", -4.0),
        ("inverted", -5.0),
    ],
)
def test_the_belief_never_harms_and_learns_what_scripts_are_worth(
    name: str, margin: float
) -> None:
    """On generated worlds it is right as often as the better simple rule, or more often."""
    labelled = make_instances(WORLDS[name], 400, name)
    chosen = choices([each.instance for each in labelled], 0.4)
    right_by_belief = 0
    right_by_order = 0
    for each, choice in zip(labelled, chosen, strict=True):
        candidates = each.candidates
        plausible = [part for part in candidates if not part.failing_tests]
        first = (plausible or candidates)[0]
        right_by_belief += choice["chosen"] in each.right
        right_by_order += first.id in each.right
    difference = (right_by_belief - right_by_order) / len(labelled)
    assert 100 * difference > margin
