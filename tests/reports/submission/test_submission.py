"""The files of a leaderboard package and their contents."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.reports.submission.conftest import Package
from tests.support.evaluated import (
    IDS,
    RESOLVED,
    ROWS,
    Build,
    entry_of,
    whole_output,
    write_meta,
)

Refusal = Callable[..., str]


def test_a_package_holds_everything_and_validates_clean(
    build: Build, run: Path
) -> None:
    code, folder, said = build()
    assert code == 0, said
    assert said[-1].startswith("validated      0 faults")
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    inner = "entry/evaluation/lite/20260131_retry_scripted"
    per_log = ("patch.diff", "report.json", "test_output.txt.gz")
    assert found == {
        "artifacts/all_preds.jsonl",
        *(f"artifacts/trajs/{name}.{end}" for name in IDS for end in ("md", "json")),
        *(f"artifacts/logs/{name}/{end}" for name in IDS for end in per_log),
        *(f"{inner}/{name}" for name in ("metadata.yaml", "README.md", "logo.svg")),
        f"{inner}/results/results.json",
        f"{inner}/results/resolved_by_repo.json",
        f"{inner}/results/resolved_by_time.json",
    }
    lines = (folder / "artifacts/all_preds.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["instance_id"] for row in rows] == IDS
    assert all(
        set(r) == {"instance_id", "model_name_or_path", "model_patch"} for r in rows
    )
    log = folder / "artifacts/logs" / IDS[0]
    assert (log / "patch.diff").read_text() == rows[0]["model_patch"]
    output = gzip.decompress((log / "test_output.txt.gz").read_bytes()).decode()
    assert output == whole_output(f"PASSED {IDS[0]}\n")
    transcript = (folder / f"artifacts/trajs/{IDS[0]}.md").read_bytes()
    assert transcript == (run / f"{IDS[0]}.md").read_bytes()


def test_the_entry_is_as_the_leaderboard_wants_it(build: Build) -> None:
    place = entry_of(build()[1])
    assert json.loads((place / "results/results.json").read_text()) == {
        "no_generation": [],
        "no_logs": [],
        "resolved": RESOLVED,
    }
    assert json.loads((place / "results/resolved_by_repo.json").read_text()) == {
        "demo/bank": {"resolved": 2, "total": 2},
        "demo/textkit": {"resolved": 1, "total": 2},
        "demo/units": {"resolved": 0, "total": 2},
    }
    assert json.loads((place / "results/resolved_by_time.json").read_text()) == {
        "2024": {"resolved": 3, "total": 6}
    }
    assert yaml.safe_load((place / "metadata.yaml").read_text()) == {
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
    first = build()[1]
    second = build(place="again")[1]
    files = [p for p in first.rglob("*") if p.is_file()]
    assert files
    for path in files:
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes(), (
            path
        )


@pytest.mark.parametrize("day", ["2026-01-31", "2025-11-18", "2025-11-17"])
def test_building_warns_of_the_rule_for_research(build: Build, day: str) -> None:
    said = build("verified", date=day, os_system=False)[2]
    assert said[0].startswith(
        "note: since 2025-11-18 verified accepts only academic and research"
    )
    asks = (
        "note: metadata.yaml says os_system: false, and verified asks for open methods"
    )
    assert (asks in said) is (day != "2025-11-17")
    assert said[-1].startswith("validated      0 faults"), "a note is no fault"


def test_a_secret_of_the_environment_is_redacted(
    build: Build, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "correct-horse-battery")
    log = next(run.parent.parent.glob("logs/r/*.eval.log"))
    log.write_text("header correct-horse-battery\n")
    code, folder, said = build()
    assert code == 0, said
    name = log.name.split(".")[0]
    output = gzip.decompress(
        (folder / f"artifacts/logs/{name}/test_output.txt.gz").read_bytes()
    )
    assert output == b"header [EXAMPLE_API_KEY]\n"


def test_the_files_of_swebench_are_copied(build: Build, run: Path) -> None:
    name = IDS[0]
    patch = json.loads((run / f"{name}.json").read_text())["model_patch"]
    folder = run.parent.parent / "logs/r/evaluation/logs/run_evaluation/x/m" / name
    folder.mkdir(parents=True)
    report = next(run.parent.parent.glob(f"logs/r/{name}.report.json")).read_text()
    texts = {
        "patch.diff": patch,
        "report.json": report,
        "test_output.txt": "PASSED a\n",
        "eval.sh": "#!/bin/bash\npytest\n",
        "run_instance.log": "it ran\n",
    }
    for file, text in texts.items():
        (folder / file).write_text(text)
    code, made, said = build()
    assert code == 0, said
    log = made / "artifacts/logs" / name
    assert (log / "eval.sh").read_text() == texts["eval.sh"]
    assert (log / "run_instance.log").read_text() == texts["run_instance.log"]
    assert said[-1].startswith("validated      0 faults")


def test_the_evidence_is_of_the_patch_that_is_predicted(
    build: Build, run: Path
) -> None:
    """Neither of an earlier patch, nor of an evaluation that failed before its report."""
    name = IDS[0]
    patch = json.loads((run / f"{name}.json").read_text())["model_patch"]
    logs = run.parent.parent / "logs/r"
    report = (logs / f"{name}.report.json").read_text()
    for number, text, own_report in (
        (1, "old", "{}"),
        (2, patch, ""),
        (3, patch + "\n", report),
    ):
        folder = logs / f"evaluation/logs/run_evaluation/{number}/m/{name}"
        folder.mkdir(parents=True)
        (folder / "patch.diff").write_text(text)
        (folder / "eval.sh").write_text(f"evaluation {number}")
        if own_report:
            (folder / "report.json").write_text(own_report)
    made = build()[1] / f"artifacts/logs/{name}"
    assert (made / "eval.sh").read_text() == "evaluation 3"
    assert (made / "report.json").read_text() == report
    (folder / "patch.diff").write_text("other")
    (folder.parents[2] / f"2/m/{name}/patch.diff").write_text("other")
    made = build(place="own")[1] / f"artifacts/logs/{name}"
    assert not (made / "eval.sh").exists(), "the report is the one that we saved"
    assert (made / "report.json").read_text() == report


def test_the_lists_count_the_whole_split(
    build: Build,
    run: Path,
    rows_file: Callable[..., Path],
) -> None:
    (run / f"{IDS[3]}.json").unlink()
    (run.parent.parent / f"logs/r/{IDS[5]}.report.json").unlink()
    rows = []
    for number, row in enumerate(sorted(ROWS, key=lambda row: row["instance_id"])):
        year = f"{2020 - number // 3}-01-31"
        rows.append({**row, "repo": f"r/{'yx'[number % 2]}", "created_at": year})
    dataset = rows_file([*rows, {**rows[5], "instance_id": "r__x-7"}])
    folder = entry_of(build(partial=True, dataset=dataset)[1]) / "results"
    results = json.loads((folder / "results.json").read_text())
    assert results["no_generation"] == [IDS[3], "r__x-7"]
    assert results["no_logs"] == [IDS[5]]
    assert results["resolved"] == IDS[:3]
    by_repo = json.loads((folder / "resolved_by_repo.json").read_text())
    assert list(by_repo.items()) == [
        ("r/x", {"resolved": 1, "total": 4}),
        ("r/y", {"resolved": 2, "total": 3}),
    ]
    by_time = json.loads((folder / "resolved_by_time.json").read_text())
    assert list(by_time.items()) == [
        ("2019", {"resolved": 0, "total": 4}),
        ("2020", {"resolved": 3, "total": 3}),
    ]


def test_splits(build: Build, refusal: Refusal) -> None:
    assert entry_of(build("full")[1], "test").is_dir()
    names = "lite, verified, test, multilingual, multimodal"
    assert refusal(split="light", place="other").endswith(f"leaderboard: {names}")


@pytest.mark.parametrize(
    ("changes", "said"),
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
    changes: dict[str, Any],
    said: str,
    refusal: Refusal,
) -> None:
    line = refusal(**changes)
    assert line.startswith("--meta ") and said in line


@pytest.mark.parametrize(
    "content", [b"\xff", b"[", b"a: &a [1]\nb: *a", b"5", b"d: 2024-99-99"]
)
def test_a_broken_meta_file_is_named(
    content: bytes, run: Path, package: Package, tmp_path: Path
) -> None:
    path = tmp_path / "meta.yaml"
    path.write_bytes(content)
    code, lines = package(run, tmp_path / "p", "--split", "lite", "--meta", path)
    assert code == 2
    (line,) = lines
    assert line.startswith(f"error: --meta {path}: ")


def test_the_template_is_a_meta_file_once_it_is_filled_in(
    run: Path, package: Package, tmp_path: Path
) -> None:
    write_meta(tmp_path, {})
    path = tmp_path / "meta.yaml"
    path.unlink()
    words = (run, tmp_path / "package", "--split", "lite", "--meta", path)
    (line,) = package(*words)[1]
    assert line.endswith("it is a new template: fill it in")
    template = path.read_text()
    (line,) = package(*words)[1]
    assert "a TODO is left" in line
    lines = [
        line.replace(
            "TODO", "https://a.example/b" if line.split(":")[0] in ADDRESSES else "some"
        ).replace("logo.svg", "picture.svg")
        for line in template.splitlines()
    ]
    path.write_text("\n".join(lines))
    assert package(*words)[0] in (0, 1), "its day may be to come"
    assert (tmp_path / "package/entry/evaluation/lite/20260930_some").is_dir()


ADDRESSES = ("site", "report", "artifacts", "first_author_site")
