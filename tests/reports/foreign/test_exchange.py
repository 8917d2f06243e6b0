"""Runs of others work in every report, and our runs come back from the layouts of others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.reports.foreign.conftest import Report
from tests.reports.foreign.test_reading import ONE, SAMPLES, TALK, preds
from tests.support import read_json
from tests.support.evaluated import write_meta, write_verdicts
from tests.support.foreign import (
    CRASHED,
    NAME,
    PATCH,
    RESOLVED,
    WRONG,
    Talk,
    Turn,
    atif,
    extensions,
    mini,
    mini_text,
)

HOSTILE = "<script>alert(1)</script>"
LAYOUTS = ("atif", "mini")
# Of the agent that the run was made by, other layouts have the name alone or nothing.
OF_AGENTS = ("agent", "agent_type")
NOT_EXCHANGED = {"all_results", "tries", "temperature", "edited_files", "test_note"}
IN_CONVERSATIONS = ("edit_format", "messages", "totals", "reflections", "seconds")


def without_agents(value: Any) -> Any:
    """Return a JSON value without the names and versions of agents."""
    if isinstance(value, list):
        return [without_agents(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: without_agents(part) for key, part in value.items() if key not in OF_AGENTS
    }


def exchanged(result: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a prediction that exports keep, without marks of an import."""
    return {
        key: value
        for key, value in result.items()
        if key not in {*NOT_EXCHANGED, "imported", "outcomes_known"}
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_exported_run_comes_back_with_the_same_attempts(
    layout: str, ours: Path, report: Report, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    report.converted(ours, layout, run)
    records = report.records(run)
    assert sorted(records) == sorted(path.stem for path in ours.glob("demo__*.json"))
    for name, (prediction, trajectory) in records.items():
        original = read_json(ours / f"{name}.json")
        assert exchanged(prediction) == exchanged(original)
        assert len(original["all_results"]) == 6
        results = zip(prediction["all_results"], original["all_results"], strict=True)
        for result, of_original in results:
            # Our own files are predicted without tests, those of others as they are.
            patch = of_original.pop("model_patch")
            assert result.pop("model_patch") in patch
            assert exchanged(result) == exchanged(of_original)
        of_ours = read_json(ours / f"trajectories/{name}.json")
        assert trajectory["winner"] == of_ours["winner"]
        attempts = zip(trajectory["attempts"], of_ours["attempts"], strict=True)
        for attempt, of_our_attempt in attempts:
            if of_our_attempt["messages"]:
                assert attempt["messages"] == of_our_attempt["messages"]
            for key in ("status", "cost", "reflections", "seconds", "error"):
                assert attempt[key] == of_our_attempt[key]
    code, out, error = report("convert", ours, layout, run)
    assert (code, out) == (2, "")
    assert error.startswith(f"error: {run} exists")


def with_costs_of_calls(run: Path, folder: Path) -> Path:
    """Return a copy of a replay whose calls took time and cost money."""
    copy = Path(shutil.copytree(run, folder / "predictions/run"))
    for path in (copy / "trajectories").glob("*.json"):
        trajectory = read_json(path)
        for attempt in trajectory["attempts"]:
            for number, call in enumerate(attempt["calls"], 1):
                usage = {"prompt_tokens": 100 * number, "completion_tokens": number}
                call |= {"seconds": number / 4, "cost": number / 8, "usage": usage}
        path.write_text(json.dumps(trajectory))
    return copy


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("again", LAYOUTS)
def test_an_exported_run_is_exported_again_as_the_same_files(
    layout: str,
    again: str,
    ours: Path,
    report: Report,
    tmp_path: Path,
) -> None:
    """Also the numbers of each call come back, which an import does not keep."""
    run = with_costs_of_calls(ours, tmp_path)
    report.converted(run, layout, tmp_path / "once")
    twice = report.converted(tmp_path / "once", again, tmp_path / "twice")
    direct = report.converted(run, again, tmp_path / "direct")
    assert without_agents(twice) == without_agents(direct)
    assert len(direct) == (6 if again == "atif" else 37)
    text = json.dumps(direct)
    for value in ('"seconds": 0.75', '"prompt_tokens": 300', "0.375"):
        assert value in text


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("again", LAYOUTS)
@pytest.mark.parametrize("kind", ["sample", "without ids of calls"])
def test_a_run_of_others_is_exported_too(
    kind: str,
    layout: str,
    again: str,
    report: Report,
    tmp_path: Path,
) -> None:
    run = SAMPLES / "mini"
    if kind != "sample":
        run = mini_text(TALK, tmp_path / "run")
        preds(run, {NAME: {**ONE, "instance_id": NAME}})
    report.converted(run, layout, tmp_path / "once")
    twice = report.converted(tmp_path / "once", again, tmp_path / "twice")
    direct = report.converted(run, again, tmp_path / "direct")
    assert without_agents(twice) == without_agents(direct)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_agent_stands_behind_its_model_and_comes_back(
    layout: str, ours: Path, report: Report, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(ours, tmp_path / "predictions/run"))
    path = run / f"trajectories/{NAME}.json"
    trajectory = read_json(path)
    for attempt in trajectory["attempts"]:
        attempt["edit_format"] = "codex"
    path.write_text(json.dumps(trajectory))
    text = json.dumps(report.converted(run, layout, tmp_path / "exported"))
    assert '"model_name": "scripted-a@codex"' in text
    _, trajectory = report.records(tmp_path / "exported")[NAME]
    first = trajectory["attempts"][0]
    assert (first["model"], first["edit_format"]) == ("scripted-a", "codex")


def test_what_atif_says_of_calls_comes_back(report: Report, tmp_path: Path) -> None:
    """A step may stand for several calls; no seconds are unknown, and not 0."""
    folder = atif(TALK, tmp_path / "run")
    (file,) = folder.rglob("trajectory.json")
    data = read_json(file)
    _, look, edit = data["steps"]
    look |= {"llm_call_count": 2, "extra": {"seconds": 1.5}}
    edit |= {"llm_call_count": 3}
    data["final_metrics"] = {"total_prompt_tokens": 100}
    file.write_text(json.dumps(data))
    ((_, trajectory),) = report.records(folder).values()
    totals = trajectory["attempts"][0]["totals"]
    assert (totals["calls"], totals["prompt_tokens"]) == (5, 100)
    assert totals["completion_tokens"] == 4
    converted = report.converted(folder, "atif", tmp_path / "atif")
    (attempt,) = converted[f"{NAME}.json"]["subagent_trajectories"]
    _, look, edit = attempt["steps"]
    assert (look["llm_call_count"], edit["llm_call_count"]) == (2, 3)
    assert (look["extra"], "extra" in edit) == ({"seconds": 1.5}, False)


def test_a_conversation_beside_the_first_is_a_subagent(
    ours: Path, report: Report, tmp_path: Path
) -> None:
    run = tmp_path / "predictions/run"
    shutil.copytree(ours, run)
    path = run / f"trajectories/{NAME}.json"
    trajectory = read_json(path)
    first = trajectory["attempts"][0]
    messages = first["messages"]
    first["messages"] = messages + [{**message, "lane": 2} for message in messages]
    path.write_text(json.dumps(trajectory))
    converted = report.converted(run, "atif", tmp_path / "atif")
    attempt, other, *_ = converted[f"{NAME}.json"]["subagent_trajectories"]
    (second,) = attempt["subagent_trajectories"]
    assert "subagent_trajectories" not in other
    assert second["trajectory_id"] == "attempt-1-lane-2"
    texts = [step["message"] for step in second["steps"]]
    assert texts == [step["message"] for step in attempt["steps"]]
    assert texts == [message["content"] for message in messages]


def test_secrets_are_not_exported(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    turn = Turn(f"I print {secret}.", f"echo {secret}", secret)
    folder = mini(Talk((turn,), prompt=secret), tmp_path / "run")
    for layout in LAYOUTS:
        text = json.dumps(report.converted(folder, layout, tmp_path / layout))
        assert secret not in text
        assert text.count("[OPENAI_API_KEY]") >= 4


def test_secrets_are_not_imported(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    turn = Turn(f"I print {secret}.", f"echo {secret}", secret)
    folder = report.imported(mini(Talk((turn,), prompt=secret), tmp_path / "run"))
    texts = [path.read_text() for path in folder.rglob("*") if path.is_file()]
    assert secret not in "".join(texts)
    assert "[OPENAI_API_KEY]" in "".join(texts)


def test_counts_costs_and_patches_are_those_of_the_originals(
    report: Report, tmp_path: Path
) -> None:
    code, out, _ = report(
        SAMPLES / "mini", "--evaluator", "none", "--set", "report.page=false"
    )
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    folder = tmp_path / "out/predictions/mini"
    assert lines[0] == f"imported 3 instances of mini-swe-agent: {folder}"
    for expected in (
        "generated 2",
        "no generation 1",
        "plausible – unknown: the other harness does not say",
        "cost $0.0174",
    ):
        assert expected in lines
    predictions = {}
    for line in (folder / "all_preds.jsonl").read_text().splitlines():
        prediction = json.loads(line)
        predictions[prediction["instance_id"]] = prediction
    assert predictions == read_json(SAMPLES / "mini/preds.json")
    words = ("--evaluator", "none", "--set", "report.page=false", "--format", "json")
    _, out, _ = report(SAMPLES / "mini", *words)
    effort = json.loads(out)["effort"]
    assert (effort["calls"]["known"], effort["calls"]["complete"]) == (7, True)
    cached = effort["cached_tokens"]
    assert (cached["known"], cached["complete"]) == (0, False)


def test_nothing_is_dropped_from_a_patch_of_others(
    report: Report, tmp_path: Path
) -> None:
    patch = PATCH + PATCH.replace("a.py", "tests/test_a.py")
    folder = mini(Talk(TALK.turns, patch=patch), tmp_path / "run")
    ((prediction, _),) = report.records(folder).values()
    assert prediction["model_patch"] == patch
    line = (report.out / "predictions/run/all_preds.jsonl").read_text()
    assert json.loads(line)["model_patch"] == patch


def test_an_import_is_kept_until_its_files_change(
    report: Report, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(SAMPLES / "mini", tmp_path / "theirs"))
    imported = report.imported(folder)
    write_verdicts(imported, [RESOLVED])
    _, out, _ = report(folder, "--evaluator", "none", "--set", "report.page=false")
    assert "imported" not in out
    shutil.rmtree(folder / WRONG)
    predictions = read_json(folder / "preds.json")
    del predictions[WRONG]
    (folder / "preds.json").write_text(json.dumps(predictions))
    _, out, _ = report(folder, "--evaluator", "none", "--set", "report.page=false")
    line, *lines = out.splitlines()
    assert line == f"imported 2 instances of mini-swe-agent: {imported}"
    assert "resolved           1  50.0 % of the selected" in " ".join(lines)
    assert sorted(path.stem for path in imported.glob("demo__*.json")) == [
        RESOLVED,
        CRASHED,
    ]
    other = mini(TALK, tmp_path / "x/theirs")
    code, _, error = report(other, "--evaluator", "none")
    assert code == 2
    assert "is not the import of" in error


def test_files_of_a_conversation_that_is_gone_are_removed(
    report: Report, tmp_path: Path
) -> None:
    folder = mini(TALK, tmp_path / "run")
    preds(folder, {NAME: {**ONE, "instance_id": NAME}})
    ((_, trajectory),) = report.records(folder).values()
    assert trajectory["attempts"][0]["messages"]
    shutil.rmtree(folder / NAME)
    ((prediction, trajectory),) = report.records(folder).values()
    assert (prediction["model_patch"], trajectory) == (PATCH, None)
    assert not (report.out / f"predictions/run/{NAME}.md").exists()


def test_predictions_of_several_labels_get_the_name_of_the_run(
    report: Report, tmp_path: Path
) -> None:
    other = {**ONE, "instance_id": "a__b-2", "model_name_or_path": "other"}
    folder = preds(tmp_path / "run", [ONE, other])
    for prediction, _ in report.records(folder).values():
        assert prediction["model_name_or_path"] == "run"


def test_no_word_of_others_makes_a_patch_plausible(
    report: Report, tmp_path: Path
) -> None:
    folder = mini(TALK, tmp_path / "run")
    (path,) = folder.rglob("*.traj.json")
    path.write_text(path.read_text().replace("Submitted", "plausible"))
    ((prediction, _),) = report.records(folder).values()
    assert prediction["status"] == "unknown"
    stats = read_json(report.out / "predictions/run/stats.json")
    assert stats["counts"]["plausible"] is None


def test_no_text_of_others_becomes_html_or_a_command(
    report: Report, tmp_path: Path
) -> None:
    turn = Turn(HOSTILE, f"touch {tmp_path}/ran", HOSTILE)
    patch = PATCH + HOSTILE
    folder = mini(Talk((turn,), prompt=HOSTILE, patch=patch), tmp_path / "run")
    assert report(folder, "--evaluator", "none")[0] == 0
    pages = []
    for path in (report.out / "predictions/run/report").rglob("*.html"):
        pages.append(path.read_text())
    assert len(pages) == 2
    assert any("alert(1)" in page for page in pages)
    assert not any(HOSTILE in page for page in pages)
    assert not (tmp_path / "ran").exists()


def test_comparison_with_ours(report: Report, ours: Path, tmp_path: Path) -> None:
    mine = tmp_path / "out/predictions/mine"
    shutil.copytree(ours, mine)
    write_verdicts(mine, [WRONG])
    write_verdicts(report.imported(SAMPLES / "mini"), [RESOLVED])
    code, out, _ = report("compare", mine, SAMPLES / "mini")
    assert code == 0
    assert "## mine and mini" in out
    assert RESOLVED in out.partition("## mine and mini")[2]
    code, out, _ = report("combine", mine, SAMPLES / "mini", "--name", "both")
    both = tmp_path / "out/predictions/both"
    assert (code, out.splitlines()[-1]) == (0, f"report on it: report.py {both}")
    assert report(both, "--evaluator", "none", "--set", "report.page=false")[0] == 0


def test_what_a_layout_does_not_hold_is_unknown(report: Report, tmp_path: Path) -> None:
    folder = atif(TALK, tmp_path / "theirs")
    rewards = {"rewards": {"reward": 1.0}}
    result = {"task_name": NAME, "verifier_result": rewards}
    (folder / "trial/result.json").write_text(json.dumps(result))
    code, out, _ = report(folder, "--evaluator", "none")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "patch unknown 1" in lines
    assert "resolved 1 100.0 % of the selected" in lines
    imported = tmp_path / "out/predictions/theirs"
    prediction = read_json(imported / f"{NAME}.json")
    assert (prediction["patch_known"], prediction["resolved"]) == (False, True)
    assert (imported / "all_preds.jsonl").read_text().strip() == ""
    # Such a verdict counts as recorded, not as official.
    stats = read_json(imported / "stats.json")
    assert stats["official"] is False
    assert stats["evaluators"] == ["as recorded in the prediction"]
    converted = report.converted(folder, "atif", tmp_path / "atif")
    whole, *_ = extensions(converted)
    assert whole["resolved"] is True
    assert converted[f"{NAME}.json"]["extra"]["patch"] is None
    alone = preds(tmp_path / "alone", [ONE])
    _, out, _ = report(alone, "--evaluator", "none", "--set", "report.page=false")
    assert "cost           unknown" in out


def test_a_package_of_a_run_of_others(report: Report, tmp_path: Path) -> None:
    write_verdicts(report.imported(SAMPLES / "mini"), [RESOLVED])
    meta = write_meta(tmp_path / "meta", {})
    folder = tmp_path / "package"
    code, out, _ = report(
        *("package", SAMPLES / "mini", folder, "--split", "lite", "--meta", meta),
        *("--dataset", "demo", "--allow-partial"),
    )
    # Whether hints and test knowledge were used, only the authors can say.
    assert code == 1
    boxes = [line for line in out.splitlines() if "README.md: " in line]
    assert [line.partition("README.md: ")[2] for line in boxes] == [
        "a box of the checklist is open; check it"
    ] * len(boxes)
    assert boxes
    (readme,) = folder.rglob("README.md")
    assert "[x]" not in readme.read_text()
    assert "another harness (mini-swe-agent)" in readme.read_text()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["convert", "FILE"], "Missing argument 'layout'"),
        (["FILE"], "trajectories of mini-swe-agent"),
    ],
)
def test_wrong_requests_give_one_line(
    words: list[str],
    error: str,
    report: Report,
    tmp_path: Path,
) -> None:
    (tmp_path / "file.json").write_text("[1]")
    paths = {"FILE": tmp_path / "file.json"}
    code, out, line = report(*(paths.get(word, word) for word in words))
    assert (code, out) == (2, "")
    assert error in line
    assert line.count("\n") == 1
