"""Whole runs that choose by evidence: replayed, live, killed, over budget, with hostile scripts."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.attempts.evidence.choice import groups_of
from bench.attempts.evidence.scripts import language_of_runner
from bench.cli.commands import run_command
from bench.config import ModelChoice, SelectionRule
from bench.regression.runners import Runner
from demo.setup import DEMO_DATASET
from environments.base import EnvironmentKind
from environments.local.bubblewrap import bubblewrap_works
from llm.chat import Message, request_sha256
from reports.submission.hidden import texts_of
from runs.calls.budget import BudgetLimits
from runs.calls.journal import EntryKind
from runs.evidence import Evidence
from runs.records import Attempt, InstanceResult
from runs.settings import Spending
from tests.support.commands import Preloaded
from tests.support.evidence import (
    LOCAL,
    MODELS,
    NAME,
    OTHER,
    RECORDED,
    TEMPERATURES,
    ScriptProvider,
    by_evidence,
    changed,
    recording,
    verified,
)
from tests.support.killing import Harness, Left, check_ledger, hashes
from tests.support.provider import Answer
from tests.support.runs import config, live, options, read


@pytest.fixture
def scripts() -> Iterator[ScriptProvider]:
    with ScriptProvider() as server:
        yield server


def test_evidence_changes_one_choice_for_the_better_and_one_has_none(
    tmp_path: Path, cache: Path
) -> None:
    run = options(tmp_path, cache, NAME, OTHER)
    assert run_command(by_evidence(), run, lambda _: None) == 0
    better = read(tmp_path, NAME)
    none = read(tmp_path, OTHER)
    assert (better["attempt"], better["status"]) == (2, "plausible")
    assert better["reason"].startswith(
        "attempt 2 is chosen by evidence: it passes 4 of 4 valid"
    )
    found = better["evidence"]
    assert [one["attempts"] for one in found["classes"]] == [[1], [2, 3], [4]]
    assert [script["base"] for script in found["scripts"]] == [
        [2, 2],
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        [2, 2],
    ]
    assert found["outcomes"]["s6"] == {"c1": 2, "c2": 0, "c4": 0}
    assert none["attempt"] == 1
    assert none["reason"].startswith(
        "no evidence: no script shows the issue at the base commit"
    )
    plain = tmp_path / "plain"
    run = options(plain, cache, NAME)
    assert run_command(config(replay=RECORDED, **LOCAL), run, lambda _: None) == 0
    assert read(plain, NAME)["attempt"] == 1
    assert "evidence" not in read(plain, NAME)
    page = (tmp_path / f"predictions/r/{NAME}.md").read_text()
    assert (
        "| 2, 3 | scripted-b, scripted-a | solved | solved | solved | solved | 32 |"
        in page
    )
    assert (
        "### Script s5: from the issue and files, scripted-a: not valid; exit codes"
        in page
    )
    assert verified(tmp_path, cache)[-1].endswith("nothing differs")


def test_verify_notices_a_choice_that_does_not_follow_from_its_evidence(
    tmp_path: Path, cache: Path
) -> None:
    assert (
        run_command(by_evidence(), options(tmp_path, cache, NAME), lambda _: None) == 0
    )
    place = tmp_path / f"predictions/r/trajectories/{NAME}.json"

    def solved(raw: dict[str, Any]) -> None:
        for codes in raw["evidence"]["outcomes"].values():
            codes["c1"], codes["c2"] = 0, 2

    changed(place, solved)
    said = verified(tmp_path, cache)
    assert any(
        "the choice from the recorded outcomes: winner" in words for words in said
    ), said


def test_a_live_run_replayed_is_byte_identical(
    tmp_path: Path, cache: Path, scripts: ScriptProvider
) -> None:
    run = {**LOCAL, "temperatures": TEMPERATURES, "select": SelectionRule.EVIDENCE}
    one = options(tmp_path / "one", cache, NAME)
    assert run_command(live(scripts, **run), one, lambda _: None) == 0
    asked = len(scripts.requests)
    replay = live(scripts, **run, replay=tmp_path / "one/predictions/r")
    assert (
        run_command(replay, options(tmp_path / "two", cache, NAME), lambda _: None) == 0
    )
    assert len(scripts.requests) == asked
    paths = [tmp_path / n / f"predictions/r/{NAME}.json" for n in ("one", "two")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    found = json.loads(paths[0].read_text())
    assert found["attempt"] == 2
    # Scripts are charged to the instance, and to the temperature of the last try.
    every = sum(one["cost"] for one in found["all_results"])
    of_scripts = 3 * (100 * 2.5e-6 + 10 * 1e-5) + 3 * (100 * 1.5e-7 + 10 * 6e-7)
    assert found["cost"] == pytest.approx(every + of_scripts)
    prompts = []
    for r in scripts.requests:
        if "tells whether" in r["messages"][-1]["content"]:
            prompts.append(r)
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
    assert found["evidence"]["note"] == "not all scripts could be asked for"
    assert len(found["evidence"]["scripts"]) == 2


def test_nothing_is_asked_where_nothing_is_to_compare(
    tmp_path: Path, cache: Path, scripts: ScriptProvider
) -> None:
    alone = {
        **LOCAL,
        "tries": 1,
        "temperatures": (0.0,),
        "select": SelectionRule.EVIDENCE,
    }
    models = (ModelChoice.parse("gpt-4o", any_name=True),)
    run = options(tmp_path, cache, NAME)
    assert run_command(live(scripts, **alone, models=models), run, lambda _: None) == 0
    assert len(scripts.requests) == 2
    found = read(tmp_path, NAME)
    assert found["evidence"]["note"] == "there is one candidate"
    assert found["reason"].startswith("attempt 1 is plausible")


def test_without_an_environment_there_is_no_evidence(
    tmp_path: Path, cache: Path
) -> None:
    bare = by_evidence(environment=EnvironmentKind.NONE)
    assert run_command(bare, options(tmp_path, cache, NAME), lambda _: None) == 0
    found = read(tmp_path, NAME)
    assert found["reason"].startswith("no evidence: no environment runs scripts")
    assert [one["attempts"] for one in found["evidence"]["classes"]] == [
        [1],
        [2, 3],
        [4],
    ]


def test_a_recording_without_scripts_has_no_evidence(
    tmp_path: Path, cache: Path
) -> None:
    replies = tmp_path / "replies"
    replies.mkdir()
    place = replies / f"{NAME}.json"
    place.write_bytes((RECORDED / f"{NAME}.json").read_bytes())
    changed(place, lambda raw: raw.pop("writers"))
    bare = by_evidence(replay=replies)
    assert run_command(bare, options(tmp_path, cache, NAME), lambda _: None) == 0
    assert "not all scripts could be asked for" in read(tmp_path, NAME)["reason"]


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
        raw["writers"][0]["messages"][1]["content"] = (
            f"```python\n{(HOSTILE | SLOW)[kind]}```\n"
        )

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
    tmp_path: Path,
    cache: Path,
    preloaded: Preloaded,
    scripts: ScriptProvider,
    kills: int,
) -> None:
    harness = Harness(preloaded, tmp_path)
    rng = random.Random(20261123)

    def words(out: Path) -> list[str]:
        return [
            "--dataset",
            "demo",
            "--instances",
            NAME,
            "--models",
            ",".join(f"{m}@diff" for m in MODELS),
            "--set",
            "models.temperatures=0,0.25",
            "--tries",
            "2",
            "--api-base",
            scripts.url,
            "--run",
            "r",
            "--workers",
            "2",
            "--out",
            str(out),
            "--set",
            f"folders.cache={cache}",
            "--set",
            "choice.stop=all",
            "--set",
            "choice.select=evidence",
            "--environment",
            "local",
        ]

    # What is built once is in the cache before anything is measured.
    assert harness.run(words(tmp_path / "first")).code == 0
    scripts.requests.clear()
    measure = Left(tmp_path / "undisturbed")
    ended = harness.run(words(measure.out))
    assert ended.code == 0, ended.said
    needed = hashes(scripts)
    killed = 0
    for number in range(kills):
        scripts.requests.clear()
        left = Left(tmp_path / f"disturbed-{number}")
        alive = True
        while alive and killed < kills:
            # Attempts take two thirds of the writes, and scripts the rest.
            at = rng.randint(ended.writes // 2, ended.writes)
            alive = (
                harness.run(words(left.out), kill_at=at, torn=rng.random() < 0.5).code
                == -9
            )
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


def test_requests_are_those_of_the_recording(tmp_path: Path, cache: Path) -> None:
    assert (
        run_command(by_evidence(), options(tmp_path, cache, NAME), lambda _: None) == 0
    )
    said = read(tmp_path, NAME, "trajectories")
    assert [one["attempt"] for one in said["attempts"]] == [1, 2, 3, 4]
    assert [one["attempt"] for one in said["writers"]] == [0, -1]
    for writer in said["writers"]:
        asked = []
        for m in writer["messages"]:
            if m["role"] == "user":
                asked.append(Message("user", m["content"]))
        hashed = [request_sha256([one]) for one in asked]
        assert [call["request_sha256"] for call in writer["calls"]] == hashed


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
    tmp_path: Path,
    cache: Path,
    said: str,
    attempt: int,
    scores: list[int] | None,
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
        assert [
            group.score
            for group in groups_of(Evidence.model_validate(found["evidence"]))
        ] == scores
    (writer,) = [
        w for w in read(tmp_path, NAME, "trajectories")["writers"] if w["attempt"] == -1
    ]
    prompt = writer["messages"][-2]["content"]
    patches = [one["model_patch"].strip() for one in found["all_results"]]
    assert all(patch in prompt for patch in patches)


def test_a_script_sees_nothing_of_the_evaluation(tmp_path: Path, cache: Path) -> None:
    replies = tmp_path / "replies"
    replies.mkdir()
    gold = DEMO_DATASET / "tasks" / NAME / "gold.patch"
    hidden = []
    for path in (gold, replies / f"{NAME}.json", cache / "demo-mirrors"):
        hidden.append(str(path))
    code = f"import os, sys\nsys.exit(0 if any(map(os.path.exists, {hidden})) else 2)\n"
    raw = json.loads((RECORDED / f"{NAME}.json").read_text())
    raw["writers"][0]["messages"][0]["content"] = f"```python\n{code}```\n"
    (replies / f"{NAME}.json").write_text(json.dumps(raw))
    assert (
        run_command(by_evidence(replay=replies), options(tmp_path, cache, NAME), print)
        == 0
    )
    found = read(tmp_path, NAME)["evidence"]
    if not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    assert found["scripts"][0]["base"] == [2, 2]
    assert set(found["outcomes"]["s1"].values()) == {2}


@pytest.mark.parametrize(
    "runner", [Runner.JEST, Runner.GO, Runner.PHPUNIT, Runner.RSPEC]
)
def test_scripts_of_other_languages_keep_their_exit_code(
    tmp_path: Path, runner: Runner
) -> None:
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


def test_a_script_that_is_no_text_is_run_all_the_same(
    tmp_path: Path, cache: Path
) -> None:
    def spoiled(raw: dict[str, Any]) -> None:
        first = raw["writers"][0]["messages"][0]
        first["content"] = first["content"].replace(
            "import sys", "import sys  # \ud800", 1
        )

    replies = recording(tmp_path / "replies", spoiled)
    assert (
        run_command(by_evidence(replay=replies), options(tmp_path, cache, NAME), print)
        == 0
    )
    assert read(tmp_path, NAME)["evidence"]["scripts"][0]["valid"] is False


class RefusingProvider(ScriptProvider):
    """Refuses one of the requests for scripts."""

    def answer(self, request: dict[str, Any]) -> Answer:
        said = request["messages"][-1]["content"]
        if "tells whether the issue is there" in said and "These files" in said:
            return Answer(status=400, error={"message": "no"})
        return super().answer(request)


def test_a_refused_script_is_refused_again_in_a_replay(
    tmp_path: Path, cache: Path
) -> None:
    run = {**LOCAL, "temperatures": TEMPERATURES, "select": SelectionRule.EVIDENCE}
    with RefusingProvider() as server:
        one = options(tmp_path / "one", cache, NAME)
        assert run_command(live(server, **run), one, print) == 0
        asked = len(server.requests)
        replay = live(server, **run, replay=tmp_path / "one/predictions/r")
        assert run_command(replay, options(tmp_path / "two", cache, NAME), print) == 0
        assert len(server.requests) == asked
    paths = [tmp_path / n / f"predictions/r/{NAME}.json" for n in ("one", "two")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    notes = [
        one["note"] for one in json.loads(paths[0].read_text())["evidence"]["scripts"]
    ]
    assert notes.count("the provider refuses the request") == 2
    assert verified(tmp_path / "one", cache)[-1].endswith("nothing differs")


def test_a_damaged_cache_is_measured_again(tmp_path: Path, cache: Path) -> None:
    own = tmp_path / "cache"
    (own / "environments").parent.mkdir()
    for name in ("environments", "demo-mirrors", "snapshots"):
        if (cache / name).exists():
            (own / name).symlink_to(cache / name)
    assert run_command(by_evidence(), options(tmp_path / "one", own, NAME), print) == 0
    for place in (own / "scripts").glob("*.json"):
        place.write_text('{"x": 3, "y": [], "z": ["a"]}')
    assert run_command(by_evidence(), options(tmp_path / "two", own, NAME), print) == 0
    paths = [tmp_path / n / f"predictions/r/{NAME}.json" for n in ("one", "two")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_patches_that_writers_saw_are_no_leak() -> None:
    gold = "    return the_one_and_only_gold(line)\n"
    attempt = Attempt(
        edit_format="diff",
        model_patch=f"+{gold}",
        messages=(Message("user", "x"), Message("assistant", gold)),
    )
    shown_patch = Message("user", f"A change:\n+{gold}")
    writer = Attempt(edit_format="diff", messages=(shown_patch,))
    result = InstanceResult(instance_id=NAME, attempts=(attempt,), writers=(writer,))
    assert not texts_of(result).shows(gold.strip(), "")
    # What no attempt wrote is a leak there as well.
    assert texts_of(result.but(attempts=())).shows(gold.strip(), "")
