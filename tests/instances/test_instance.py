"""Rows, their two halves, and the harness's half of an eval_script."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.instances.dataset import load_dataset
from swe_retry.instances.instance import Instance, bare_command, bare_setup
from swe_retry.instances.selection import Instances, created_between, read_ids
from swe_retry.instances.split import split_row
from swe_retry.repositories.names import DatasetName
from tests.fixtures import an_instance

ROW = {
    "instance_id": "own__thing-1",
    "repo": "own/thing",
    "base_commit": "a" * 40,
    "problem_statement": "broken",
    "patch": "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-1\n+GOLD\n",
    "test_patch": "diff --git a/tests/hidden_test.py b/tests/hidden_test.py\n"
    "--- a/tests/hidden_test.py\n+++ b/tests/hidden_test.py\n@@ -1 +1 @@\n-1\n+HIDDEN\n",
    "FAIL_TO_PASS": ["tests/hidden_test.py::test_secret"],
    "PASS_TO_PASS": [],
    "hints_text": "HINT",
    "version": "1.0",
}
SCRIPT = """#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git config --global --add safe.directory /testbed
git status
git show
git -c core.fileMode=false diff aaaa
export LANG=en_US.UTF-8
python -m pip install -e .
git checkout aaaa tests/hidden_test.py
cp /assets tests/hidden_test.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/hidden_test.py b/tests/hidden_test.py
+HIDDEN
EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA tests/hidden_test.py
: '>>>>> End Test Output'
git checkout aaaa tests/hidden_test.py
"""


def test_the_harnesss_half_holds_nothing_of_the_other() -> None:
    instance, evaluation = split_row({**ROW, "eval_script": SCRIPT})
    text = repr(instance)
    for secret in ("GOLD", "HIDDEN", "hidden_test", "test_secret", "HINT"):
        assert secret not in text
        assert secret in repr(evaluation)
    assert instance.test_setup is not None
    assert instance.test_setup.command == "pytest -rA"
    assert instance.test_setup.setup == (
        "source /opt/miniconda3/bin/activate",
        "conda activate testbed",
        "cd /testbed",
        "git config --global --add safe.directory /testbed",
        "export LANG=en_US.UTF-8",
        "python -m pip install -e .",
    )


BARE_COMMANDS = {
    "pytest -rA": "tests/a.py tests/b.py",
    "pytest -n0 -rA -p no:cacheprovider": "x.py",
    "tox --current-env -epy39 -v --": "tests/a.py",
    "PYTHONWARNINGS='ignore::UserWarning' bin/test -C --verbose": "sympy/a/tests/test_b.py",
    "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1": "admin.tests x",
}
# What is no runner, or selects tests by an option.
UNKNOWN_COMMANDS = (
    "npx jest a.test.js",
    "pytest -rA -k 'test_one or two' t.py",
    "pytest --deselect t.py::x",
    "pytest -o 'a b'",
)


def test_commands_without_their_tests() -> None:
    for command, tests in BARE_COMMANDS.items():
        assert bare_command(f"{command} {tests}") == command
    for command in UNKNOWN_COMMANDS:
        assert bare_command(command) is None, command


def test_scripts_that_are_not_understood_give_nothing() -> None:
    assert bare_setup("make test\n", ()) is None
    of_make = SCRIPT.replace("pytest -rA", "make check")
    assert bare_setup(of_make, ()) is None
    hidden = SCRIPT.replace("pytest -rA", "pytest --deselect=tests/hidden_test.py")
    assert bare_setup(hidden, ["tests/hidden_test.py"]) is None


def test_both_encodings_of_test_lists() -> None:
    for names in (["a", "b"], '["a", "b"]'):
        _, evaluation = split_row({**ROW, "FAIL_TO_PASS": names})
        assert evaluation.fail_to_pass == ("a", "b")


def test_a_missing_field_is_named() -> None:
    for key in ("repo", "base_commit", "problem_statement"):
        row = dict(ROW)
        del row[key]
        message = f"own__thing-1: the field `{key}` is missing"
        with pytest.raises(UserError, match=message):
            split_row(row)


def test_ids_and_commits_must_be_safe() -> None:
    for change in (
        {"instance_id": "../x"},
        {"base_commit": "--upload-pack=x"},
    ):
        with pytest.raises(UserError):
            split_row({**ROW, **change})


def test_the_image_is_derived_when_the_row_has_none() -> None:
    instance, _ = split_row({**ROW, "instance_id": "Own__Thing-1"})
    assert instance.image == "swebench/sweb.eval.x86_64.own_1776_thing-1:latest"
    instance, _ = split_row({**ROW, "image": "x:y"})
    assert instance.image == "x:y"


def test_json_jsonl_parquet_and_saved_folders(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    statement = "line\u2028separator\x0cfeed"
    row = {**ROW, "problem_statement": statement}
    line = json.dumps(row, ensure_ascii=False)
    (tmp_path / "d.json").write_text(json.dumps([row]))
    (tmp_path / "d.jsonl").write_text(f"{line}\n\n")
    rows = Dataset.from_list([{**row, "PASS_TO_PASS": ["x"]}])
    rows.to_parquet(str(tmp_path / "d.parquet"))
    DatasetDict(test=rows).save_to_disk(str(tmp_path / "saved"))
    hashes = {}
    for name in ("d.json", "d.jsonl", "d.parquet", "saved"):
        dataset = load_dataset(str(tmp_path / name), "test")
        (instance,) = dataset.instances()
        assert instance.problem_statement == statement, name
        hashes[name] = dataset.identity().sha256
    assert hashes["d.json"] == hashes["d.jsonl"]


NO_ROWS = r"row 1 is not an object|not a list of rows; supported are \.json"
BAD_FILES = {
    "[": "is not JSON",
    "[]": "is empty",
    "": "is empty",
    json.dumps([ROW, ROW]): "twice",
    "[1, 2]": NO_ROWS,
    "5": NO_ROWS,
    '"text"': NO_ROWS,
}


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    for content, message in BAD_FILES.items():
        path.write_text(content)
        with pytest.raises(UserError, match=message):
            load_dataset(str(path), "test")


def test_unknown_names_and_missing_files() -> None:
    with pytest.raises(UserError, match="unknown dataset 'nonsense'"):
        load_dataset("nonsense", "test")
    with pytest.raises(UserError, match="does not exist"):
        load_dataset("nowhere.jsonl", "test")


def last_letters(instances: Iterable[Instance]) -> str:
    return "".join(instance.instance_id[-1] for instance in instances)


def test_selection(tmp_path: Path) -> None:
    instances = [an_instance(instance_id=f"a__b-{n}") for n in range(10)]

    def ids(**values: Any) -> str:
        return last_letters(Instances(**values).select(instances))

    assert ids() == "0123456789"
    assert ids(ids=("a__b-3", "a__b-1")) == "31"
    assert ids(filter="[02]$") == "02"
    assert ids(slice="2:4") == "23"
    assert ids(slice="-2:") == "89"
    shuffled = ids(shuffle=1)
    assert ids(shuffle=1) == shuffled
    assert ids(shuffle=2) != shuffled
    for values in (
        {"ids": ("nope",)},
        {"filter": "("},
        {"slice": "1"},
    ):
        with pytest.raises(UserError):
            ids(**values)
    (tmp_path / "ids").write_text("a__b-1\na__b-2, a__b-3\n")
    assert read_ids(f"@{tmp_path}/ids") == ("a__b-1", "a__b-2", "a__b-3")
    with pytest.raises(UserError, match="No such file"):
        read_ids("@/nowhere")


def test_fields_of_the_wrong_kind_are_named() -> None:
    for name, value in (
        ("spec", "{"),
        ("spec", 5),
        ("repo", "norepo"),
        ("patch", 5),
        ("eval_script", [1]),
    ):
        with pytest.raises(UserError, match="own__thing-1"):
            split_row({**ROW, "eval_script": SCRIPT, name: value})


def test_a_spec_may_be_json_text() -> None:
    spec = '{"python": "3.9", "test_cmd": ["x", "pytest"]}'
    instance, _ = split_row({**ROW, "spec": spec})
    assert instance.spec is not None
    assert instance.spec.python == "3.9"
    assert instance.spec.test_cmd == "pytest"


def test_rows_of_another_split_are_left_out(tmp_path: Path) -> None:
    first = {**ROW, "split": "dev"}
    second = {**ROW, "instance_id": "own__thing-2", "split": "test"}
    path = tmp_path / "d.json"
    path.write_text(json.dumps([first, second]))
    dataset = load_dataset(str(path), "test")
    (instance,) = dataset.instances()
    assert instance.instance_id == "own__thing-2"
    with pytest.raises(UserError, match="no rows in this split; give another"):
        load_dataset(str(path), "nonsense")


def test_django_keeps_its_runner_when_a_hidden_file_is_called_tests() -> None:
    command = "./tests/runtests.py --verbosity 2 --settings=test_sqlite"
    usual = "pytest -rA tests/hidden_test.py"
    script = SCRIPT.replace(usual, f"{command} admin_views.tests")
    setup = bare_setup(script, ["tests/admin_views/tests.py", "tests/hidden_test.py"])
    assert setup is not None
    assert setup.command == command


def test_dates_select_instances() -> None:
    dates = (
        "2024-01-31T23:00:00Z",
        "2024-02-01",
        "2024-02-29T10:00:00Z",
        "2024-03",
    )
    instances = []
    for number, date in enumerate(dates):
        instances.append(an_instance(instance_id=f"a__b-{number}", created_at=date))

    def ids(since: str = "", until: str = "") -> str:
        return last_letters(created_between(instances, since, until))

    assert ids(since="2024-02") == "123"
    assert ids(since="2024-02-01", until="2024-02") == "12"
    assert ids(until="2024-01-31") == "0"
    with pytest.raises(UserError, match="no instance was created from 2025-01-01 to …"):
        ids(since="2025-01-01")
    message = "instances.since 'May' is not a date: give YYYY-MM-DD"
    with pytest.raises(UserError, match=message):
        ids(since="May")
    instances.append(an_instance(instance_id="a__b-9"))
    message = "`created_at`, which 1 rows lack, as that of a__b-9"
    with pytest.raises(UserError, match=message):
        ids(since="2024-02")


def test_names_of_sets_with_revisions(tmp_path: Path) -> None:
    assert DatasetName.parse("lite@abc123") == DatasetName("lite", "abc123")
    assert DatasetName.parse("own/set@v1.0") == DatasetName("own/set", "v1.0")
    assert DatasetName.parse("smith").split("test") == "train"
    assert DatasetName("smith").split("x") == "x"
    path = tmp_path / "a@b.json"
    path.write_text(json.dumps([ROW]))
    assert load_dataset(str(path), "test").revision == ""
    for name, message in (
        ("rows.json@abc", "only a set on the hub has revisions"),
        ("demo@abc", "only a set on the hub has revisions"),
        ("lite@", "'' is not a revision"),
    ):
        with pytest.raises(UserError, match=message):
            load_dataset(name, "test")
    with pytest.raises(UserError, match=r"instances.config x: .* is not on the hub"):
        load_dataset(str(path), "test", "x")
