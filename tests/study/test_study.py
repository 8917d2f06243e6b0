"""A study of two arms: its loop, its budget, kills and faults, its tables and its page."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from swe_retry.cli import harness, report
from swe_retry.record.store import RunStore
from swe_retry.report.statistics.methods import Share
from swe_retry.runner.calls.journal import AnsweredEntry, AskedEntry, Journal
from tests.support import TOP, text_between, wait_until
from tests.support.commands import Preloaded
from tests.support.killing import DemoProvider, hashes
from tests.support.provider import Answer

pytestmark = pytest.mark.system
BANK = "demo__bank-1"
TEXTKIT = "demo__textkit-1"
UNITS = "demo__units-2"
IDS = [BANK, TEXTKIT, UNITS]
CASCADE = "small-then-large"
DOCUMENT = (TOP / "docs/study.md").read_text(encoding="utf-8")
EXAMPLE = yaml.safe_load(text_between(DOCUMENT, "    # study.yaml\n", "\n\n"))


def arms_of_the_document() -> dict[str, Any]:
    """Return the arms in docs/study.md; a call costs a cent, and at most 10 cents."""
    arms = {}
    for name, arm in EXAMPLE["arms"].items():
        models = arm["models"]["names"]
        arms[name] = {
            "models": {"names": [f"{model}@diff" for model in models]},
            "budget": {"prices": {model: [0, 1000] for model in models}},
        }
    return arms


ARMS = arms_of_the_document()


class FaultyProvider(DemoProvider):
    """Refuses as many requests as ``faults`` has for a word of the issue."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[str, int] = {}

    def answer(self, request: dict[str, Any]) -> Answer:
        text = json.dumps(request["messages"])
        for word, left in self.faults.items():
            if left and word in text:
                self.faults[word] -= 1
                return Answer(status=400)
        return super().answer(request)


@dataclass(frozen=True)
class StudyRun:
    """A study in a folder, with its stand-in for providers."""

    folder: Path
    cache: Path
    provider: FaultyProvider
    preloaded: Preloaded

    def write(self, **changes: Any) -> None:
        values = {
            "dataset": "demo",
            "instances": {"ids": IDS},
            "arms": ARMS,
            "budget": {"usd": 9},
            "models": {
                **EXAMPLE["models"],
                "max_output_tokens": 100,
                "temperatures": [0],
            },
            "calls": {"api_base": self.provider.url, "retries": 0},
            "folders": {"out": str(self.folder), "cache": str(self.cache)},
            "tests": {"environment": "none"},
            "scale": {"workers": 1},
            "evaluation": {"evaluator": "local"},
            "report": {"page": False},
        }
        text = yaml.safe_dump({**values, **changes}, sort_keys=False)
        (self.folder / "s.yaml").write_text(text)

    def run(self, *options: str, script: str = "harness.py") -> CompletedProcess[str]:
        argv = ["study", str(self.folder / "s.yaml"), *options]
        return self.preloaded.run(*argv, script=script)

    def result(self) -> Any:
        """Run the study again, or to its end, and return what it shows."""
        printed = self.run("--format", "json").stdout
        return json.loads(printed[printed.index("{\n") : printed.rindex("\n}") + 2])

    def store(self, arm: str) -> RunStore:
        return RunStore(self.folder, f"s--{arm}")

    def predicted(self, arm: str) -> set[str]:
        return {path.stem for path in self.store(arm).prediction_paths()}

    def models_asked(self) -> list[str]:
        return [request["model"] for request in self.provider.requests]


@pytest.fixture
def study(tmp_path: Path, cache: Path, preloaded: Preloaded) -> Iterator[StudyRun]:
    with FaultyProvider() as provider:
        run = StudyRun(tmp_path, cache, provider, preloaded)
        run.write()
        yield run


def test_the_commands_of_the_document_are_there() -> None:
    """Those that are not run here need nothing but a checkout, git and the project's tests."""
    words = [
        line.split() for line in DOCUMENT.splitlines() if line.startswith("    retry-")
    ]
    assert {(name, command) for name, command, *_ in words} == {
        ("retry-harness", "mine"),
        ("retry-harness", "study"),
        ("retry-report", "study"),
    }
    assert "study" in harness.SUBCOMMANDS
    assert "study" in report.SUBCOMMANDS


def test_two_arms_from_the_file_to_the_page(study: StudyRun) -> None:
    too_early = study.run(script="report.py")
    assert too_early.stdout.startswith("error: arm large: there is no run ")
    study.write(report={})
    ended = study.run()
    assert ended.returncode == 0, ended.stdout
    lines = ended.stdout.splitlines()
    steps = [line.partition(";")[0] for line in lines if line.startswith("arm ")]
    expected = []
    for name in IDS:
        expected += [f"arm large: {name}", f"arm {CASCADE}: {name}"]
    assert steps == [*expected, "arm large", f"arm {CASCADE}"]
    table = text_between(ended.stdout, "# Study s\n", "\npage  ")
    study.write()
    again = study.run(script="report.py")
    assert again.returncode == 0
    assert table in again.stdout
    assert "| points, B less A | " in table
    assert "\nNo winner: " in table
    assert "| gpt-4o-mini@diff, " not in table
    assert f"| {CASCADE} | gpt-4o-mini, gpt-4o; 1 try at 0.0 | " in table
    (page,) = study.folder.glob("comparisons/*/report.html")
    html = page.read_text()
    assert "<h1>Study s</h1>" in html
    assert f'href="../../predictions/s--large/report/report.html#{BANK}"' in html
    calls = len(study.provider.requests)
    result = study.result()
    assert len(study.provider.requests) == calls, "nothing is left to do"
    assert [arm["unknown"] + arm["not_run"] for arm in result["arms"]] == [0, 0]
    assert result["complete"] == 3
    large = result["arms"][0]["solved"]
    assert large == asdict(Share.compute(large["count"], 3, correction=0.5))
    assert result["policy"]["cross_validated"]["low"] <= 1
    study.write(models={"tries": 2, "max_output_tokens": 100, "temperatures": [0]})
    refused = study.run()
    assert refused.returncode == 2
    line = "s.yaml: arm large: run s--large was started with different settings: models.tries"
    assert line in refused.stdout


def test_a_kill_in_the_middle_of_an_arm_costs_nothing_twice(study: StudyRun) -> None:
    study.write(evaluation={"evaluator": "none"})
    argv = ["study", str(study.folder / "s.yaml")]
    started = study.preloaded.start(*argv)
    wait_until(lambda: study.provider.requests)
    started.send_signal(signal.SIGINT)
    assert started.wait() == 130
    assert not (study.folder / "comparisons").exists()
    started = study.preloaded.start(*argv)
    # The second arm is the only one that asks the small model.
    wait_until(lambda: study.models_asked().count("gpt-4o-mini") == 2)
    started.kill()
    started.wait()
    assert study.predicted("large") != set(IDS)
    assert study.run().returncode == 1, "nothing is evaluated"
    answered = Counter[str]()
    for arm in ARMS:
        assert study.predicted(arm) == set(IDS)
        for path in study.store(arm).journals.iterdir():
            entries = Journal(path).entries()
            ends = {e.call for e in entries if isinstance(e, AnsweredEntry)}
            for entry in entries:
                if isinstance(entry, AskedEntry) and entry.call in ends:
                    answered[f"{arm} {entry.request_sha256}"] += 1
    assert set(answered.values()) == {1}
    assert len(hashes(study.provider)) > 3


def test_a_budget_that_ends_leaves_pairs_and_more_money_goes_on(
    study: StudyRun,
) -> None:
    study.write(budget={"usd": 0.16})
    result = study.result()
    large, cascade = result["arms"]
    assert 0 < cascade["solved"]["of"] < 3
    assert large["solved"]["of"] - cascade["solved"]["of"] in (0, 1)
    assert large["not_run"] + cascade["not_run"] + large["unknown"] > 0
    spent = float(large["spent"]) + float(cascade["spent"])
    assert 0.05 < spent <= 0.16
    calls = len(study.provider.requests)
    ended = study.run()
    assert "the budget ended: raise budget.usd and repeat the command" in ended.stdout
    assert len(study.provider.requests) == calls, "there is no more money"
    study.write()
    assert study.result()["complete"] == 3


def test_what_a_fault_ended_is_repeated_and_no_failure(study: StudyRun) -> None:
    study.provider.faults = {"fahrenheit": 99, "slugify": 3}
    study.write(arms={"a": ARMS["large"], "b": ARMS["large"]}, report={})
    result = study.result()
    for arm in result["arms"]:
        assert arm["unknown"] == 1
        assert arm["solved"]["of"] == 2
    assert result["complete"] == 2
    left = {"fahrenheit": 99 - 2 * 3, "slugify": 0}
    assert study.provider.faults == left, "each arm tries at most three times"
    html = (study.folder / "comparisons/s/report.html").read_text()
    assert html.count(">– unknown: error</a>") == 2
