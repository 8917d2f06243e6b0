"""The files of a leaderboard package and their contents."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.report.package.conftest import Package, Refusal
from tests.support import contents_below, files_below, read_json, write_files
from tests.support.evaluated import (
    IDS,
    RESOLVED,
    ROWS,
    Build,
    entry_of,
    split_of_dataset,
    whole_output,
    write_meta,
)


def test_a_package_holds_everything_and_validates_clean(
    build: Build, run: Path
) -> None:
    code, folder, printed = build()
    assert code == 0, printed
    assert printed[-1].startswith("validated      0 faults")
    entry = folder / "entry/evaluation/lite/20260131_retry_scripted"
    artifacts = folder / "artifacts"
    expected = {
        artifacts / "all_preds.jsonl",
        entry / "metadata.yaml",
        entry / "README.md",
        entry / "logo.svg",
        entry / "results/results.json",
        entry / "results/resolved_by_repo.json",
        entry / "results/resolved_by_time.json",
    }
    for name in IDS:
        expected |= {
            artifacts / f"trajs/{name}.md",
            artifacts / f"trajs/{name}.json",
            artifacts / f"logs/{name}/patch.diff",
            artifacts / f"logs/{name}/report.json",
            artifacts / f"logs/{name}/test_output.txt.gz",
        }
    assert set(files_below(folder)) == expected
    lines = (artifacts / "all_preds.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["instance_id"] for row in rows] == IDS
    for row in rows:
        assert set(row) == {"instance_id", "model_name_or_path", "model_patch"}
    log = artifacts / "logs" / IDS[0]
    assert (log / "patch.diff").read_text() == rows[0]["model_patch"]
    output = gzip.decompress((log / "test_output.txt.gz").read_bytes())
    assert output.decode() == whole_output(f"PASSED {IDS[0]}\n")
    transcript = (artifacts / f"trajs/{IDS[0]}.md").read_bytes()
    assert transcript == (run / f"{IDS[0]}.md").read_bytes()


def test_the_entry_is_as_the_leaderboard_wants_it(build: Build) -> None:
    _, folder, _ = build()
    entry = entry_of(folder)
    assert read_json(entry / "results/results.json") == {
        "no_generation": [],
        "no_logs": [],
        "resolved": RESOLVED,
    }
    assert read_json(entry / "results/resolved_by_repo.json") == {
        "demo/bank": {"resolved": 2, "total": 2},
        "demo/textkit": {"resolved": 1, "total": 2},
        "demo/units": {"resolved": 0, "total": 2},
    }
    assert read_json(entry / "results/resolved_by_time.json") == {
        "2024": {"resolved": 3, "total": 6}
    }
    metadata = yaml.safe_load((entry / "metadata.yaml").read_text())
    assert metadata == {
        "info": {
            "name": "Retry harness",
            "site": "https://example.org/harness",
            "report": "https://example.org/report",
            "authors": "A. Author, B. Author",
            "logo": "logo.svg",
        },
        "tags": {
            "checked": False,
            "model": ["scripted-a", "scripted-b"],
            "org": "Example",
            "os_model": False,
            "os_system": True,
            "system": {"attempts": "2+"},
            "agent": "Retry harness",
            "agent_org": "Example",
            "model_display": "Scripted",
            "model_org": "Nobody",
        },
        "assets": {
            "repo": "https://example.org/artifacts",
            "logs": "https://example.org/artifacts/tree/main/logs",
            "trajs": "https://example.org/artifacts/tree/main/trajs",
        },
    }


def test_the_same_run_gives_the_same_bytes(build: Build) -> None:
    _, first, _ = build()
    _, second, _ = build(target="again")
    contents = contents_below(first)
    assert contents
    for path, content in contents.items():
        other = second / path.relative_to(first)
        assert other.read_bytes() == content, path


@pytest.mark.parametrize("day", ["2026-01-31", "2025-11-18", "2025-11-17"])
def test_building_warns_of_the_rule_for_research(build: Build, day: str) -> None:
    _, _, printed = build("verified", date=day, os_system=False)
    rule = "note: since 2025-11-18 verified accepts only academic and research"
    assert printed[0].startswith(rule)
    closed = "metadata.yaml says os_system: false, and verified asks for open methods"
    assert (f"note: {closed}" in printed) is (day != "2025-11-17")
    assert printed[-1].startswith("validated      0 faults"), "a note is no fault"


def test_a_secret_of_the_environment_is_redacted(
    build: Build, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "correct-horse-battery")
    log = next(run.parent.parent.glob("logs/r/*.eval.log"))
    log.write_text("header correct-horse-battery\n")
    code, folder, printed = build()
    assert code == 0, printed
    name = log.name.split(".")[0]
    output = folder / f"artifacts/logs/{name}/test_output.txt.gz"
    assert gzip.decompress(output.read_bytes()) == b"header [EXAMPLE_API_KEY]\n"


def test_the_files_of_swebench_are_copied(build: Build, run: Path) -> None:
    name = IDS[0]
    patch = read_json(run / f"{name}.json")["model_patch"]
    folder = run.parent.parent / "logs/r/evaluation/logs/run_evaluation/x/m" / name
    report = (run.parent.parent / f"logs/r/{name}.report.json").read_text()
    texts = {
        "patch.diff": patch,
        "report.json": report,
        "test_output.txt": "PASSED a\n",
        "eval.sh": "#!/bin/bash\npytest\n",
        "run_instance.log": "it ran\n",
    }
    write_files(folder, texts)
    code, package, printed = build()
    assert code == 0, printed
    log = package / "artifacts/logs" / name
    for file in ("eval.sh", "run_instance.log"):
        assert (log / file).read_text() == texts[file]
    assert printed[-1].startswith("validated      0 faults")


def test_the_evidence_is_of_the_patch_that_is_predicted(
    build: Build, run: Path
) -> None:
    """Neither of an earlier patch, nor of an evaluation that failed before its report."""
    name = IDS[0]
    patch = read_json(run / f"{name}.json")["model_patch"]
    logs = run.parent.parent / "logs/r"
    report = (logs / f"{name}.report.json").read_text()
    for number, text, own_report in (
        (1, "old", "{}"),
        (2, patch, ""),
        (3, patch + "\n", report),
    ):
        folder = logs / f"evaluation/logs/run_evaluation/{number}/m/{name}"
        files = {"patch.diff": text, "eval.sh": f"evaluation {number}"}
        if own_report:
            files["report.json"] = own_report
        write_files(folder, files)
    packaged = build()[1] / f"artifacts/logs/{name}"
    assert (packaged / "eval.sh").read_text() == "evaluation 3"
    assert (packaged / "report.json").read_text() == report
    (folder / "patch.diff").write_text("other")
    (folder.parents[2] / f"2/m/{name}/patch.diff").write_text("other")
    packaged = build(target="own")[1] / f"artifacts/logs/{name}"
    assert not (packaged / "eval.sh").exists(), "the report is the one that we saved"
    assert (packaged / "report.json").read_text() == report


def test_the_lists_count_the_whole_split(
    build: Build, run: Path, rows_file: Callable[..., Path]
) -> None:
    (run / f"{IDS[3]}.json").unlink()
    (run.parent.parent / f"logs/r/{IDS[5]}.report.json").unlink()
    rows = []
    by_id = {row["instance_id"]: row for row in ROWS}
    for number, name in enumerate(IDS):
        row = {
            **by_id[name],
            "repo": f"r/{'yx'[number % 2]}",
            "created_at": f"{2020 - number // 3}-01-31",
        }
        rows.append(row)
    rows.append({**rows[5], "instance_id": "r__x-7"})
    dataset = rows_file(rows)
    _, package, _ = build(partial=True, rows=dataset)
    folder = entry_of(package) / "results"
    results = read_json(folder / "results.json")
    assert results["no_generation"] == [IDS[3], "r__x-7"]
    assert results["no_logs"] == [IDS[5]]
    assert results["resolved"] == IDS[:3]
    by_repo = read_json(folder / "resolved_by_repo.json")
    assert list(by_repo.items()) == [
        ("r/x", {"resolved": 1, "total": 4}),
        ("r/y", {"resolved": 2, "total": 3}),
    ]
    by_time = read_json(folder / "resolved_by_time.json")
    assert list(by_time.items()) == [
        ("2019", {"resolved": 0, "total": 4}),
        ("2020", {"resolved": 3, "total": 3}),
    ]


def test_splits(build: Build, refusal: Refusal) -> None:
    _, folder, _ = build("full")
    assert entry_of(folder, "test").is_dir()
    names = "lite, verified, test, multilingual, multimodal"
    assert refusal(split="light", target="other").endswith(
        f": {names}; did you mean lite?"
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"checked": True}, "checked is not a key"),
        ({"os_model": "yes"}, "os_model must be true or false"),
        ({"authors": []}, "authors is empty"),
        ({"model": "gpt-4o"}, "model must be a list"),
        ({"agent": "Harness v1.2"}, "agent name the agent without its version"),
        ({"site": "example.org"}, "site must be a full URL"),
        ({"first_author_site": None}, "first_author_site is missing"),
        ({"affiliations": "University"}, "affiliations must be a list"),
        ({"date": "tomorrow"}, "date must be a date"),
        ({"folder": "a/b"}, "folder"),
        ({"org": None}, "org is missing"),
        ({"name": 5}, "name must be a text"),
        ({"name": "TODO"}, "a TODO is left"),
        ({"web_browsing": True}, "web_measures is empty"),
        ({"logo": "picture.exe"}, "logo must name an image"),
        ({"logo": "other.svg"}, "does not exist"),
    ],
)
def test_a_mistake_in_the_meta_is_one_line(
    changes: dict[str, Any], problem: str, refusal: Refusal
) -> None:
    line = refusal(**changes)
    assert line.startswith("--meta ")
    assert problem in line


@pytest.mark.parametrize(
    "content", [b"\xff", b"[", b"a: &a [1]\nb: *a", b"5", b"d: 2024-99-99"]
)
def test_a_broken_meta_file_is_named(
    content: bytes, run: Path, package: Package, tmp_path: Path
) -> None:
    path = tmp_path / "meta.yaml"
    path.write_bytes(content)
    options = ("--split", "lite", "--meta", path)
    code, lines = package(run, tmp_path / "p", *options)
    assert code == 2
    (line,) = lines
    assert line.startswith(f"error: --meta {path}: ")


def test_the_template_is_a_meta_file_once_it_is_filled_in(
    run: Path, package: Package, tmp_path: Path
) -> None:
    write_meta(tmp_path, {})
    path = tmp_path / "meta.yaml"
    path.unlink()
    folder = tmp_path / "package"
    arguments = (run, folder, "--split", "lite", "--meta", path)
    _, (line,) = package(*arguments)
    assert line.endswith("it is a new template: fill it in")
    template = path.read_text()
    _, (line,) = package(*arguments)
    assert "a TODO is left" in line
    lines = []
    for line in template.replace("logo.svg", "picture.svg").splitlines():
        value = "some"
        if line.split(":")[0] in ADDRESSES:
            value = "https://a.example/b"
        lines.append(line.replace("TODO", value))
    path.write_text("\n".join(lines))
    with split_of_dataset("lite", "demo"):
        code, _ = package(*arguments)
    assert code in (0, 1), "its day may be to come"
    assert (folder / "entry/evaluation/lite/20260930_some").is_dir()


ADDRESSES = ("site", "report", "artifacts", "first_author_site")
