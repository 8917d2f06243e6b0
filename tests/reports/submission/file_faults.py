"""Faults of files and predictions: the change that plants it, its kind, and words of its line."""

from __future__ import annotations

import gzip

from reports.submission.package import Kind
from tests.reports.submission.packages import ID, KEY, append, diff
from tests.reports.submission.planting import (
    Fault,
    bomb,
    delete,
    edit_patch,
    huge,
    in_file,
    in_metadata,
    in_prediction,
    link,
    link_to_folder,
    log_with,
    pipe,
    second_entry,
    second_line,
)

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
