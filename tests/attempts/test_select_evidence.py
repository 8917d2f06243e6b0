"""Whole runs that choose by evidence: replayed, live, killed, over budget, with hostile scripts."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import ModelChoice, SelectionRule
from swe_retry.attempts.evidence.scripts import language_of_runner
from swe_retry.demo.setup import DEMO_DATASET
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.frameworks import Runner
from swe_retry.llm.chat import Message, request_sha256
from swe_retry.record.records import Attempt
from swe_retry.record.result import InstanceResult
from swe_retry.report.package.hidden import texts_of
from swe_retry.runner.settings import Spending
from tests.support import read_json
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
from tests.support.harness import Harness
from tests.support.killing import Harness as KilledCommands
from tests.support.killing import Left, check_ledger, hashes
from tests.support.provider import Answer
from tests.support.runs import config, live


@pytest.fixture
def scripts() -> Iterator[ScriptProvider]:
    with ScriptProvider() as server:
        yield server


def spoil_scripts(codes: Mapping[int, str]) -> Callable[[dict[str, Any]], None]:
    """Return a change of a recording: scripts have the code that ``codes`` has of their number."""

    def spoil(raw: dict[str, Any]) -> None:
        for number, code in codes.items():
            # The writers take turns.
            turn, writer = divmod(number - 1, 2)
            message = raw["writers"][writer]["messages"][turn]
            message["content"] = f"```python\n{code}```\n"

    return spoil


def attempts_of_classes(prediction: dict[str, Any]) -> list[list[int]]:
    classes = prediction["evidence"]["classes"]
    return [equal["attempts"] for equal in classes]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Harness:
    """A run of two instances that chooses by evidence."""
    folder = tmp_path_factory.mktemp("evidence")
    harness = Harness(folder, cache)
    harness.run(by_evidence(), NAME, OTHER)
    return harness


def verified_lines(harness: Harness) -> list[str]:
    return verified(harness.folder, harness.cache)


def test_evidence_changes_one_choice_for_the_better_and_one_has_none(
    finished: Harness, harness: Harness
) -> None:
    better = finished.prediction(NAME)
    assert better["attempt"] == 2
    assert better["status"] == "plausible"
    assert "it passes 4 of 4 valid scripts" in better["reason"]
    belief = better["belief"]
    assert belief["weight"] > 0.5
    assert belief["none"] < 0.5
    assert attempts_of_classes(better) == [[1], [2, 3], [4]]
    evidence = better["evidence"]
    codes = [script["base"] for script in evidence["scripts"]]
    assert codes == [
        [2, 2],
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        [2, 2],
    ]
    assert evidence["outcomes"]["s6"] == {"c1": 2, "c2": 0, "c4": 0}
    other = finished.prediction(OTHER)
    assert other["attempt"] == 3
    assert "no script shows the issue at the base commit" in other["reason"]
    run = config(replay=RECORDED, **LOCAL)
    plain = harness.solve(run, NAME)
    assert plain["attempt"] == 1
    assert "evidence" not in plain
    page = finished.file(f"{NAME}.md").read_text()
    solved = "solved | solved | solved | solved"
    assert f"| 2, 3 | scripted-b, scripted-a | {solved} | 0." in page
    script = "### Script s5: from the issue and files, scripted-a: not valid"
    assert f"{script}; exit codes" in page
    assert verified_lines(finished)[-1].endswith("nothing differs")


def test_requests_are_those_of_the_recording(finished: Harness) -> None:
    trajectory = read_json(finished.file(f"trajectories/{NAME}.json"))
    assert [attempt["attempt"] for attempt in trajectory["attempts"]] == [1, 2, 3, 4]
    assert [writer["attempt"] for writer in trajectory["writers"]] == [0, -1]
    for writer in trajectory["writers"]:
        hashes = []
        for message in writer["messages"]:
            if message["role"] == "user":
                request = Message("user", message["content"])
                hashes.append(request_sha256([request]))
        assert [call["request_sha256"] for call in writer["calls"]] == hashes


def test_verify_notices_a_choice_that_does_not_follow_from_its_evidence(
    finished: Harness,
) -> None:
    def swap_outcomes(raw: dict[str, Any]) -> None:
        for codes in raw["evidence"]["outcomes"].values():
            codes.update(c1=0, c2=2)

    path = finished.file(f"trajectories/{NAME}.json")
    before = path.read_bytes()
    changed(path, swap_outcomes)
    lines = "\n".join(verified_lines(finished))
    path.write_bytes(before)
    assert "the choice from the recorded outcomes: winner" in lines


EVIDENCE = {
    **LOCAL,
    "temperatures": TEMPERATURES,
    "select": SelectionRule.EVIDENCE,
}
ONE_TRY = {**EVIDENCE, "tries": 1, "temperatures": (0.0,)}


def test_the_budget_ends_the_scripts_and_the_rest_decides(
    harness: Harness, scripts: ScriptProvider
) -> None:
    money = Spending(calls=6)
    run = live(scripts, **ONE_TRY)
    prediction = harness.solve(run, NAME, code=1, money=money)
    evidence = prediction["evidence"]
    assert len(scripts.requests) == 6
    assert evidence["note"] == "not all scripts could be asked for"
    assert len(evidence["scripts"]) == 2


def test_nothing_is_asked_where_nothing_is_to_compare(
    harness: Harness, scripts: ScriptProvider
) -> None:
    models = (ModelChoice.parse("gpt-4o", any_name=True),)
    run = live(scripts, **ONE_TRY, models=models)
    prediction = harness.solve(run, NAME)
    assert len(scripts.requests) == 2
    assert prediction["evidence"]["note"] == "there is one candidate"
    assert prediction["reason"].endswith("there is one candidate")


def test_without_an_environment_there_is_no_evidence(harness: Harness) -> None:
    run = by_evidence(environment=EnvironmentKind.NONE)
    prediction = harness.solve(run, NAME)
    assert "no environment runs scripts" in prediction["reason"]
    assert attempts_of_classes(prediction) == [[1], [2, 3], [4]]


def test_a_recording_without_scripts_has_no_evidence(
    harness: Harness, tmp_path: Path
) -> None:
    replies = recording(tmp_path / "replies", lambda raw: raw.pop("writers"))
    run = by_evidence(replay=replies, tries=1)
    prediction = harness.solve(run, NAME)
    assert "not all scripts could be asked for" in prediction["reason"]


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


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Any:
    """The prediction of a run in which all scripts but the last are hostile."""
    root = tmp_path_factory.mktemp("hostile")
    folder = root / "replies"
    gold = DEMO_DATASET / "tasks" / NAME / "gold.patch"
    hidden = [str(gold), str(folder), str(cache / "demo-mirrors")]
    looks = (
        f"import os, sys\nsys.exit(0 if any(map(os.path.exists, {hidden})) else 2)\n"
    )
    no_text = "import sys  # \ud800\nsys.exit(2)\n"
    codes = enumerate([looks, no_text, *HOSTILE.values()], 1)
    replies = recording(folder, spoil_scripts(dict(codes)))
    harness = Harness(root, cache)
    return harness.solve(by_evidence(replay=replies), NAME)


def test_a_hostile_script_counts_as_no_answer_and_harms_nothing(hostile: Any) -> None:
    evidence = hostile["evidence"]
    scripts = evidence["scripts"]
    valid = [script["valid"] for script in scripts]
    assert valid == [True, True, False, False, True, True]
    # Each run has the tree as the set-up left it, so it never sees what it wrote.
    assert scripts[4]["base"] == [2, 2]
    outcomes = evidence["outcomes"]
    assert set(outcomes["s5"].values()) == {2}
    assert outcomes["s6"] == {"c1": 2, "c2": 0, "c4": 0}
    assert hostile["attempt"] == 2


@pytest.mark.long  # until the limit of time or of the disk
@pytest.mark.parametrize("kind", SLOW)
def test_a_script_that_ends_at_a_limit_counts_as_no_answer(
    harness: Harness, tmp_path: Path, kind: str
) -> None:
    spoil = spoil_scripts({3: SLOW[kind]})
    replies = recording(tmp_path / "replies", spoil)
    prediction = harness.solve(by_evidence(replay=replies), NAME)
    assert prediction["evidence"]["scripts"][2]["valid"] is False
    assert prediction["attempt"] == 2


@pytest.mark.parametrize(
    "kills",
    [
        1,
        pytest.param(10, marks=pytest.mark.long),
    ],
)
def test_a_run_that_is_killed_buys_no_script_twice(
    tmp_path: Path,
    finished: Harness,
    preloaded: Preloaded,
    scripts: ScriptProvider,
    kills: int,
) -> None:
    commands = KilledCommands(preloaded, tmp_path)
    rng = random.Random(20261123)

    def argv(out: Path) -> list[str]:
        models = ",".join(f"{model}@diff" for model in MODELS)
        # What is built once is there before anything is measured.
        settings = (
            "--set models.temperatures=0,0.25 --set choice.stop=all"
            f" --set choice.select=evidence --set folders.cache={finished.cache}"
        )
        run = f"--api-base {scripts.url} --run r --workers 2 --tries 2 --out {out}"
        instance = f"--dataset demo --instances {NAME} --environment local"
        return f"{instance} --models {models} {run} {settings}".split()

    undisturbed = Left(tmp_path / "undisturbed")
    finish = commands.run(argv(undisturbed.out))
    assert finish.code == 0, finish.output
    writes = finish.writes
    needed = hashes(scripts)
    killed = 0
    for number in range(kills):
        scripts.requests.clear()
        disturbed = Left(tmp_path / f"disturbed-{number}")
        command = argv(disturbed.out)
        was_killed = True
        while was_killed and killed < kills:
            # Attempts take two thirds of the writes, and scripts the rest.
            write = rng.randint(writes // 2, writes)
            torn = rng.random() < 0.5
            end = commands.run(command, kill_at=write, torn=torn)
            was_killed = end.code == -9
            killed += was_killed
        finish = commands.run(command)
        assert finish.code == 0, finish.output
        assert disturbed.results() == undisturbed.results()
        assert disturbed.count("answered") == undisturbed.count("answered")
        lost = disturbed.count("lost").total()
        repeated = hashes(scripts) - needed
        assert repeated.total() <= lost
        check_ledger(undisturbed, disturbed)
        if killed == kills:
            break
    assert killed == kills


BEHAVIOUR = """```python
import sys

from textkit.slug import slugify

sys.exit(0 if slugify("a b!") == "a-b" else 2)
```
"""


@pytest.mark.parametrize(
    ("reply", "attempt"),
    [
        (BEHAVIOUR, 2),
        ("NO EVIDENCE", 1),
        (BEHAVIOUR.replace("0 if", "2 if"), 1),
    ],
)
def test_a_close_result_asks_for_a_script_that_tells_the_groups_apart(
    harness: Harness,
    tmp_path: Path,
    reply: str,
    attempt: int,
) -> None:
    """Each of two candidates passes one script; the model sees both patches."""

    def leave_two_attempts(raw: dict[str, Any]) -> None:
        first, _, _, last = raw["attempts"]
        last["attempt"] = 2
        raw["attempts"] = [first, last]
        answer = {"role": "assistant", "content": reply}
        raw["writers"][1]["messages"].append(answer)

    replies = recording(tmp_path / "replies", leave_two_attempts)
    run = by_evidence(replay=replies, tries=1, rounds=1)
    prediction = harness.solve(run, NAME)
    assert prediction["attempt"] == attempt
    scripts = prediction["evidence"]["scripts"]
    assert scripts[6]["source"] == "distinguishing"
    trajectory = read_json(harness.file(f"trajectories/{NAME}.json"))
    writers = trajectory["writers"]
    (writer,) = [writer for writer in writers if writer["attempt"] == -1]
    prompt = writer["messages"][-2]["content"]
    for result in prediction["all_results"]:
        assert result["model_patch"].strip() in prompt


@pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap is not installed")
def test_a_script_sees_nothing_of_the_evaluation(hostile: Any) -> None:
    evidence = hostile["evidence"]
    assert evidence["scripts"][0]["base"] == [2, 2]
    assert set(evidence["outcomes"]["s1"].values()) == {2}


SOURCES = {
    Runner.JEST: "process.exit(CODE)",
    Runner.GO: 'package main\n\nimport "os"\n\nfunc main() { os.Exit(CODE) }\n',
    Runner.PHPUNIT: "<?php exit(CODE);",
    Runner.RSPEC: "exit CODE",
}


@pytest.mark.parametrize("runner", SOURCES)
def test_scripts_of_other_languages_keep_their_exit_code(
    tmp_path: Path, runner: Runner
) -> None:
    language = language_of_runner(runner)
    assert language
    program = language.command.split()[0]
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    path = tmp_path / language.file("1")
    path.parent.mkdir(exist_ok=True)
    for code in (0, 2, 1):
        source = SOURCES[runner].replace("CODE", str(code))
        path.write_text(source)
        command = ["bash", "-c", language.run("1")]
        process = subprocess.run(command, cwd=tmp_path, check=False)
        assert process.returncode == code


def test_languages_without_scripts_that_run_alone_have_no_evidence() -> None:
    assert language_of_runner(Runner.CARGO) is None
    assert language_of_runner(Runner.MAVEN) is None


def test_a_script_that_is_no_text_is_run_all_the_same(hostile: Any) -> None:
    script = hostile["evidence"]["scripts"][1]
    assert script["base"] == [2, 2]
    assert script["valid"] is True


class RefusingProvider(ScriptProvider):
    """Refuses one of the requests for scripts."""

    def answer(self, request: dict[str, Any]) -> Answer:
        prompt = request["messages"][-1]["content"]
        if "tells whether the issue is there" in prompt and "These files" in prompt:
            return Answer(status=400, error={"message": "no"})
        return super().answer(request)


def test_a_live_run_replayed_is_byte_identical(harness: Harness) -> None:
    """A refused script is refused again."""
    with RefusingProvider() as server:
        run = live(server, **EVIDENCE)
        prediction = harness.solve(run, NAME)
        requests = list(server.requests)
        harness.assert_replays(run, NAME)
        assert len(server.requests) == len(requests)
    assert prediction["attempt"] == 2
    notes = [script["note"] for script in prediction["evidence"]["scripts"]]
    assert notes.count("the provider refuses the request") == 2
    assert verified_lines(harness)[-1].endswith("nothing differs")
    # Scripts are charged to the instance, and to the temperature of the last try.
    cost = sum(result["cost"] for result in prediction["all_results"])
    cost += 2 * (100 * 2.5e-6 + 10 * 1e-5)
    cost += 2 * (100 * 1.5e-7 + 10 * 6e-7)
    assert prediction["cost"] == pytest.approx(cost)
    temperatures = []
    for request in requests:
        if "tells whether" in request["messages"][-1]["content"]:
            temperatures.append(request["temperature"])
    assert temperatures == [0.25] * 6


def test_a_damaged_cache_is_measured_again(
    tmp_path: Path, finished: Harness, cache: Path
) -> None:
    own = tmp_path / "cache"
    own.mkdir()
    for name in ("environments", "demo-mirrors", "snapshots", "baselines"):
        (own / name).symlink_to(cache / name)
    shutil.copytree(cache / "scripts", own / "scripts")
    damaged = '{"x": 3, "y": [], "z": ["a"]}'
    paths = list((own / "scripts").glob("*.json"))
    for path in paths:
        path.write_text(damaged)
    harness = Harness(tmp_path, own)
    again = harness.solve(by_evidence(), NAME)
    texts = {path.read_text() for path in paths}
    assert texts > {damaged}
    assert again["evidence"] == finished.prediction(NAME)["evidence"]
    assert again["attempt"] == 2


def test_patches_that_writers_saw_are_no_leak() -> None:
    gold = "    return the_one_and_only_gold(line)\n"
    attempt = Attempt(
        edit_format="diff",
        model_patch=f"+{gold}",
        messages=(
            Message("user", "x"),
            Message("assistant", gold),
        ),
    )
    prompt = Message("user", f"A change:\n+{gold}")
    writer = Attempt(edit_format="diff", messages=(prompt,))
    result = InstanceResult(
        instance_id=NAME,
        attempts=(attempt,),
        writers=(writer,),
    )
    assert not texts_of(result).shows(gold.strip(), "")
    # What no attempt wrote is a leak there as well.
    writer_alone = result.but(attempts=())
    assert texts_of(writer_alone).shows(gold.strip(), "")
