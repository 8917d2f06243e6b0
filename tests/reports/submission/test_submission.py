"""The files of a leaderboard package and their contents."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.errors import UserError
from reports.data.verdicts import SwebenchLogs
from reports.submission.commands import evidence_of
from reports.submission.entry import read_meta
from reports.submission.package import Split
from reports.submission.readme import by_repo, by_time, lists_of
from runs.storage.store import RunStore
from tests.support.evaluated import IDS, RESOLVED, Build, entry_of, whole_output


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
    first, second = build()[1], build(place="again")[1]
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


def test_the_evidence_is_of_the_patch_that_is_predicted(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "r")
    for run_id, patch, report in (
        ("1", "old", "{}"),
        ("2", "new", ""),
        ("3", "new", "{}"),
    ):
        folder = store.logs / f"evaluation/logs/run_evaluation/{run_id}/m/a__b-1"
        folder.mkdir(parents=True)
        (folder / "patch.diff").write_text(patch)
        if report:
            (folder / "report.json").write_text(report)
    logs = SwebenchLogs(store.logs / "evaluation")
    assert "/3/" in str(evidence_of(store, logs, "a__b-1", "m", "new\n")["report.json"])
    assert evidence_of(store, logs, "a__b-1", "m", "other") == {}
    report = store.logs / "a__b-1.report.json"
    report.write_text("{}")
    assert evidence_of(store, logs, "a__b-1", "m", "other") == {"report.json": report}


def test_the_lists_count_the_whole_split() -> None:
    lists = lists_of("dcba", ["d", "b", "a"], {"d": True, "a": False})
    assert (lists.no_generation, lists.no_logs, lists.resolved) == (["c"], ["b"], ["d"])
    rows = [
        {"instance_id": name, "repo": repo, "created_at": when}
        for name, repo, when in (
            ("a", "r/y", "2020-01"),
            ("b", "r/x", "2019"),
            ("c", "r/y", 2020),
        )
    ]
    assert by_repo(rows, ["a"]) == {
        "r/x": {"resolved": 0, "total": 1},
        "r/y": {"resolved": 1, "total": 2},
    }
    assert list(by_time(rows, ["a"]).items()) == [
        ("2019", {"resolved": 0, "total": 1}),
        ("2020", {"resolved": 1, "total": 2}),
    ]


def test_splits() -> None:
    assert (
        Split.of("full") is Split.TEST and Split.TEST.dataset == "SWE-bench/SWE-bench"
    )
    with pytest.raises(
        UserError, match="lite, verified, test, multilingual, multimodal"
    ):
        Split.of("light")


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
    changes: dict[str, Any], said: str, build: Build
) -> None:
    with pytest.raises(UserError, match=said) as caught:
        build(**changes)
    assert str(caught.value).startswith("--meta ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"\xff", b"[", b"a: &a [1]\nb: *a", b"5", b"d: 2024-99-99"]
)
def test_a_broken_meta_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "meta.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"meta\.yaml") as caught:
        read_meta(path)
    assert "\n" not in str(caught.value)


def test_the_template_is_a_meta_file_once_it_is_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "meta.yaml"
    with pytest.raises(UserError, match="it is a new template: fill it in"):
        read_meta(path)
    template = path.read_text()
    with pytest.raises(UserError, match="a TODO is left"):
        read_meta(path)
    lines = [
        line.replace(
            "TODO", "https://a.example/b" if line.split(":")[0] in ADDRESSES else "some"
        )
        for line in template.splitlines()
    ]
    path.write_text("\n".join(lines))
    assert read_meta(path).folder == "some"


ADDRESSES = ("site", "report", "artifacts", "first_author_site")
