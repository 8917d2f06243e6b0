"""``--only-valid`` leaves out instances by one state each, and says so in ``run.json``."""

from __future__ import annotations

from pathlib import Path

from swe_retry.instances.validity import (
    Validity,
    left_out_instances,
    read_validity,
)
from tests.cli.test_options import ID, Run, refusal, replayed
from tests.cli.test_options import here as here  # a fixture
from tests.support import read_json, write_json

STATES = {
    "demo__bank-1": "flaky",
    "demo__bank-2": "invalid",
    ID: "valid",
}
NOT_EVALUATED = ["demo__textkit-2", "demo__units-1", "demo__units-2"]
ALL = [*STATES, *NOT_EVALUATED]


def validity_file(folder: Path) -> Path:
    """Write a file of validity with the ``STATES``."""
    instances = {name: {"state": state} for name, state in STATES.items()}
    content = {"schema_version": 1, "instances": instances}
    return write_json(folder / "v.json", content)


def test_what_is_not_valid_is_left_out_and_recorded(tmp_path: Path, here: Run) -> None:
    path = validity_file(tmp_path)
    run = tmp_path / "predictions/r/run.json"
    argv = replayed(tmp_path, "--run r --set instances.only_valid=v.json")
    done = here(*argv)
    assert done.returncode == 0, done.stderr
    states = "1 flaky, 1 invalid, 3 not evaluated"
    message = f"left out: 5 instances that {path} does not call valid: {states}"
    assert message in done.stdout
    recorded = read_json(run)
    assert recorded["selected"] == [ID]
    assert recorded["only_valid"]["file"] == "v.json"
    left_out = recorded["only_valid"]["left_out"]
    assert set(left_out) == {"demo__bank-1", "demo__bank-2", *NOT_EVALUATED}
    assert left_out["demo__bank-1"] == "flaky"
    assert left_out["demo__units-1"] == "not_evaluated"
    assert recorded["settings"]["instances"]["only_valid"] == str(path)
    # The file may know more later; what is selected then is not left out any more.
    later_text = path.read_text().replace("flaky", "valid")
    path.write_text(later_text)
    again = here("--continue", "r", "--out", str(tmp_path))
    assert "2 instances selected, 1 done before" in again.stdout, again.stderr
    recorded = read_json(run)
    assert recorded["selected"] == ["demo__bank-1", ID]
    left_out = recorded["only_valid"]["left_out"]
    assert set(left_out) == {"demo__bank-2", *NOT_EVALUATED}


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
        argv = replayed(tmp_path, options)
        line = refusal(here(*argv))
        assert line.startswith("error: ")
        assert message in line
        assert "v.json" in line
        assert not (tmp_path / "predictions").exists()


def test_nothing_but_states_is_kept_of_a_file(tmp_path: Path) -> None:
    """The file names hidden tests; ``tests/test_leaks.py`` searches a whole run for them."""
    path = validity_file(tmp_path)
    content = read_json(path)
    secret = {
        "reason": "ZQ",
        "flaky_tests": ["ZQ"],
        "gold": [{"failed": ["ZQ"]}],
        "image": "ZQ",
    }
    for instance in content["instances"].values():
        instance |= secret
    content |= {"dataset": {"name": "ZQ"}, "ZQ": "ZQ"}
    write_json(path, content)
    states = read_validity(path)
    assert states == {name: Validity(state) for name, state in STATES.items()}
    lines: list[str] = []
    left_out = left_out_instances(path, ALL, lines.append)
    assert "ZQ" not in repr((states, left_out, lines))
