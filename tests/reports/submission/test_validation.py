"""A package of this harness validates clean; the validator reads other layouts and harnesses."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from core.errors import UserError
from core.redaction import Redactor
from reports.submission.commands import SubmissionOptions, validate_command
from reports.submission.package import Kind
from tests.support.evaluated import ID, IDS, KEY, ROW, Package, append


@pytest.mark.parametrize("mirrors", [True, False])
def test_a_package_of_ours_is_clean(clean: Package, mirrors: bool) -> None:
    assert clean.findings(mirrors) == []


def test_the_layout_of_one_folder_is_read_as_well(package: Package, tmp_path: Path) -> None:
    place = tmp_path / "evaluation/lite/20260131_retry_scripted"
    shutil.copytree(package.entry, place)
    shutil.copytree(package.artifacts, place, dirs_exist_ok=True)
    assert Package(tmp_path / "evaluation", package.mirrors).findings() == []
    assert Package(place, package.mirrors).findings() == []


def test_another_harness_s_trajectories_are_read(package: Package) -> None:
    for name in IDS:
        (package.artifacts / f"trajs/{name}.md").unlink()
        (package.artifacts / f"trajs/{name}.json").unlink()
        text = "Attempt 1 failed; of both candidates the second was chosen.\n"
        (package.artifacts / f"trajs/{name}.traj").write_text(text)
    assert package.findings() == []
    append(package.artifacts / f"trajs/{ID}.traj", ROW["test_patch"])
    assert [f.kind for f in package.findings()] == [Kind.TRACE]


def test_the_value_of_a_secret_of_the_environment_is_found(package: Package) -> None:
    package.say("Use correct-horse-battery to log in.")
    redact = Redactor({"MY_API_KEY": "correct-horse-battery"})
    lines = [finding.line() for finding in package.findings(redact=redact)]
    assert len(lines) == 1 and "the value of MY_API_KEY" in lines[0]
    assert "correct-horse" not in lines[0]


def test_names_of_files_cannot_break_the_lines(package: Package) -> None:
    (package.artifacts / "trajs/a\nresolved\x1b[2J.md").write_text("x")
    (package.root / os.fsdecode(b"logs-\xff.md")).write_bytes(KEY.encode())
    lines = [finding.line() for finding in package.findings()]
    assert len(lines) == 2
    assert all(line.isprintable() and line.encode() for line in lines)


def test_the_command_says_each_fault_and_ends_with_1(package: Package, cache: Path) -> None:
    said: list[str] = []
    options = SubmissionOptions("", dataset="demo", cache=cache)
    assert validate_command(package.root, options, said.append) == 0
    assert said == ["validated      0 faults, against demo"]
    package.say(ROW["test_patch"])
    assert validate_command(package.root, options, said.append) == 1
    assert said[1].startswith(f"trace: artifacts/trajs/{ID}.json: shows the hidden tests")


def test_a_folder_that_is_not_a_package_is_refused(tmp_path: Path) -> None:
    for place, said in (
        (tmp_path, "the split of .* is unknown"),
        (tmp_path / "x", "is not a folder"),
    ):
        with pytest.raises(UserError, match=said):
            validate_command(place, SubmissionOptions(""), print)
