"""Reports with a validity file state a second score, of the valid instances alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from swe_retry.core.errors import UserError
from tests.support import TOP, read_json, text_between, write_json
from tests.support.evaluated import change_json
from tests.support.pages import make_pages
from tests.support.reported import differs, report_run, verify_run
from tests.support.reporting import (
    counts,
    report,
    share,
    statistics,
    write_values,
)
from tests.support.rundata import an_instance, old_prediction, write_run

SCHEMA = TOP / "docs/stats.schema.json"
IDS = [f"a__a-{number}" for number in range(1, 6)]
STATES = ["valid", "valid", "flaky", "invalid"]  # nothing is known of the fifth


def validity_file(folder: Path, **changes: Any) -> Path:
    instances = {}
    for name, state in zip(IDS, STATES, strict=False):
        instances[name] = {"state": state}
    content = {"schema_version": 1, "instances": instances, **changes}
    return write_json(folder / "v.json", content)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of five instances; of the two valid ones the first is resolved."""
    instances = []
    for name in IDS:
        instance = an_instance(name, resolved=name in IDS[::2])
        instances.append(instance)
    return write_values(tmp_path / "r", *instances)


def test_both_scores_have_their_denominator_and_interval(
    tmp_path: Path, run: Path
) -> None:
    path = validity_file(tmp_path)
    lines = report(run, validity=path)
    console = [" ".join(line.split()) for line in lines]
    assert "resolved 3 60.0 % of the selected" in console
    assert "of them valid 1 50.0 % of the 2 valid by v.json" in console
    assert "95 % interval 9.5 % to 90.5 %" in console
    lines = report(run, validity=path, format="markdown")
    score = "1 of 2, 50.0 % (95 % Wilson interval 9.5 % to 90.5 %)"
    assert f"- Resolved of the valid instances, by v.json: {score}" in lines
    assert any("3 of 5, 60.0 %" in line for line in lines)
    states = "1 flaky, 1 invalid, 1 not evaluated"
    assert f"- Not valid by v.json: {states} (a__a-3, a__a-4, a__a-5)" in lines
    scores = read_json(run / "stats.json")["scores"]
    assert counts(scores["selected"]) == share(3, 5)
    assert counts(scores["valid"]) == share(1, 2)


def test_the_page_has_both_scores_and_names_the_others(
    tmp_path: Path, run: Path
) -> None:
    path = validity_file(tmp_path)
    page = make_pages(run, validity=path).read_text()
    card = '<strong>50.0 %</strong><span class="soft">1 of 2 valid; 95 %: 9.5 % to 90.5 %</span>'
    card = card.replace(" %", "\u00a0%")
    states = "1 flaky, 1 invalid, 1 not evaluated"
    for part in (
        "<li>Resolved<strong>60.0\u00a0%</strong>",
        f"<li>Of the valid{card}</li>",
        f'<p class="note">Not valid by v.json: {states}, listed below.</p>',
    ):
        assert part in page
    heading = "<h3>Instances that were not found to be valid</h3>"
    table = text_between(page, heading, "</table>")
    cells = re.findall("<td[^>]*>(.*?)</td>", table)
    assert " ".join(cells) == "a__a-3 flaky a__a-4 invalid a__a-5 not evaluated"


@pytest.mark.parametrize(
    "left_out",
    [{"b__b-1": "flaky"}, {}, None, 5],
)
def test_the_page_of_a_run_says_what_the_run_left_out(
    tmp_path: Path, left_out: object
) -> None:
    described = {"only_valid": {"file": "v.json", "left_out": left_out}}
    instance = an_instance(resolved=None)
    run = write_values(tmp_path / "r", instance, described=described)
    page = make_pages(run)
    pattern = r"Left out of the run by \S+: 1 instance. The score is one of the others."
    is_stated = bool(re.search(pattern, page.read_text()))
    assert is_stated is (left_out == {"b__b-1": "flaky"})


def test_a_score_that_is_unknown_is_not_zero(tmp_path: Path) -> None:
    instances = [an_instance(name, resolved=None) for name in IDS]
    instances[2] = an_instance(IDS[2])
    run = write_values(tmp_path / "r", *instances)
    stats = statistics(run, validity=validity_file(tmp_path))
    assert counts(stats["scores"]["valid"]) == (0, 2, None)


def test_without_a_file_there_is_one_score(run: Path) -> None:
    for format in ("text", "markdown"):
        lines = report(run, format=format)
        assert "valid" not in "\n".join(lines)
    stats = statistics(run)
    assert "validity" not in stats
    assert "valid" not in stats["scores"]


def test_the_files_of_a_report_have_it_and_are_verified(
    tmp_path: Path, cache: Path
) -> None:
    files = []
    for name in IDS:
        prediction = old_prediction(name, 1, resolved=name in IDS[:3])
        files.append(prediction)
    run = write_run(tmp_path / "r", files)
    path = validity_file(tmp_path)
    report_run(run, cache, validity=path)
    stats = read_json(run / "stats.json")
    Draft202012Validator(read_json(SCHEMA)).validate(stats)
    assert stats["scores"]["selected"]["count"] == 3
    assert stats["scores"]["valid"]["of"] == 2
    states = {"a__a-3": "flaky", "a__a-4": "invalid", "a__a-5": "not_evaluated"}
    assert stats["validity"] == {"file": "v.json", "not_valid": states}
    # stats.json holds what it needs of that file.
    path.unlink()
    assert not differs(run)
    flaky = {"a__a-2": "flaky"}
    change_json(
        run / "stats.json",
        lambda data: data["validity"]["not_valid"].update(flaky),
    )
    printed = verify_run(run)
    assert printed.code == 1
    assert printed.containing("stats.json", "scores.valid")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"instances": []}, "is not a validity file"),
        ({"schema_version": 7}, "is not a validity file"),
        (
            {"instances": {IDS[0]: {"state": ["valid"]}}},
            f"'instances.{IDS[0]}.state': Input should be 'valid', 'invalid', 'flaky' or",
        ),
        (
            {"instances": {IDS[0]: 5}},
            f"'instances.{IDS[0]}': Input should be a valid dictionary; ",
        ),
        (
            {"instances": {"b__b-1": {"state": "valid"}}},
            f"about other instances, not {IDS[0]}",
        ),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    prediction = old_prediction(IDS[0], 1, resolved=True)
    run = write_run(tmp_path / "r", [prediction])
    path = validity_file(tmp_path, **changes)
    with pytest.raises(UserError) as error:
        report(run, validity=path)
    message = str(error.value)
    assert problem in message
    assert str(path) in message
    assert not (run / "stats.json").exists()
