"""Faults of the entry: the change that plants it, its kind, and words of its line."""

from __future__ import annotations

from reports.submission.package import Kind
from tests.reports.submission.packages import ID, IDS, append
from tests.reports.submission.planting import (
    Fault,
    in_metadata,
    in_prediction,
    in_results,
    rename_entry,
    unsay,
)

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
