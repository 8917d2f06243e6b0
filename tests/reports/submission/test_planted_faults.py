"""The validator finds a planted fault of every kind."""

from __future__ import annotations

import pytest

from reports.submission.package import Kind
from tests.reports.submission.artifact_faults import ARTIFACT_FAULTS
from tests.reports.submission.entry_faults import ENTRY_FAULTS
from tests.reports.submission.file_faults import FILE_FAULTS
from tests.reports.submission.packages import Package

FAULTS = {**FILE_FAULTS, **ENTRY_FAULTS, **ARTIFACT_FAULTS}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, package: Package) -> None:
    plant, kind, words = FAULTS[name]
    plant(package)
    mirrors = kind in (Kind.PATCH, Kind.TRACE)  # nothing else asks them
    lines = [f.line() for f in package.findings(mirrors) if f.kind is kind]
    assert any(words in line for line in lines), lines
    assert all("\n" not in line and "; " in line and len(line) < 1500 for line in lines)


def test_every_kind_of_fault_is_planted() -> None:
    assert {kind for _, kind, _ in FAULTS.values()} == set(Kind)
