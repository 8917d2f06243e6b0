"""Recorded runs of a small model: its real replies are read and tested as they were.

The runs are those of ``benchmarks.local_model`` by Qwen2.5-Coder 0.5B (docs/evidence.md), with
twelve exercises of Exercism (MIT), on a server of one's own:

    python -m benchmarks.local_model --server URL --tries 1 --formats whole \\
        --source exercises/tests/data/local-model/exercises.tar.gz --out FOLDER
    python -m exercises.tests.exercism.running.test_local_model FOLDER/predictions/ours NAME

The second command takes a run into ``exercises/tests/data/local-model/NAME``.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from exercises.tests.support.exercism import ExerciseRun, main, needs_bubblewrap
from swe_retry.llm.chat import Reply
from swe_retry.runner.modelsource import read_recording
from swe_retry_exercises.exercism.results import KEY, read_facts, read_result

DATA = Path(__file__).parents[2] / "data/local-model"
EXERCISES = DATA / "exercises.tar.gz"
RUNS = sorted(path.parent for path in DATA.glob("*/run.json"))
LEAST_REPLIES = 40


def take(run: Path, name: str) -> None:
    """Copy what a report and a replay read, without the paths of the machine."""
    shutil.rmtree(DATA / name, ignore_errors=True)
    described = json.loads((run / "run.json").read_text())
    source = described["config"]["exercises"]
    for path in [
        run / "run.json",
        *run.glob("results/*/*/*.json"),
        *run.glob("traj*/*"),
    ]:
        target = DATA / name / path.relative_to(run)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text().replace(source, "exercises.tar.gz")
        data = json.loads(text)
        if KEY in data:
            data[KEY]["command"] = ""
        target.write_text(json.dumps(data, indent=0) + "\n")


def outcomes(run: Path) -> dict[str, tuple[object, ...]]:
    """Return how each exercise ended, and how many replies were malformed."""
    by_path: dict[str, tuple[object, ...]] = {}
    for path in sorted(run.glob("results/*/*/*.json")):
        result = read_result(path)
        malformed = result.num_malformed_responses
        ending = (str(result.status), result.tests_outcomes, malformed)
        by_path[str(path.relative_to(run))] = ending
    return by_path


def test_the_recordings_have_real_replies_with_their_requests() -> None:
    replies: list[Reply] = []
    for path in DATA.glob("*/trajectories/*.json"):
        for attempt in read_recording(path).values():
            assert attempt.messages
            assert attempt.calls
            answers = [m for m in attempt.messages if m.role == "assistant"]
            assert len(answers) == len(attempt.calls)
            assert attempt.messages[1].content.startswith("These are the files:")
            replies += attempt.calls
    assert len(replies) >= LEAST_REPLIES
    for reply in replies:
        assert reply.usage
        assert reply.seconds > 0


# The format whose replies are hardest to read in CI, the others in `make test-long`.
ROWS = []
for run in RUNS:
    marks = [] if run.name == "diff" else [pytest.mark.long]
    ROWS.append(pytest.param(run, id=run.name, marks=marks))


@pytest.mark.run
@needs_bubblewrap
@pytest.mark.parametrize("recorded", ROWS)
def test_a_replay_gives_the_outcomes_of_real_replies(
    recorded: Path, tmp_path: Path
) -> None:
    facts = read_facts(recorded)
    [model] = {column.model for column in facts.columns}
    formats = ",".join(column.edit_format for column in facts.columns)
    run = ExerciseRun(tmp_path, tmp_path / "cache")
    argv = run.argv(None, EXERCISES)
    argv[argv.index("--models") + 1] = model
    options = ["--formats", formats, "--replay", recorded, "--tries", facts.tries]
    assert main(["run", *argv, *options]) == 0
    expected = outcomes(recorded)
    assert len(expected) == len(facts.columns) * len(facts.exercises)
    assert outcomes(run.folder) == expected


if __name__ == "__main__":
    take(Path(sys.argv[1]), sys.argv[2])
