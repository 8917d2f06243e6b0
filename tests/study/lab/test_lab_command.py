"""``report.py lab``: on a real run, with policies of users, and with wrong ones."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from swe_retry.cli.report import main
from swe_retry.record.store import RunStore
from tests.support import TOP, text_between
from tests.support.evaluated import (
    change_json,
    replay_demo,
    write_other_verdicts,
    write_verdicts,
)
from tests.support.rundata import (
    a_run,
    an_attempt,
    an_instance,
    old_prediction,
    write_generated_run,
    write_run,
    write_run_data,
)

RESOLVED = {"demo__bank-1", "demo__textkit-1", "demo__units-1"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The demo by replay with all attempts, and a verdict on each patch."""
    folder = replay_demo(tmp_path_factory.mktemp("lab"), cache)
    write_verdicts(folder, RESOLVED)
    write_other_verdicts(RunStore.of_folder(folder))
    return folder


Report = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Report:
    """Run the command in this process; return its code, its output and its errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        argv = ["report.py", "lab", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", argv)
        code = main()
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def policies_of(text: str) -> dict[str, Any]:
    """Return the rows of a report as JSON, by their names."""
    rows = json.loads(text)["policies"]
    return {row["name"]: row for row in rows}


def refusal(report: Report, *arguments: object) -> str:
    """Return the one line with which the command refuses to work."""
    code, text, error = report(*arguments)
    assert code == 2
    assert text == ""
    (line,) = error.strip().splitlines()
    return line


def test_the_demo_in_words_and_as_json(demo: Path, report: Report) -> None:
    code, text, error = report(demo)
    assert code == 0
    assert error == "no picture: no dollars are known\n"
    head = "6 instances, 13 attempts of 2 models, at most 6 of an "
    assert text.startswith(f"# Lab: r\n\n{head}")
    assert "23 attempts were never made: a policy that asks for one ends." in text
    names = ("recorded", "oracle", "only-scripted-b", "plausible-5", "random", "all")
    for policy in names:
        assert f"\n| {policy} | " in text
    assert "\n| evidence | " not in text, "the run has none"
    assert "from the run's own (5 %, Holm, 7 policies): none.\n" in text
    assert report(demo)[1] == text, "byte for byte"
    code, text, _ = report(demo, "--format", "json", "--samples", "50")
    content = json.loads(text)
    assert code == 0
    assert content["samples"] == 50
    assert content["attempts"] == 13
    assert content["turns"][1] == {"model": "scripted-b", "try": 1}
    policies = policies_of(text)
    assert policies["recorded"]["resolved"]["low"] == 0.5
    assert policies["plausible"]["p_value"] == 1


def test_a_run_with_costs_has_a_picture(tmp_path: Path, report: Report) -> None:
    folder = write_generated_run(tmp_path, 6)
    code, text, error = report(folder, "--samples", 20)
    assert code == 0
    assert "36 attempts" in text
    assert "30 attempts have no verdict" in text
    assert "A range is what the recording cannot tell" in text
    assert error == f"picture        {folder / 'lab' / 'pareto.svg'}\n"
    svg = (folder / "lab/pareto.svg").read_text()
    assert "recorded" in svg
    assert "dollars in all" in svg
    assert (folder / "lab/pareto.png").read_bytes().startswith(b"\x89PNG")
    report(folder, "--samples", 20)
    assert (folder / "lab/pareto.svg").read_text() == svg


@pytest.mark.parametrize(
    "arguments",
    [[], ["--format", "json"]],
)
def test_a_secret_in_a_name_is_neither_printed_nor_drawn(
    tmp_path: Path,
    report: Report,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "correct-horse-battery")
    attempts = (an_attempt(), an_attempt(2, model="correct-horse-battery"))
    folder = write_run_data(tmp_path, a_run(an_instance(attempts=attempts)))
    code, text, _ = report(folder, *arguments)
    svg = (folder / "lab/pareto.svg").read_text()
    assert code == 0
    assert "only-[EXAMPLE_API_KEY]" in text
    assert "correct-horse" not in text + svg


def test_numbers_beyond_all_bounds(tmp_path: Path, report: Report) -> None:
    far = an_attempt(
        2,
        model="n",
        cost=Decimal("1e28"),
        seconds=1e307,
    )
    attempts = (an_attempt(), far)
    first = an_instance("own__thing-1", attempts=attempts)
    second = an_instance("own__thing-2", attempts=attempts)
    folder = write_run_data(tmp_path, a_run(first, second))
    code, text, _ = report(folder, "--format", "json", "--samples", 5)
    policies = policies_of(text)
    assert code == 0
    dollars = {"value": 2e28 + 2, "complete": True}
    assert policies["recorded"]["dollars"] == dollars
    assert policies["random"]["hours"]["value"] > 1e303
    assert report(folder, "--samples", 5)[0] == 0
    assert (folder / "lab/pareto.png").exists()


def test_an_imported_run(tmp_path: Path, report: Report) -> None:
    """Files of May 2024 hold attempts up to the first plausible one, and one verdict."""
    files = []
    for number in range(1, 5):
        name = f"own__thing-{number}"
        prediction = old_prediction(name, number, resolved=number < 3)
        files.append(prediction)
    folder = write_run(tmp_path / "old", files)
    code, text, _ = report(folder, "--policy", "plausible", "--format", "json")
    policies = policies_of(text)
    assert code == 0
    assert [*policies] == ["recorded", "oracle", "plausible"]
    plausible = policies["plausible"]
    assert plausible["resolved"] == policies["recorded"]["resolved"]
    assert plausible["unknown"] == 0
    assert plausible["dollars"] == {"value": 5.0, "complete": True}


DOCUMENT = (TOP / "docs/lab.md").read_text(encoding="utf-8")
OWN = """
from swe_retry.study.lab.policies import Chosen, Seen, ModelTurn

def plain(seen: Seen) -> ModelTurn | Chosen:
    good = [one.attempt.attempt for one in seen.tried if one.attempt.plausible]
    return Chosen(good[0]) if good else seen.left[0] if seen.left else Chosen()

def raises(seen): raise ValueError("no\\nway \\x1b[31m")
def exits(seen): raise SystemExit(3)
def nonsense(seen): return "attempt 1"
def nothing(seen): pass
def unprintable(seen):
    class Odd:
        def __repr__(self): raise KeyError
    return Odd()
def again(seen): return seen.turns[0]
def strange(seen): return ModelTurn("gpt-9", 1)
def unhashable(seen): return ModelTurn(["a"], 1)
def listed(seen): return ModelTurn("scripted-a", [1])
def outside(seen): return Chosen(1)
def half(seen): return Chosen(0.5)
def below(seen): return seen.left[0] if not seen.tried else Chosen(-1)
def for_ever(seen): return ModelTurn("scripted-a", 100 + len(seen.made))
value = 3
"""


def test_a_policy_of_a_file_is_added(
    demo: Path, tmp_path: Path, report: Report
) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    plain = f"{path}:plain"
    both = ("--policy", plain, "--policy", "plausible")
    code, text, _ = report(demo, "--format", "json", *both)
    assert code == 0
    policies = policies_of(text)
    assert list(policies) == ["recorded", "oracle", "plausible", plain]
    assert policies["plausible"]["resolved"] == policies[plain]["resolved"]
    # A file alone is added to all others.
    code, text, _ = report(demo, "--policy", plain)
    assert code == 0
    assert "\n| plausible-2 | " in text
    code, text, _ = report(demo, "--format", "json", "--policy", f"{path}:for_ever")
    endless = json.loads(text)["policies"][-1]
    assert endless["resolved"]["low"] == 0
    assert endless["resolved"]["high"] == 1


def test_the_policy_of_the_document_works(
    demo: Path, tmp_path: Path, report: Report
) -> None:
    heading = "## A policy of your own\n\n"
    part = text_between(DOCUMENT, heading, "\n\n`")
    path = tmp_path / "mine.py"
    path.write_text(dedent(part))
    code, text, _ = report(demo, "--format", "json", "--policy", f"{path}:cautious")
    assert code == 0
    # No attempt was tested.
    policy = json.loads(text)["policies"][-1]
    assert policy["attempts"]["value"] == 13


def test_the_document_names_all_policies(demo: Path, report: Report) -> None:
    _, _, error = report(demo, "--policy", "best")
    listing = text_between(error, " give ", ", or FILE.py:NAME")
    names = listing.split(", ")
    assert len(names) == 10
    for name in (*names, "recorded", "oracle"):
        assert f"`{name}`" in DOCUMENT, name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("raises", "raised ValueError: no way"),
        ("exits", "raised SystemExit: 3"),
        (
            "nonsense",
            "returned 'attempt 1' after 0 attempts; give a ModelTurn of the runs' models",
        ),
        ("nothing", "returned None after 0 attempts"),
        ("unprintable", "raised KeyError"),
        ("again", "returned ModelTurn(model='scripted-a', try_=1) after 1 attempt;"),
        ("strange", "returned ModelTurn(model='gpt-9', try_=1) after 0 attempts"),
        ("unhashable", "returned ModelTurn(model=['a'], try_=1) after 0 attempts"),
        ("outside", "returned Chosen(attempt=1) after 0 attempts"),
        ("half", "returned Chosen(attempt=0.5) after 0 attempts"),
        ("below", "returned Chosen(attempt=-1) after 1 attempt;"),
        ("listed", "returned ModelTurn(model='scripted-a', try_=[1]) after 0 attempts"),
        ("value", "cannot be read: TypeError: value is not a function"),
        ("missing", "cannot be read: KeyError"),
    ],
)
def test_a_wrong_policy_is_one_line(
    demo: Path,
    tmp_path: Path,
    report: Report,
    name: str,
    problem: str,
) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    line = refusal(report, demo, "--policy", f"{path}:{name}")
    assert line.startswith(f"error: --policy {path}:{name}")
    assert problem in line
    assert "\x1b" not in line


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("def f(:", "cannot be read: SyntaxError"),
        ("import nosuchmodule", "cannot be read: ModuleNotFoundError"),
        ("raise SystemExit(0)", "cannot be read: SystemExit: 0"),
        (None, "cannot be read: FileNotFoundError"),
    ],
)
def test_a_wrong_file_is_one_line(
    demo: Path,
    tmp_path: Path,
    report: Report,
    content: str | None,
    problem: str,
) -> None:
    path = tmp_path / "own.py"
    if content is not None:
        path.write_text(content)
    assert problem in refusal(report, demo, "--policy", f"{path}:f")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--policy", "best"],
            "--policy 'best' is not known; give first, plausible, random,",
        ),
        (["--policy", "plausible-x"], "--policy 'plausible-x' is not known"),
        (["--policy", "budget-x"], "--policy 'budget-x' is not known"),
        (["--policy", "only-gpt-9"], "--policy 'only-gpt-9' is not known"),
        (["--evaluator", "none"], "No such option: --evaluator"),
        (["--samples", "0"], "--samples"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    demo: Path,
    report: Report,
    arguments: list[str],
    problem: str,
) -> None:
    assert problem in refusal(report, demo, *arguments)


def test_one_run_twice(demo: Path, report: Report) -> None:
    line = "error: a run is given twice; name each once"
    assert refusal(report, demo, demo) == line


def test_two_runs_and_a_run_with_evidence(
    demo: Path, tmp_path: Path, report: Report
) -> None:
    shutil.copytree(demo.parent.parent, tmp_path / "out")
    folder = tmp_path / "out/predictions/r"
    evidence = {
        "scripts": [
            {
                "id": "s1",
                "source": "issue",
                "base": [2, 2],
            }
        ]
    }
    for path in folder.glob("demo__*.json"):
        change_json(path, lambda content: content.update(evidence=evidence))
    _, text, _ = report(folder)
    assert "\n| evidence | " in text
    code, text, _ = report(folder, demo, "--samples", "20")
    assert code == 0
    head = "6 instances, 26 attempts of 2 models, at most 12 of"
    assert text.startswith(f"# Lab: r + r\n\n{head}")
    assert "\n| evidence | " not in text, "classes are those of one run"
