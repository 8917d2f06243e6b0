"""Runs of others work in every report, and our runs come back from the layouts of others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.foreign.conftest import Report
from tests.foreign.test_reading import (
    ONE,
    PREDICTION,
    SAMPLES,
    TALK,
    preds,
    steps_of,
    write_result,
)
from tests.support import files_below, read_json, write_json
from tests.support.evaluated import (
    change_json,
    split_of_dataset,
    write_meta,
    write_verdicts,
)
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


def without_keys(
    value: dict[str, Any],
    keys: Iterable[str],
) -> dict[str, Any]:
    return {key: part for key, part in value.items() if key not in keys}


def without_agents(value: Any) -> Any:
    """Return a JSON value without the names and versions of agents."""
    if isinstance(value, list):
        return [without_agents(part) for part in value]
    if isinstance(value, dict):
        others = without_keys(value, OF_AGENTS)
        return {key: without_agents(part) for key, part in others.items()}
    return value


def exchanged_values(result: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a prediction that exports keep, without marks of an import."""
    return without_keys(result, {*NOT_EXCHANGED, "imported", "outcomes_known"})


def words_of_lines(out: str) -> list[str]:
    """Return lines that are printed, with single spaces."""
    return [" ".join(line.split()) for line in out.splitlines()]


def copy_of(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "predictions/run"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_exported_run_comes_back_with_the_same_attempts(
    layout: str, ours: Path, report: Report, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    report.convert(ours, layout, run)
    records = report.records(run)
    names = [path.stem for path in ours.glob("demo__*.json")]
    assert sorted(records) == sorted(names)
    for name, (prediction, trajectory) in records.items():
        original = read_json(ours / f"{name}.json")
        assert exchanged_values(prediction) == exchanged_values(original)
        assert len(original["all_results"]) == 6
        results = zip(
            prediction["all_results"],
            original["all_results"],
            strict=True,
        )
        for result, of_original in results:
            # Our own files are predicted without tests, those of others as they are.
            patch = of_original.pop("model_patch")
            assert result.pop("model_patch") in patch
            assert exchanged_values(result) == exchanged_values(of_original)
        of_ours = read_json(ours / f"trajectories/{name}.json")
        assert trajectory["winner"] == of_ours["winner"]
        attempts = zip(
            trajectory["attempts"],
            of_ours["attempts"],
            strict=True,
        )
        for attempt, of_our_attempt in attempts:
            if of_our_attempt["messages"]:
                assert attempt["messages"] == of_our_attempt["messages"]
            for key in ("status", "cost", "reflections", "seconds", "error"):
                assert attempt[key] == of_our_attempt[key]
    code, out, error = report("convert", ours, layout, run)
    assert code == 2
    assert out == ""
    assert error.startswith(f"error: {run} exists")


def with_costs_of_calls(run: Path, folder: Path) -> Path:
    """Return a copy of a replay whose calls took time and cost money."""

    def add_costs(trajectory: Any) -> None:
        for attempt in trajectory["attempts"]:
            for number, call in enumerate(attempt["calls"], 1):
                usage = {"prompt_tokens": 100 * number, "completion_tokens": number}
                call |= {
                    "seconds": number / 4,
                    "cost": number / 8,
                    "usage": usage,
                }

    copy = copy_of(run, folder)
    for path in copy.glob("trajectories/*.json"):
        change_json(path, add_costs)
    return copy


def exported_twice(
    report: Report,
    run: Path,
    layout: str,
    again: str,
    folder: Path,
) -> dict[str, Any]:
    """Export a run as ``again``, directly and by way of ``layout``, with the same result."""
    report.convert(run, layout, folder / "once")
    twice = report.convert(folder / "once", again, folder / "twice")
    direct = report.convert(run, again, folder / "direct")
    assert without_agents(twice) == without_agents(direct)
    return direct


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
    direct = exported_twice(report, run, layout, again, tmp_path)
    count = 6 if again == "atif" else 37
    assert len(direct) == count
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
        preds(run, {NAME: PREDICTION})
    exported_twice(report, run, layout, again, tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_agent_stands_behind_its_model_and_comes_back(
    layout: str, ours: Path, report: Report, tmp_path: Path
) -> None:
    def set_agent(trajectory: Any) -> None:
        for attempt in trajectory["attempts"]:
            attempt["edit_format"] = "codex"

    run = copy_of(ours, tmp_path)
    change_json(run / f"trajectories/{NAME}.json", set_agent)
    exported = report.convert(run, layout, tmp_path / "exported")
    assert '"model_name": "scripted-a@codex"' in json.dumps(exported)
    _, trajectory = report.records(tmp_path / "exported")[NAME]
    first = trajectory["attempts"][0]
    assert first["model"] == "scripted-a"
    assert first["edit_format"] == "codex"


def test_what_atif_says_of_calls_comes_back(report: Report, tmp_path: Path) -> None:
    """A step may stand for several calls; no seconds are unknown, and not 0."""
    folder = atif(TALK, tmp_path / "run")
    (file,) = folder.rglob("trajectory.json")

    def add_counts(data: Any) -> None:
        _, look, edit = data["steps"]
        look |= {"llm_call_count": 2, "extra": {"seconds": 1.5}}
        edit |= {"llm_call_count": 3}
        data["final_metrics"] = {"total_prompt_tokens": 100}

    change_json(file, add_counts)
    _, trajectory = report.record(folder)
    totals = trajectory["attempts"][0]["totals"]
    assert totals["calls"] == 5
    assert totals["prompt_tokens"] == 100
    assert totals["completion_tokens"] == 4
    converted = report.convert(folder, "atif", tmp_path / "atif")
    _, look, edit = steps_of(converted)
    assert look["llm_call_count"] == 2
    assert edit["llm_call_count"] == 3
    assert look["extra"] == {"seconds": 1.5}
    assert "extra" not in edit


def test_a_conversation_beside_the_first_is_a_subagent(
    ours: Path, report: Report, tmp_path: Path
) -> None:
    run = copy_of(ours, tmp_path)
    path = run / f"trajectories/{NAME}.json"
    trajectory = read_json(path)
    first = trajectory["attempts"][0]
    messages = first["messages"]
    beside = [{**message, "lane": 2} for message in messages]
    first["messages"] = messages + beside
    write_json(path, trajectory)
    converted = report.convert(run, "atif", tmp_path / "atif")
    attempt, other, *_ = converted[f"{NAME}.json"]["subagent_trajectories"]
    (second,) = attempt["subagent_trajectories"]
    assert "subagent_trajectories" not in other
    assert second["trajectory_id"] == "attempt-1-lane-2"
    texts = [step["message"] for step in second["steps"]]
    assert texts == [step["message"] for step in attempt["steps"]]
    assert texts == [message["content"] for message in messages]


SECRET = "sk-0123456789abcdef"


@pytest.fixture
def run_with_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of others whose prompt, reply, command and output hold a secret of ours."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    turn = Turn(f"I print {SECRET}.", f"echo {SECRET}", SECRET)
    talk = Talk((turn,), prompt=SECRET)
    return mini(talk, tmp_path / "run")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_secrets_are_not_exported(
    layout: str, report: Report, run_with_secret: Path, tmp_path: Path
) -> None:
    exported = report.convert(run_with_secret, layout, tmp_path / layout)
    text = json.dumps(exported)
    assert SECRET not in text
    assert text.count("[OPENAI_API_KEY]") >= 4


def test_secrets_are_not_imported(report: Report, run_with_secret: Path) -> None:
    folder = report.import_run(run_with_secret)
    text = "".join(path.read_text() for path in files_below(folder))
    assert SECRET not in text
    assert "[OPENAI_API_KEY]" in text


def test_costs_that_no_file_holds_are_not_zero(report: Report, tmp_path: Path) -> None:
    paths = []
    for name in ("one", "two"):
        path = write_json(tmp_path / name / f"{name}.json", {"a__b-1": ONE})
        code, out, error = report(path, "--evaluator", "none")
        assert code == 0, error
        assert "cost unknown" in words_of_lines(out)
        paths.append(tmp_path / f"out/predictions/{name}")
    page = (paths[0] / "report/report.html").read_text()
    assert "<li>Cost<strong>unknown</strong>" in page
    for path in paths[0].rglob("*.html"):
        assert "$0.00" not in path.read_text()
    code, out, error = report("compare", *paths)
    assert code == 0, error
    assert "$0.00" not in out
    compared = (tmp_path / "out/comparisons/one--vs--two/report.html").read_text()
    assert "cost unknown" in compared
    assert "$0.00" not in compared


def test_counts_costs_and_patches_are_those_of_the_originals(
    report: Report, tmp_path: Path
) -> None:
    code, out, _ = report.without_page(SAMPLES / "mini")
    assert code == 0
    lines = words_of_lines(out)
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
    lines = (folder / "all_preds.jsonl").read_text().splitlines()
    for line in lines:
        prediction = json.loads(line)
        predictions[prediction["instance_id"]] = prediction
    assert predictions == read_json(SAMPLES / "mini/preds.json")
    _, out, _ = report.without_page(SAMPLES / "mini", "--format", "json")
    effort = json.loads(out)["effort"]
    assert effort["calls"]["known"] == 7
    assert effort["calls"]["complete"] is True
    cached = effort["cached_tokens"]
    assert cached["known"] == 0
    assert cached["complete"] is False


def test_nothing_is_dropped_from_a_patch_of_others(
    report: Report, tmp_path: Path
) -> None:
    patch = PATCH + PATCH.replace("a.py", "tests/test_a.py")
    talk = Talk(TALK.turns, patch=patch)
    folder = mini(talk, tmp_path / "run")
    prediction, _ = report.record(folder)
    assert prediction["model_patch"] == patch
    line = (report.out / "predictions/run/all_preds.jsonl").read_text()
    assert json.loads(line)["model_patch"] == patch


def test_an_import_is_kept_until_its_files_change(
    report: Report, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(SAMPLES / "mini", tmp_path / "theirs"))
    imported = report.import_run(folder)
    write_verdicts(imported, [RESOLVED])
    _, out, _ = report.without_page(folder)
    assert "imported" not in out
    shutil.rmtree(folder / WRONG)
    change_json(folder / "preds.json", lambda predictions: predictions.pop(WRONG))
    _, out, _ = report.without_page(folder)
    line, *lines = out.splitlines()
    assert line == f"imported 2 instances of mini-swe-agent: {imported}"
    assert "resolved           1  50.0 % of the selected" in " ".join(lines)
    names = sorted(path.stem for path in imported.glob("demo__*.json"))
    assert names == [RESOLVED, CRASHED]
    other = mini(TALK, tmp_path / "x/theirs")
    code, _, error = report(other, "--evaluator", "none")
    assert code == 2
    assert "is not the import of" in error


def test_files_of_a_conversation_that_is_gone_are_removed(
    report: Report, tmp_path: Path
) -> None:
    folder = mini(TALK, tmp_path / "run")
    preds(folder, {NAME: PREDICTION})
    _, trajectory = report.record(folder)
    assert trajectory["attempts"][0]["messages"]
    shutil.rmtree(folder / NAME)
    prediction, trajectory = report.record(folder)
    assert prediction["model_patch"] == PATCH
    assert trajectory is None
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
    text = path.read_text().replace("Submitted", "plausible")
    path.write_text(text)
    prediction, _ = report.record(folder)
    assert prediction["status"] == "unknown"
    stats = read_json(report.out / "predictions/run/stats.json")
    assert stats["counts"]["plausible"] is None


def test_no_text_of_others_becomes_html_or_a_command(
    report: Report, tmp_path: Path
) -> None:
    turn = Turn(HOSTILE, f"touch {tmp_path}/ran", HOSTILE)
    patch = PATCH + HOSTILE
    talk = Talk((turn,), prompt=HOSTILE, patch=patch)
    folder = mini(talk, tmp_path / "run")
    code, _, _ = report(folder, "--evaluator", "none")
    assert code == 0
    pages = []
    for path in (report.out / "predictions/run/report").rglob("*.html"):
        pages.append(path.read_text())
    assert len(pages) == 2
    assert any("alert(1)" in page for page in pages)
    assert not any(HOSTILE in page for page in pages)
    assert not (tmp_path / "ran").exists()


def test_comparison_with_ours(
    report: Report,
    ours: Path,
    tmp_path: Path,
) -> None:
    mine = tmp_path / "out/predictions/mine"
    shutil.copytree(ours, mine)
    write_verdicts(mine, [WRONG])
    write_verdicts(report.import_run(SAMPLES / "mini"), [RESOLVED])
    code, out, _ = report("compare", mine, SAMPLES / "mini")
    assert code == 0
    assert "## mine and mini" in out
    assert RESOLVED in out.partition("## mine and mini")[2]
    code, out, _ = report("combine", mine, SAMPLES / "mini", "--name", "both")
    both = tmp_path / "out/predictions/both"
    assert code == 0
    assert out.splitlines()[-1] == f"report on it: report.py {both}"
    code, _, _ = report.without_page(both)
    assert code == 0


def test_what_a_layout_does_not_hold_is_unknown(report: Report, tmp_path: Path) -> None:
    folder = atif(TALK, tmp_path / "theirs")
    write_result(folder, NAME, 1.0)
    code, out, _ = report(folder, "--evaluator", "none")
    lines = words_of_lines(out)
    assert code == 0
    assert "patch unknown 1" in lines
    assert "resolved 1 100.0 % of the selected" in lines
    imported = tmp_path / "out/predictions/theirs"
    prediction = read_json(imported / f"{NAME}.json")
    assert prediction["patch_known"] is False
    assert prediction["resolved"] is True
    assert (imported / "all_preds.jsonl").read_text().strip() == ""
    # Such a verdict counts as recorded, not as official.
    stats = read_json(imported / "stats.json")
    assert stats["official"] is False
    assert stats["evaluators"] == ["as recorded in the prediction"]
    converted = report.convert(folder, "atif", tmp_path / "atif")
    of_instance, *_ = extensions(converted)
    assert of_instance["resolved"] is True
    assert converted[f"{NAME}.json"]["extra"]["patch"] is None
    alone = preds(tmp_path / "alone", [ONE])
    _, out, _ = report.without_page(alone)
    assert "cost           unknown" in out


def test_a_package_of_a_run_of_others(report: Report, tmp_path: Path) -> None:
    write_verdicts(report.import_run(SAMPLES / "mini"), [RESOLVED])
    meta = write_meta(tmp_path / "meta", {})
    folder = tmp_path / "package"
    options = ("--split", "lite", "--meta", meta, "--allow-partial")
    with split_of_dataset("lite", "demo"):
        code, out, _ = report("package", SAMPLES / "mini", folder, *options)
    # Whether hints and test knowledge were used, only the authors can say.
    assert code == 1
    boxes = [line for line in out.splitlines() if "README.md: " in line]
    assert boxes
    for line in boxes:
        problem = line.partition("README.md: ")[2]
        assert problem == "a box of the checklist is open; check it"
    (readme,) = folder.rglob("README.md")
    assert "[x]" not in readme.read_text()
    assert "another harness (mini-swe-agent)" in readme.read_text()


def test_wrong_requests_give_one_line(report: Report, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text("[1]")
    for arguments, error in (
        (["convert", file], "Missing argument 'layout'"),
        ([file], "trajectories of mini-swe-agent"),
    ):
        code, out, line = report(*arguments)
        assert code == 2
        assert out == ""
        assert error in line
        assert line.count("\n") == 1
