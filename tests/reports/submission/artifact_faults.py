"""Faults of logs and trajectories: the change that plants it, its kind, and words of its line."""

from __future__ import annotations

from reports.submission.package import Kind
from tests.reports.evaluated_run import change_json
from tests.reports.submission.packages import ID, ROW, append
from tests.reports.submission.planting import Fault, in_file, in_metadata, in_trajectory

ARTIFACT_FAULTS: dict[str, Fault] = {
    "another patch evaluated": (
        lambda p: append(p.logs / "patch.diff", "more"), Kind.LOGS, "differs from the predicted",
    ),
    "a report that says nothing": (
        in_file(lambda p: p.logs / "report.json", b'{"demo__bank-1": {"resolved": 1}}'),
        Kind.LOGS, "does not say",
    ),
    "a report turned": (
        lambda p: change_json(p.logs / "report.json", lambda d: d[ID].update(resolved=True)),
        Kind.RESULTS, f"does not name {ID}",
    ),
    "no trajectory": (
        lambda p: [f.unlink() for f in (p.artifacts / "trajs").glob(f"{ID}.*")],
        Kind.TRAJECTORY, "is missing",
    ),
    "no transcript": (
        lambda p: (p.artifacts / f"trajs/{ID}.md").unlink(), Kind.TRAJECTORY, f"{ID}.md",
    ),
    "an empty trajectory": (in_file(lambda p: p.trajectory, b" "), Kind.TRAJECTORY, "empty"),
    "trajectories in folders": (
        in_file(lambda p: p.artifacts / f"trajs/{ID}/1.md", b"x"), Kind.TRAJECTORY, "is a folder",
    ),
    "an attempt left out": (
        in_trajectory(lambda d: d["attempts"].pop(0)), Kind.ATTEMPTS, "has the attempts",
    ),
    "an attempt left out of the transcript": (
        lambda p: (p.artifacts / f"trajs/{ID}.md").write_text("# nothing\n"),
        Kind.ATTEMPTS, "does not show attempt 1",
    ),
    "messages left out": (
        in_trajectory(lambda d: d["attempts"][0].update(messages=[])), Kind.ATTEMPTS, "no messages",
    ),
    "no reason": (in_trajectory(lambda d: d.update(reason="")), Kind.ATTEMPTS, "why the winner"),
    "half a character in the winner": (
        in_trajectory(
            lambda d: [
                a["recorded"].update(model_patch="diff --git \nnew file mode 1\n\ud800")
                for a in d["attempts"]
            ]
        ),
        Kind.ATTEMPTS, "its winner",
    ),
    "another winner": (in_trajectory(lambda d: d.update(winner=6)), Kind.ATTEMPTS, "its winner"),
    "several attempts tagged as one": (
        in_metadata(lambda d: d["tags"]["system"].update(attempts="1")), Kind.ATTEMPTS, "2+",
    ),
    "another harness's without the choice": (
        lambda p: [
            (p.artifacts / f"trajs/{ID}.json").unlink(),
            (p.artifacts / f"trajs/{ID}.md").write_text("I did it."),
        ],
        Kind.ATTEMPTS, "all attempts",
    ),
    "the gold patch": (lambda p: p.say(ROW["patch"]), Kind.TRACE, "the gold patch"),
    "the hidden tests": (lambda p: p.say(ROW["test_patch"]), Kind.TRACE, "the hidden tests"),
    "the name of a hidden test": (
        lambda p: p.say(f"Make {ROW['FAIL_TO_PASS'][0]} pass."), Kind.TRACE, "the hidden tests",
    ),
    "the lists of tests": (
        lambda p: p.say("FAIL_TO_PASS: see below"), Kind.TRACE, "lists of tests",
    ),
    "the hidden tests in a transcript": (
        lambda p: append(p.artifacts / f"trajs/{ID}.md", ROW["test_patch"]),
        Kind.TRACE, f"{ID}.md: shows the hidden tests",
    ),
    "the hidden tests after the model's word": (
        lambda p: p.say(ROW["test_patch"], place=3), Kind.TRACE, "the hidden tests",
    ),
    "the hidden tests beside the messages": (
        in_trajectory(lambda d: d.update(notes=ROW["test_patch"])), Kind.TRACE, "hidden tests",
    ),
}  # fmt: skip
