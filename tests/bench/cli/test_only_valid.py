"""``--only-valid`` leaves out instances by one state each, and says so in ``run.json``."""

from __future__ import annotations

import json
from pathlib import Path

from bench.instances.validity import Validity, left_out_instances, read_validity
from tests.bench.cli.test_options import ID, Run, refusal, replayed
from tests.bench.cli.test_options import here as here  # a fixture
from tests.support import read_json

STATES = {ID: "valid", "demo__bank-1": "flaky", "demo__bank-2": "invalid"}
ALL = sorted([*STATES, "demo__textkit-2", "demo__units-1", "demo__units-2"])


def validity_file(folder: Path) -> Path:
    instances = {name: {"state": state} for name, state in STATES.items()}
    path = folder / "v.json"
    path.write_text(json.dumps({"schema_version": 1, "instances": instances}))
    return path


def test_what_is_not_valid_is_left_out_and_recorded(tmp_path: Path, here: Run) -> None:
    path = validity_file(tmp_path)
    options = "--run r --set instances.only_valid="
    done = here(*replayed(tmp_path, f"{options}v.json"))
    assert done.returncode == 0, done.stderr
    states = "1 flaky, 1 invalid, 3 not evaluated"
    message = f"left out: 5 instances that v.json does not call valid: {states}"
    assert message in done.stdout
    recorded = read_json(tmp_path / "predictions/r/run.json")
    assert recorded["selected"] == [ID]
    left_out = recorded["only_valid"]["left_out"]
    assert recorded["only_valid"]["file"] == "v.json"
    assert {*left_out} == {*ALL} - {ID} and left_out["demo__bank-1"] == "flaky"
    assert left_out["demo__units-1"] == "not_evaluated"
    assert recorded["settings"]["instances"]["only_valid"] == str(path)
    # The file may know more later; what is selected then is not left out any more.
    path.write_text(path.read_text().replace("flaky", "valid"))
    again = here("--continue", "r", "--out", str(tmp_path))
    assert "2 instances selected, 1 done before" in again.stdout, again.stderr
    recorded = read_json(tmp_path / "predictions/r/run.json")
    assert recorded["selected"] == ["demo__bank-1", ID]
    assert {*recorded["only_valid"]["left_out"]} == {*ALL} - {ID, "demo__bank-1"}


DAMAGED_FILES = {
    None: "there is no validity file",
    "{": "is broken (line 1",
    '{"schema_version": 1}': "is not a validity file",
    '{"schema_version": 1, "instances": {"demo__bank-1": {}}}': (
        "'instances.demo__bank-1.state': Field required"
    ),
    '{"schema_version": 1, "instances": {"a__b-1": {"state": "valid"}}}': (
        "is about other instances, not demo__"
    ),
    '{"schema_version": 1, "instances": {"demo__bank-1": {"state": "flaky"}}}': (
        "calls none of the selected instances valid"
    ),
}


def test_a_damaged_or_foreign_file_is_one_line(tmp_path: Path, here: Run) -> None:
    path = tmp_path / "v.json"
    for content, message in DAMAGED_FILES.items():
        if content is not None:
            path.write_text(content)
        options = f"--run r --set instances.only_valid={path}"
        line = refusal(here(*replayed(tmp_path, options)))
        assert line.startswith("error: ")
        assert message in line
        assert "v.json" in line
        assert not (tmp_path / "predictions").exists()


def test_nothing_but_states_is_kept_of_a_file(tmp_path: Path) -> None:
    """The file names hidden tests; ``tests/test_leaks.py`` searches a whole run for them."""
    path = validity_file(tmp_path)
    data = json.loads(path.read_text())
    secret = {
        "reason": "ZQ",
        "flaky_tests": ["ZQ"],
        "gold": [{"failed": ["ZQ"]}],
        "image": "ZQ",
    }
    for entry in data["instances"].values():
        entry |= secret
    path.write_text(json.dumps({**data, "dataset": {"name": "ZQ"}, "ZQ": "ZQ"}))
    states = read_validity(path)
    assert states == {name: Validity(state) for name, state in STATES.items()}
    lines: list[str] = []
    left_out = left_out_instances(path, ALL, lines.append)
    assert "ZQ" not in repr((states, left_out, lines))
