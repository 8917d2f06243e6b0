"""Whole runs that choose by evidence: replayed, live, killed, over budget, with hostile scripts."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.attempts.evidence import Evidence, evidence_of, groups_of
from bench.attempts.scripts import language_of_runner
from bench.cli.commands import run_command
from bench.config import ModelChoice, RunConfig, SelectionRule, ToldHistory, validated
from bench.policy import StopRule
from bench.regression.runners import Runner
from core.errors import UserError
from demo.setup import DEMO_DATASET
from environments.base import EnvironmentKind
from environments.local.bubblewrap import bubblewrap_works
from llm.chat import Message, request_sha256
from llm.replay import RecordedAttempt, read_trajectory
from reports.cli.options import ReportOptions
from reports.verification.verify import verify_command
from runs.calls.budget import BudgetLimits
from runs.calls.journal import EntryKind
from runs.options import Spending
from tests.support.commands import Preloaded
from tests.support.killing import Harness, Left, check_ledger, hashes
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, config, live, options, read

RECORDED = DEMO_DATASET / "evidence"
NAME, OTHER = "demo__textkit-1", "demo__bank-2"
MODELS = ("gpt-4o", "gpt-4o-mini")
TEMPERATURES = (0.0, 0.25)
LOCAL = {"environment": EnvironmentKind.LOCAL, "tries": 2, "all_attempts": True}


def by_evidence(**changes: Any) -> RunConfig:
    return config(
        **{"replay": RECORDED, "select": SelectionRule.EVIDENCE, "rounds": 0, **LOCAL, **changes}
    )


class ScriptProvider(Provider):
    """Answers as the recording of the demo does, by what is asked alone: order changes nothing."""

    def __init__(self, scripts: dict[str, str] | None = None) -> None:
        super().__init__()
        self.recorded = read_trajectory(RECORDED / f"{NAME}.json")
        self.scripts = scripts or {}

    def answer(self, request: dict[str, Any]) -> Answer:
        model = MODELS.index(request["model"])
        said = request["messages"][-1]["content"]
        if "tells whether the issue is there" in said:
            place = 1 if "These files" in said else 2 if "proposes this change" in said else 0
            # The order in which a writer is asked: docs/selection.md.
            nth = ((0, 2, 1), (1, 0, 2))[model][place]
            return self._answer(self.recorded[-model], nth, hang=0.02)
        if "Find a behaviour" in said:
            return Answer("NO EVIDENCE")
        try_ = TEMPERATURES.index(request["temperature"])
        step = sum(m["role"] == "assistant" for m in request["messages"])
        return self._answer(self.recorded[try_ * 2 + model + 1], step, hang=0.02)

    def _answer(self, attempt: RecordedAttempt, nth: int, hang: float) -> Answer:
        replies = [call.reply.content for call in attempt.calls]
        return Answer(replies[nth] if nth < len(replies) else "That is all.", hang=hang)


@pytest.fixture
def scripts() -> Iterator[ScriptProvider]:
    with ScriptProvider() as server:
        yield server


def test_evidence_changes_one_choice_for_the_better_and_one_has_none(
    tmp_path: Path, cache: Path
) -> None:
    run = options(tmp_path, cache, NAME, OTHER)
    assert run_command(by_evidence(), run, lambda _: None) == 0
    better, none = read(tmp_path, NAME), read(tmp_path, OTHER)
    assert (better["attempt"], better["status"]) == (2, "plausible")
    assert better["reason"].startswith("attempt 2 is chosen by evidence: it passes 4 of 4 valid")
    found = better["evidence"]
    assert [one["attempts"] for one in found["classes"]] == [[1], [2, 3], [4]]
    assert [script["base"] for script in found["scripts"]] == [
        [2, 2], [2, 2], [2, 2], [0, 0], [1, 1], [2, 2]
    ]  # fmt: skip
    assert found["outcomes"]["s6"] == {"c1": 2, "c2": 0, "c4": 0}
    assert none["attempt"] == 1
    assert none["reason"].startswith("no evidence: no script shows the issue at the base commit")
    plain = tmp_path / "plain"
    run = options(plain, cache, NAME)
    assert run_command(config(replay=RECORDED, **LOCAL), run, lambda _: None) == 0
    assert read(plain, NAME)["attempt"] == 1
    assert "evidence" not in read(plain, NAME)
    page = (tmp_path / f"predictions/r/{NAME}.md").read_text()
    assert "| 2, 3 | scripted-b, scripted-a | solved | solved | solved | solved | 32 |" in page
    assert "### Script s5: from the issue and files, scripted-a: not valid; exit codes" in page
    assert verified(tmp_path, cache)[-1].endswith("nothing differs")


def verified(out: Path, cache: Path) -> list[str]:
    said: list[str] = []
    verify_command([out / "predictions/r"], ReportOptions(cache=cache), said.append)
    return said


def changed(place: Path, change: Callable[[dict[str, Any]], None]) -> None:
    raw = json.loads(place.read_text())
    change(raw)
    place.write_text(json.dumps(raw))


def test_verify_notices_a_choice_that_does_not_follow_from_its_evidence(
    tmp_path: Path, cache: Path
) -> None:
    assert run_command(by_evidence(), options(tmp_path, cache, NAME), lambda _: None) == 0
    place = tmp_path / f"predictions/r/trajectories/{NAME}.json"

    def solved(raw: dict[str, Any]) -> None:
        for codes in raw["evidence"]["outcomes"].values():
            codes["c1"], codes["c2"] = 0, 2

    changed(place, solved)
    said = verified(tmp_path, cache)
    assert any("the choice from the recorded outcomes: winner" in words for words in said), said


def test_a_live_run_replayed_is_byte_identical(
    tmp_path: Path, cache: Path, scripts: ScriptProvider
) -> None:
    run = {**LOCAL, "temperatures": TEMPERATURES, "select": SelectionRule.EVIDENCE}
    one = options(tmp_path / "one", cache, NAME)
    assert run_command(live(scripts, **run), one, lambda _: None) == 0
    asked = len(scripts.requests)
    replay = live(scripts, **run, replay=tmp_path / "one/predictions/r")
    assert run_command(replay, options(tmp_path / "two", cache, NAME), lambda _: None) == 0
    assert len(scripts.requests) == asked
    paths = [tmp_path / n / f"predictions/r/{NAME}.json" for n in ("one", "two")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    found = json.loads(paths[0].read_text())
    assert found["attempt"] == 2
    # Scripts are charged to the instance, and to the temperature of the last try.
    every = sum(one["cost"] for one in found["all_results"])
    of_scripts = 3 * (100 * 2.5e-6 + 10 * 1e-5) + 3 * (100 * 1.5e-7 + 10 * 6e-7)
    assert found["cost"] == pytest.approx(every + of_scripts)
    prompts = [r for r in scripts.requests if "tells whether" in r["messages"][-1]["content"]]
    assert {request["temperature"] for request in prompts} == {0.25}
    assert len(prompts) == 6


def test_the_budget_ends_the_scripts_and_the_rest_decides(
    tmp_path: Path, cache: Path, scripts: ScriptProvider
) -> None:
    run = {**LOCAL, "temperatures": TEMPERATURES, "select": SelectionRule.EVIDENCE}
    with_limit = options(tmp_path, cache, NAME, money=Spending(BudgetLimits(calls=10)))
    run_command(live(scripts, **run), with_limit, lambda _: None)
    found = read(tmp_path, NAME)
    assert len(scripts.requests) == 10
    assert found["evidence"]["note"].startswith("not all scripts were written")
    assert len(found["evidence"]["scripts"]) == 2


def test_nothing_is_asked_where_nothing_is_to_compare(
    tmp_path: Path, cache: Path, scripts: ScriptProvider
) -> None:
    alone = {**LOCAL, "tries": 1, "temperatures": (0.0,), "select": SelectionRule.EVIDENCE}
    models = (ModelChoice.parse("gpt-4o", any_name=True),)
    run = options(tmp_path, cache, NAME)
    assert run_command(live(scripts, **alone, models=models), run, lambda _: None) == 0
    assert len(scripts.requests) == 2
    found = read(tmp_path, NAME)
    assert found["evidence"]["note"] == "there is one candidate"
    assert found["reason"].startswith("attempt 1 is plausible")


def test_without_an_environment_there_is_no_evidence(tmp_path: Path, cache: Path) -> None:
    bare = by_evidence(environment=EnvironmentKind.NONE)
    assert run_command(bare, options(tmp_path, cache, NAME), lambda _: None) == 0
    found = read(tmp_path, NAME)
    assert found["reason"].startswith("no evidence: no environment runs scripts")
    assert [one["attempts"] for one in found["evidence"]["classes"]] == [[1], [2, 3], [4]]


def test_a_recording_without_scripts_has_no_evidence(tmp_path: Path, cache: Path) -> None:
    replies = tmp_path / "replies"
    replies.mkdir()
    place = replies / f"{NAME}.json"
    place.write_bytes((RECORDED / f"{NAME}.json").read_bytes())
    changed(place, lambda raw: raw.pop("writers"))
    bare = by_evidence(replay=replies)
    assert run_command(bare, options(tmp_path, cache, NAME), lambda _: None) == 0
    assert "none is recorded" in read(tmp_path, NAME)["reason"]


SLOW = {
    "fork": "import os\nwhile True:\n    os.fork()\n",
    "disk": "with open('x', 'wb') as f:\n    while True:\n        f.write(b'0' * (1 << 20))\n",
}
HOSTILE = {
    "prints": "print('exit code 0')\nraise SystemExit('2')\n",
    "kills": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
    "changes": (
        "import pathlib, sys\nold = pathlib.Path('textkit/slug.py')\n"
        "seen = 'changed' in old.read_text()\nold.write_text('changed')\n"
        "sys.exit(0 if seen else 2)\n"
    ),
}


# The first two run until the limit of time or of the disk.
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long) for kind in SLOW] + [*HOSTILE]
)
def test_a_hostile_script_counts_as_no_answer_and_harms_nothing(
    tmp_path: Path, cache: Path, kind: str
) -> None:
    replies = tmp_path / "replies"
    replies.mkdir()
    place = replies / f"{NAME}.json"
    place.write_bytes((RECORDED / f"{NAME}.json").read_bytes())

    def spoiled(raw: dict[str, Any]) -> None:
        raw["writers"][0]["messages"][1]["content"] = f"```python\n{(HOSTILE | SLOW)[kind]}```\n"

    changed(place, spoiled)
    run = options(tmp_path, cache, NAME)
    assert run_command(by_evidence(replay=replies), run, lambda _: None) == 0
    found = read(tmp_path, NAME)
    third = found["evidence"]["scripts"][2]
    if kind == "changes":
        # Each run has the tree as the set-up left it, so it never sees what it wrote.
        assert third["base"] == [2, 2]
        assert set(found["evidence"]["outcomes"]["s3"].values()) == {2}
    else:
        assert third["valid"] is False
    assert found["attempt"] == 2


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.long)])
def test_a_run_that_is_killed_buys_no_script_twice(
    tmp_path: Path, cache: Path, preloaded: Preloaded, scripts: ScriptProvider, kills: int
) -> None:
    harness = Harness(preloaded, tmp_path)
    rng = random.Random(20261123)

    def words(out: Path) -> list[str]:
        return [
            "--dataset", "demo", "--instances", NAME, "--models",
            ",".join(f"{m}@diff" for m in MODELS), "--temperature", "0,0.25", "--tries", "2",
            "--api-base", scripts.url, "--run", "r", "--workers", "2", "--out", str(out),
            "--cache", str(cache), "--all-attempts", "--select", "evidence",
            "--environment", "local",
        ]  # fmt: skip

    # What is built once is in the cache before anything is measured.
    assert harness.run(words(tmp_path / "first")).code == 0
    scripts.requests.clear()
    measure = Left(tmp_path / "undisturbed")
    ended = harness.run(words(measure.out))
    assert ended.code == 0, ended.said
    needed, killed = hashes(scripts), 0
    for number in range(kills):
        scripts.requests.clear()
        left = Left(tmp_path / f"disturbed-{number}")
        alive = True
        while alive and killed < kills:
            # Attempts take two thirds of the writes, and scripts the rest.
            at = rng.randint(ended.writes // 2, ended.writes)
            alive = harness.run(words(left.out), kill_at=at, torn=rng.random() < 0.5).code == -9
            killed += alive
        last = harness.run(words(left.out))
        assert last.code == 0, last.said
        assert left.results() == measure.results()
        assert left.count(EntryKind.ANSWERED) == measure.count(EntryKind.ANSWERED)
        lost = sum(left.count(EntryKind.LOST).values())
        assert (hashes(scripts) - needed).total() <= lost
        check_ledger(measure, left)
        if killed == kills:
            break
    assert killed == kills


def test_a_black_box_has_no_model_to_ask() -> None:
    with pytest.raises(UserError, match="--select evidence and --history summary ask"):
        validated(by_evidence(replay=None, agent="command:true"))


def test_requests_are_those_of_the_recording(tmp_path: Path, cache: Path) -> None:
    assert run_command(by_evidence(), options(tmp_path, cache, NAME), lambda _: None) == 0
    said = read(tmp_path, NAME, "trajectories")
    assert [one["attempt"] for one in said["attempts"]] == [1, 2, 3, 4]
    assert [one["attempt"] for one in said["writers"]] == [0, -1]
    for writer in said["writers"]:
        asked = [Message("user", m["content"]) for m in writer["messages"] if m["role"] == "user"]
        hashed = [request_sha256([one]) for one in asked]
        assert [call["request_sha256"] for call in writer["calls"]] == hashed


def test_attempts_end_when_two_models_agree_on_what_passes_all_scripts(
    tmp_path: Path, cache: Path
) -> None:
    """Attempts 2 and 3 are equal, of different models; the fourth is not made."""
    run = by_evidence(stop=StopRule.AGREEMENT, all_attempts=False)
    assert run_command(run, options(tmp_path, cache, NAME, OTHER), lambda _: None) == 0
    found = read(tmp_path, NAME)
    assert [one["attempt"] for one in found["all_results"]] == [1, 2, 3]
    assert found["attempt"] == 2
    log = (tmp_path / f"logs/r/{NAME}.log").read_text()
    assert (
        "no further attempt: attempts 2 and 3, of different models, agree: no test newly fails, "
        "and they pass 4 valid scripts" in log
    )
    # Without a valid script nothing shows that the patches solve the issue.
    assert len(read(tmp_path, OTHER)["all_results"]) == 4


def test_equal_failures_in_a_row_end_the_attempts(tmp_path: Path, cache: Path) -> None:
    replies = tmp_path / "replies"
    replies.mkdir()
    raw = json.loads((RECORDED / f"{NAME}.json").read_text())
    wrong = raw["attempts"][0]["messages"]
    before, _, after = wrong[1]["content"].rpartition("return")
    broken = f"{before}letters.pop()\n    return{after}"
    for attempt in raw["attempts"]:
        attempt["messages"] = [wrong[0], {"role": "assistant", "content": broken}]
    (replies / f"{NAME}.json").write_text(json.dumps(raw))
    given = {"replay": replies, "environment": EnvironmentKind.LOCAL, "tries": 2}
    run = config(**given, equal_failures=2)
    assert run_command(run, options(tmp_path, cache, NAME), lambda _: None) == 0
    found = read(tmp_path, NAME)
    assert (found["status"], len(found["all_results"])) == ("fallback", 2)
    log = (tmp_path / f"logs/r/{NAME}.log").read_text()
    assert "no further attempt: 2 attempts in a row ended with the same failing patch" in log


def test_an_attempt_that_is_not_worth_its_cost_is_not_made(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    """Earlier runs say that a second attempt costs ten cents and never was plausible."""
    prior = tmp_path / "prior/predictions/p"
    prior.mkdir(parents=True)
    failed = {"status": "tests_failed", "cost": 0.1, "model_patch": "x"}
    results = [{**failed, "attempt": number} for number in (1, 2)]
    for number in range(8):
        name = f"x__y-{number}"
        said = {"instance_id": name, "model_patch": "x", "status": "fallback", "attempt": 1}
        (prior / f"{name}.json").write_text(json.dumps({**said, "all_results": results}))
    provider.will_answer("textkit/slug.py", "Nothing.")
    for worth, attempts in ((Decimal("0.5"), 1), (Decimal(5), 2)):
        out = tmp_path / str(worth)
        stop = {"stop": StopRule.VALUE, "value_usd": worth, "prior_runs": (prior,)}
        run_command(live(provider, **stop), options(out, cache, NAME), lambda _: None)
        assert len(read(out, NAME)["all_results"]) == attempts
        log = (out / f"logs/r/{NAME}.log").read_text()
        words = "attempt 2 is expected to cost $0.1000, and its chance to be plausible (0 of 8"
        assert (words in log) is (attempts == 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stop": StopRule.AGREEMENT, "select": SelectionRule.PLAUSIBLE}, "give --select evidence"),
        ({"stop": StopRule.VALUE, "value_usd": Decimal(1)}, "--value-usd and --prior-runs"),
        ({"value_usd": Decimal(1)}, "are for --stop value"),
        ({"stop": StopRule.AGREEMENT, "all_attempts": True}, "differ; give one"),
    ],
)
def test_options_that_do_not_fit_together_are_named(changes: dict[str, Any], words: str) -> None:
    given = {"all_attempts": False, **changes}
    with pytest.raises(UserError, match=words):
        validated(by_evidence(**given))


def test_the_next_attempt_is_told_what_became_of_the_others(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    failing = EDIT.replace("        elif letters and letters[-1] != ", "        elif letters == ")
    provider.will_answer("textkit/slug.py", failing, failing, failing, failing, "textkit/slug.py")
    for told, words in (
        (ToldHistory.OUTCOMES, "1 attempt was made on this issue before yours"),
        (ToldHistory.SUMMARY, "1 attempt was made on this issue before yours"),
        (ToldHistory.NONE, ""),
    ):
        out = tmp_path / told.value
        provider.requests.clear()
        given = {"history": told, "environment": EnvironmentKind.LOCAL, "all_attempts": True}
        run_command(live(provider, **given), options(out, cache, NAME), lambda _: None)
        firsts = [
            request["messages"]
            for request in provider.requests
            if not any(m["role"] == "assistant" for m in request["messages"])
        ]
        openings = [said for said in firsts if "Which files must be seen" in said[-1]["content"]]
        assert len(openings) == 2
        assert "before yours" not in openings[0][-1]["content"]
        assert words in openings[1][-1]["content"]
        second = read(out, NAME)["all_results"][1]
        assert second.get("told_of", []) == ([] if told is ToldHistory.NONE else [1])
        summaries = [said for said in firsts if "Summarize for them" in said[-1]["content"]]
        assert len(summaries) == (told is ToldHistory.SUMMARY)
        assert verified(out, cache)[-1].endswith("nothing differs")


BEHAVIOUR = """```python
import sys

from textkit.slug import slugify

sys.exit(0 if slugify("a b!") == "a-b" else 2)
```
"""


@pytest.mark.parametrize(
    ("said", "attempt", "scores"),
    [
        (BEHAVIOUR, 2, [4, 1]),
        ("NO EVIDENCE", 1, [1, 1]),
        (BEHAVIOUR.replace("0 if", "2 if"), 1, None),
    ],
)
def test_a_close_result_asks_for_a_script_that_tells_the_groups_apart(
    tmp_path: Path, cache: Path, said: str, attempt: int, scores: list[int] | None
) -> None:
    """Each of two candidates passes one script; the model sees both patches."""
    replies = tmp_path / "replies"
    replies.mkdir()
    raw = json.loads((RECORDED / f"{NAME}.json").read_text())
    raw["attempts"] = [raw["attempts"][0], {**raw["attempts"][3], "attempt": 2}]
    raw["writers"][1]["messages"].append({"role": "assistant", "content": said})
    (replies / f"{NAME}.json").write_text(json.dumps(raw))
    run = options(tmp_path, cache, NAME)
    asked = by_evidence(replay=replies, tries=1, rounds=1)
    assert run_command(asked, run, lambda _: None) == 0
    found = read(tmp_path, NAME)
    assert found["attempt"] == attempt
    last = found["evidence"]["scripts"][6]
    assert last["source"] == "distinguishing"
    if scores:
        assert [group.score for group in groups_of(evidence_of(found) or Evidence())] == scores
    (writer,) = [w for w in read(tmp_path, NAME, "trajectories")["writers"] if w["attempt"] == -1]
    prompt = writer["messages"][-2]["content"]
    patches = [one["model_patch"].strip() for one in found["all_results"]]
    assert all(patch in prompt for patch in patches)


def test_a_script_sees_nothing_of_the_evaluation(tmp_path: Path, cache: Path) -> None:
    replies = tmp_path / "replies"
    replies.mkdir()
    gold = DEMO_DATASET / "tasks" / NAME / "gold.patch"
    hidden = [str(path) for path in (gold, replies / f"{NAME}.json", cache / "demo-mirrors")]
    code = f"import os, sys\nsys.exit(0 if any(map(os.path.exists, {hidden})) else 2)\n"
    raw = json.loads((RECORDED / f"{NAME}.json").read_text())
    raw["writers"][0]["messages"][0]["content"] = f"```python\n{code}```\n"
    (replies / f"{NAME}.json").write_text(json.dumps(raw))
    assert run_command(by_evidence(replay=replies), options(tmp_path, cache, NAME), print) == 0
    found = read(tmp_path, NAME)["evidence"]
    if not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    assert found["scripts"][0]["base"] == [2, 2]
    assert set(found["outcomes"]["s1"].values()) == {2}


@pytest.mark.parametrize("runner", [Runner.JEST, Runner.GO, Runner.PHPUNIT, Runner.RSPEC])
def test_scripts_of_other_languages_keep_their_exit_code(tmp_path: Path, runner: Runner) -> None:
    language = language_of_runner(runner)
    assert language
    sources = {
        ".cjs": "process.exit(CODE)",
        "/main.go": 'package main\n\nimport "os"\n\nfunc main() { os.Exit(CODE) }\n',
        ".php": "<?php exit(CODE);",
        ".rb": "exit CODE",
    }
    if not shutil.which(language.command.split()[0]):
        pytest.skip(f"{language.command.split()[0]} is not installed")
    place = tmp_path / language.file(1)
    place.parent.mkdir(exist_ok=True)
    for code in (0, 2, 1):
        place.write_text(sources[language.suffix].replace("CODE", str(code)))
        ran = subprocess.run(["bash", "-c", language.run(1)], cwd=tmp_path, check=False)
        assert ran.returncode == code


def test_languages_without_scripts_that_run_alone_have_no_evidence() -> None:
    assert language_of_runner(Runner.CARGO) is None
    assert language_of_runner(Runner.MAVEN) is None
