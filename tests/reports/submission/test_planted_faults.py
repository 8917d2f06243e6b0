"""The validator finds a planted fault of every kind."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.submission.package import Kind
from tests.support.evaluated import ID, IDS, KEY, ROW, Change, Package, append, change_json, diff

Plant = Callable[[Package], object]
Fault = tuple[Plant, Kind, str]


def edit_patch(package: Package, text: str) -> None:
    """Append to all copies of one patch, so that only the patch itself has a fault."""

    def recorded(data: dict[str, Any]) -> None:
        winner = next(a for a in data["attempts"] if a["attempt"] == data["winner"])
        winner["recorded"]["model_patch"] += text

    package.change_prediction(lambda row: row.update(model_patch=row["model_patch"] + text))
    append(package.logs / "patch.diff", text)
    change_json(package.trajectory, recorded)


def second_line(package: Package) -> None:
    path = package.artifacts / "all_preds.jsonl"
    append(path, path.read_text().splitlines()[0] + "\n")


def second_entry(package: Package) -> None:
    shutil.copytree(package.entry, package.entry.with_name("20260201_again"))


def link(package: Package) -> None:
    (package.artifacts / f"trajs/{ID}.md").unlink()
    (package.artifacts / f"trajs/{ID}.md").symlink_to("/etc/passwd")


def link_to_folder(package: Package) -> None:
    shutil.rmtree(package.artifacts / "logs")
    (package.artifacts / "logs").symlink_to("/etc")


def pipe(package: Package) -> None:
    (package.artifacts / "all_preds.jsonl").unlink()
    os.mkfifo(package.artifacts / "all_preds.jsonl")


def huge(package: Package) -> None:
    with (package.artifacts / "trajs" / f"{ID}.md").open("r+") as stream:
        stream.truncate(10**9)


def bomb(package: Package) -> None:
    data = gzip.compress(b"\0" * 20_000_000)
    (package.logs / "test_output.txt.gz").write_bytes(data)


def log_with(text: bytes) -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        (package.logs / "test_output.txt.gz").write_bytes(gzip.compress(text))

    return plant


def rename_entry(name: str, split: str = "lite") -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        place = package.root / "entry/evaluation" / split / name
        place.parent.mkdir(exist_ok=True)
        package.entry.rename(place)

    return plant


def in_results(name: str, change: Any) -> Callable[[Package], None]:
    return lambda package: change_json(package.entry / "results" / name, change)


def in_trajectory(change: Change) -> Callable[[Package], None]:
    return lambda package: change_json(package.trajectory, change)


def in_metadata(change: Change) -> Callable[[Package], None]:
    return lambda package: package.change_metadata(change)


def in_prediction(change: Change) -> Callable[[Package], None]:
    return lambda package: package.change_prediction(change)


def delete(place: Callable[[Package], Path]) -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        path = place(package)
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return plant


def in_file(place: Callable[[Package], Path], content: bytes) -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        place(package).parent.mkdir(parents=True, exist_ok=True)
        place(package).write_bytes(content)

    return plant


def unsay(text: str) -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        path = package.entry / "README.md"
        assert text in path.read_text()
        path.write_text(path.read_text().replace(text, ""))

    return plant


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


ENTRY_FAULTS: dict[str, Fault] = {
    "checked as a text": (
        in_metadata(lambda d: d["tags"].update(checked="false")), Kind.METADATA, "true or false",
    ),
    "checked by oneself": (
        in_metadata(lambda d: d["tags"].update(checked=True)), Kind.METADATA, "maintainers",
    ),
    "os_model as a text": (
        in_metadata(lambda d: d["tags"].update(os_model="no")), Kind.METADATA, "tags: os_model",
    ),
    "attempts as a number": (
        in_metadata(lambda d: d["tags"]["system"].update(attempts=1)), Kind.METADATA, "attempts",
    ),
    "a version in the agent": (
        in_metadata(lambda d: d["tags"].update(agent="Harness 1.2")), Kind.METADATA, "version",
    ),
    "a key is missing": (
        in_metadata(lambda d: d["assets"].pop("trajs")), Kind.METADATA, "assets: trajs",
    ),
    "one model as a text": (
        in_metadata(lambda d: d["tags"].update(model="gpt-4o")), Kind.METADATA, "must be a list",
    ),
    "no address": (
        in_metadata(lambda d: d["info"].update(site="example")), Kind.METADATA, "info: site",
    ),
    "a logo elsewhere": (
        in_metadata(lambda d: d["info"].update(logo="../x.svg")), Kind.METADATA, "not a file of",
    ),
    "no date in the name": (rename_entry("retry"), Kind.NAME, "YYYYMMDD_name"),
    "no such day": (rename_entry("20260230_retry"), Kind.NAME, "YYYYMMDD_name"),
    "a day to come": (rename_entry("20300101_retry"), Kind.NAME, "in the future"),
    "an endless model name": (
        in_prediction(lambda row: row.update(model_name_or_path="m" * 9999)),
        Kind.MODEL_NAME, "mmm",
    ),
    "no such split": (rename_entry("20260101_a", "light"), Kind.NAME, "folder of a split"),
    "nothing on hints": (unsay("`hints`"), Kind.README, "hints"),
    "nothing on browsing": (unsay("Does not have web browsing."), Kind.README, "web browsing"),
    "no summary of the results": (unsay("Resolved 2 instances"), Kind.README, "get_results.py"),
    "another summary of the results": (
        lambda p: append(p.entry / "README.md", "Resolved 6 instances (100.0%)\n"),
        Kind.README, "'Resolved 6 instances (100.0%)', but predictions and reports give",
    ),
    "an open box": (
        lambda p: append(p.entry / "README.md", "- [ ] more\n"), Kind.README, "open",
    ),
    "another list": (
        in_results("results.json", lambda d: d.update(generated=[])), Kind.RESULTS, "Extra inputs",
    ),
    "no list": (
        in_results("results.json", lambda d: d.update(resolved=3)), Kind.RESULTS, "valid list",
    ),
    "not sorted": (
        in_results("results.json", lambda d: d["resolved"].reverse()), Kind.RESULTS, "not sorted",
    ),
    "resolved without a report": (
        in_results("results.json", lambda d: d["resolved"].append(IDS[5])),
        Kind.RESULTS, f"resolved names {IDS[5]}",
    ),
    "resolved and left out": (
        in_results("results.json", lambda d: d["resolved"].pop()), Kind.RESULTS, "does not name",
    ),
    "no logs and not said": (
        in_results("results.json", lambda d: d["no_logs"].clear()), Kind.RESULTS, "no_logs",
    ),
    "generated and denied": (
        in_results("results.json", lambda d: d["no_generation"].append(ID)),
        Kind.RESULTS, "no_generation names",
    ),
    "a smaller denominator": (
        in_results("resolved_by_repo.json", lambda d: d["demo/bank"].update(total=1)),
        Kind.RESULTS, "demo/bank",
    ),
    "a year left out": (
        in_results("resolved_by_time.json", lambda d: d.clear()), Kind.RESULTS, "2024",
    ),
    "shares of another shape": (
        in_results("resolved_by_repo.json", lambda d: d.update({"demo/bank": 0.5})),
        Kind.RESULTS, "valid dictionary",
    ),
}  # fmt: skip


FILE_FAULTS: dict[str, Fault] = {
    "no predictions": (delete(lambda p: p.artifacts / "all_preds.jsonl"), Kind.MISSING, "_preds"),
    "no artifacts": (delete(lambda p: p.artifacts), Kind.MISSING, "add the artifacts"),
    "no entry": (delete(lambda p: p.root / "entry"), Kind.MISSING, "add the entry"),
    "no logs": (delete(lambda p: p.artifacts / "logs"), Kind.MISSING, "artifacts/logs"),
    "no patch.diff": (delete(lambda p: p.logs / "patch.diff"), Kind.MISSING, "patch.diff"),
    "no test output": (
        delete(lambda p: p.logs / "test_output.txt.gz"), Kind.MISSING, "test_output.txt.gz",
    ),
    "no trajectories": (delete(lambda p: p.artifacts / "trajs"), Kind.MISSING, "artifacts/trajs"),
    "no logo": (delete(lambda p: p.entry / "logo.svg"), Kind.MISSING, "logo"),
    "no readme": (delete(lambda p: p.entry / "README.md"), Kind.MISSING, "README.md"),
    "no metadata": (delete(lambda p: p.entry / "metadata.yaml"), Kind.MISSING, "metadata.yaml"),
    "no results": (delete(lambda p: p.entry / "results"), Kind.MISSING, "results.json"),
    "not UTF-8": (in_file(lambda p: p.trajectory, b"\xff"), Kind.UNREADABLE, "not UTF-8"),
    "not JSON": (in_file(lambda p: p.trajectory, b"{"), Kind.UNREADABLE, "not JSON"),
    "deep JSON": (in_file(lambda p: p.trajectory, b"[" * 99_999), Kind.UNREADABLE, "not JSON"),
    "not YAML": (
        in_file(lambda p: p.entry / "metadata.yaml", b"["), Kind.UNREADABLE, "not YAML",
    ),
    "YAML aliases": (
        in_file(lambda p: p.entry / "metadata.yaml", b"a: &a [1]\nb: [*a, *a]"),
        Kind.UNREADABLE, "aliases",
    ),
    "half a character": (
        in_prediction(lambda row: row.update(model_patch="\ud800")), Kind.UNREADABLE, "three keys",
    ),
    "a number for a patch": (
        in_prediction(lambda row: row.update(model_patch=5)), Kind.UNREADABLE, "not a prediction",
    ),
    "a blank line": (
        lambda p: append(p.artifacts / "all_preds.jsonl", "\n\n"), Kind.UNREADABLE, "blank",
    ),
    "cut gzip": (
        in_file(lambda p: p.logs / "test_output.txt.gz", gzip.compress(b"x" * 99)[:-9]),
        Kind.UNREADABLE, "not a complete gzip file",
    ),
    "no gzip": (
        in_file(lambda p: p.logs / "test_output.txt.gz", b"text"), Kind.UNREADABLE,
        "not a complete gzip",
    ),
    "a link": (link, Kind.LINK, f"{ID}.md"),
    "a link to a folder": (link_to_folder, Kind.LINK, "artifacts/logs"),
    "a pipe": (pipe, Kind.LINK, "all_preds.jsonl"),
    "a huge file": (huge, Kind.SIZE, f"{ID}.md"),
    "a gzip bomb": (bomb, Kind.SIZE, "too large when unpacked"),
    "much in all": (
        lambda p: [(p.artifacts / f"x{n}").write_bytes(bytes(290_000)) for n in range(7)],
        Kind.SIZE, "GitHub asks",
    ),
    "a TODO in the readme": (
        lambda p: append(p.entry / "README.md", "\nTODO\n"), Kind.TODO, "README.md:",
    ),
    "a TODO in the metadata": (
        in_metadata(lambda d: d["info"].update(name="TODO")), Kind.TODO, "metadata.yaml:",
    ),
    "a key in a trajectory": (lambda p: p.say(KEY), Kind.SECRET, "a key of Anthropic"),
    "a key in a test output": (
        log_with(b"x" * 65_499 + b" " + KEY.encode()), Kind.SECRET, "test_output.txt.gz",
    ),
    "a key in the readme": (
        lambda p: append(p.entry / "README.md", "ghp_" + "a1" * 18), Kind.SECRET, "GitHub",
    ),
    "an id of another dataset": (
        in_prediction(lambda row: row.update(instance_id="a__b-1")), Kind.UNKNOWN_ID, "a__b-1",
    ),
    "logs of another dataset": (
        in_file(lambda p: p.artifacts / "logs/a__b-1/patch.diff", b""), Kind.UNKNOWN_ID, "a__b-1",
    ),
    "a trajectory of another dataset": (
        in_file(lambda p: p.artifacts / "trajs/a__b-1.md", b"x"), Kind.UNKNOWN_ID, "a__b-1.md",
    ),
    "two predictions": (second_line, Kind.DUPLICATE, "2 predictions for"),
    "two entries": (second_entry, Kind.DUPLICATE, "20260201_again"),
    "two model names": (
        in_prediction(lambda row: row.update(model_name_or_path="other")), Kind.MODEL_NAME, "other",
    ),
    "an edited test": (
        lambda p: edit_patch(p, diff("tests/test_new.py")), Kind.TEST_EDIT, "tests/test_new.py",
    ),
    "new test configuration": (
        lambda p: edit_patch(p, diff("bank/conftest.py")), Kind.TEST_EDIT, "bank/conftest.py",
    ),
    "an edited test in a plain diff": (
        in_prediction(
            lambda row: row.update(
                model_patch="--- a/tests/test_x.py\n+++ b/tests/test_x.py\n@@ -1 +1 @@\n-a\n+b\n"
            )
        ),
        Kind.TEST_EDIT, "tests/test_x.py",
    ),
    "a patch that does not apply": (
        lambda p: edit_patch(p, diff("bank/account.py", "no such line")), Kind.PATCH, "not apply",
    ),
    "a patch of no file": (
        in_prediction(lambda row: row.update(model_patch="fix it")), Kind.PATCH, "names no file",
    ),
}  # fmt: skip


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
