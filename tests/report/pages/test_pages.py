"""The content of the pages of a run; test_pages_browser.py tests them in a browser."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_retry.core.plaintext import escape_invisible
from swe_retry.llm.chat import Message, ToolCall
from swe_retry.report.pages.instance import page_name
from swe_retry.report.pages.render import cut, fitting_size, size
from tests.support import (
    contents_below,
    files_below,
    read_json,
    text_between,
    write_json,
)
from tests.support.pages import ATTACK, Texts, make_pages, texts, write_hostile_run
from tests.support.reporting import write_values
from tests.support.rundata import (
    PATCH,
    an_attempt,
    an_instance,
    write_generated_run,
    write_run,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    run = write_generated_run(folder, instances=3, attempts=2)
    return make_pages(run)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pages(write_hostile_run(tmp_path_factory.mktemp("hostile")))


def unevaluated_run(folder: Path, instances: int) -> Path:
    """Write a run without verdicts, whose page has no pictures, and return its folder."""
    run = write_generated_run(folder, instances=instances, attempts=1)
    shutil.rmtree(run / "verdicts")
    return run


def instance_pages(report: Path) -> list[Path]:
    return sorted((report.parent / "instances").iterdir())


@given(st.lists(st.integers(0, 50)), st.integers(0, 400))
def test_texts_are_cut_to_the_budget_and_no_shorter(
    sizes: list[int], budget: int
) -> None:
    limit = fitting_size(sizes, budget)
    if limit is None:
        assert sum(sizes) <= budget
        return
    shortened = [min(length, limit) for length in sizes]
    assert sum(shortened) <= budget
    longer = [min(length, limit + 1) for length in sizes]
    assert sum(longer) > budget


def test_pages_show_what_cannot_be_seen_as_escapes(tmp_path: Path) -> None:
    run = write_hostile_run(tmp_path)
    marks = "".join(map(chr, [0x1B, 0x07, 0x202E, 0x2066, 0x200F, 0x9B, 0xE0041]))
    for path in [*run.rglob("*.json"), *tmp_path.rglob("*.log")]:
        text = path.read_text()
        quoted = marks
        if path.suffix == ".json":
            quoted = json.dumps(marks)[1:-1]
        path.write_text(text.replace("javascript:", f"javascript:{quoted}"))
    report = make_pages(run)
    for page in (report, *instance_pages(report)):
        text = page.read_text()
        assert not set(marks) & set(text)
        assert text.count("javascript:" + escape_invisible(marks)) > 5


def test_a_page_shows_a_limited_number_of_messages(tmp_path: Path) -> None:
    run = write_generated_run(tmp_path, instances=1, attempts=1)
    (path,) = (run / "trajectories").iterdir()
    content = read_json(path)
    content["attempts"][0]["messages"] = [
        {"role": "user", "content": f"line {number}"} for number in range(150_000)
    ]
    write_json(path, content)
    (page,) = instance_pages(make_pages(run))
    text = texts(page)
    assert "line 1999" in text
    assert "The trajectory has 148,000 further messages." in text
    assert page.stat().st_size < 1_500_000


@settings(max_examples=50)
@given(st.text(), st.integers(0, 60))
def test_a_cut_text_keeps_its_ends(text: str, limit: int) -> None:
    excerpt = cut(text, limit)
    assert text.startswith(excerpt.head)
    assert text.endswith(excerpt.tail)
    shown = len(excerpt.head) + len(excerpt.tail)
    assert shown + excerpt.left_out == len(text)
    assert excerpt.left_out > 0 or size(text) <= limit


def test_a_page_says_everything(small: Path) -> None:
    assert len(instance_pages(small)) == 3
    for page in instance_pages(small):
        text = texts(page)
        run = small.parent.parent
        prediction = read_json(run / f"{page.stem}.json")
        for result in prediction["all_results"]:
            assert result["model_patch"].strip() in text
        assert prediction["reason"] in text
        trajectory = read_json(run / f"trajectories/{page.stem}.json")
        for attempt in trajectory["attempts"]:
            for message in attempt["messages"]:
                assert message["content"] in text
        logs = run.parent.parent / "logs/generated"
        (log,) = logs.glob(f"{page.stem}.*.eval.log")
        assert log.read_text() in text
        assert "5.0.2" in text


def test_every_selected_instance_has_a_row(small: Path) -> None:
    names = read_json(small.parent.parent / "run.json")["selected"]
    assert len(names) == 3
    for name in names:
        assert name in texts(small)


def test_an_instance_whose_prediction_is_gone_has_no_page(tmp_path: Path) -> None:
    run = unevaluated_run(tmp_path, instances=2)
    assert len(instance_pages(make_pages(run))) == 2
    gone, other = read_json(run / "run.json")["selected"]
    (run / f"{gone}.json").unlink()
    page = make_pages(run)
    (page_of_other,) = instance_pages(page)
    assert page_of_other.name == f"{other}.html"
    assert "Without a prediction: 1 of 2 selected instances" in texts(page)
    assert "– no prediction" in texts(page)


def test_the_same_run_gives_the_same_pages(small: Path, tmp_path: Path) -> None:
    first = contents_below(small.parent)
    assert len(first) == 1 + 3 + 2 * 4
    run = small.parent.parent
    shutil.copytree(run.parent.parent, tmp_path / "copy")
    copy = tmp_path / "copy" / "predictions" / run.name
    shutil.rmtree(copy / "report")
    folder = make_pages(copy).parent
    assert len(files_below(folder)) == len(first)
    for path, content in first.items():
        other = folder / path.relative_to(small.parent)
        assert other.read_bytes() == content, path


def test_hostile_texts_make_no_elements(hostile: Path) -> None:
    pages = instance_pages(hostile)
    names = [page.name for page in pages]
    assert "own__thing-3.html" in names
    assert len(names) == 3
    for page in (hostile, *pages):
        seen = Texts(page.read_text())
        # The page of the run has one of its own.
        assert seen.elements.count("script") == int(page is hostile)
        assert "svg" not in seen.elements
        assert ATTACK in "".join(seen.texts)


def test_every_field_is_attacked(hostile: Path) -> None:
    """Only attacks that the page shows are a test."""
    page_text = texts(hostile.parent / "instances" / "own__thing-3.html")
    heads = "Issue|Attempts|Patch|Conversation|Prediction|Verdict|Provenance"
    parts = re.split(f"\\n({heads})\\n", page_text)
    counts = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        counts[name] = text.count(ATTACK)
    assert counts == {
        "Issue": 1,
        "Attempts": len(
            ("model", "status", "format", "shown", "edited", "dropped", "error")
        ),
        "Patch": len(("path", "hunk", "removed", "added")),
        "Conversation": len(("request", "role", "reply", "tool", "arguments")),
        "Prediction": 0,
        "Verdict": len(("evaluator", "reason", "output")),
        "Provenance": len(
            ("started", "dataset", "split", "models", "returned", "evaluator")
        )
        + len(
            ("version's name", "version", "model's name", "setting's name", "setting")
        ),
    }


def test_the_issue_of_the_dataset_goes_before_that_of_the_conversation(
    tmp_path: Path,
) -> None:
    run = unevaluated_run(tmp_path, instances=1)
    (name,) = read_json(run / "run.json")["selected"]
    rows = tmp_path / "rows.json"
    row = {
        "instance_id": name,
        "problem_statement": "As the dataset has it.",
        "repo": "own/thing",
        "base_commit": "0" * 40,
        "patch": "",
        "test_patch": "",
    }
    write_json(rows, [row])
    report = make_pages(run, dataset=str(rows))
    [page] = instance_pages(report)
    assert "As the dataset has it." in texts(page)


def test_ids_lead_out_of_no_folder() -> None:
    for name in ("../x", "a/b", "", ".hidden", "a\0b", "x" * 300, "ü"):
        assert re.fullmatch(r"[0-9a-f]{32}\.html", page_name(name))
    assert page_name("django__django-1.5+a") == "django__django-1.5+a.html"


def test_secrets_are_removed_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_generated_run(tmp_path, instances=2, attempts=2)
    secret = "sk-'quoted<\"&secret"
    paths = list(run.glob("*.json"))
    paths += (run / "trajectories").iterdir()
    paths += (tmp_path / "logs").rglob("*.log")
    for path in paths:
        written = secret
        if path.suffix == ".json":
            written = json.dumps(secret)[1:-1]
        text = path.read_text()
        for word in ("gpt-4o", "claude-3-opus", "5.0.2", "  0 "):
            text = text.replace(word, f"{word[:1]}{written}{word[-1:]}")
        path.write_text(text)
    monkeypatch.setenv("API_KEY", secret)
    report = make_pages(run)
    for file in (report, *instance_pages(report)):
        assert secret not in texts(file)
        assert "[API_KEY]" in texts(file)
        assert "quoted" not in file.read_text()
    pictures = [path.read_text() for path in report.parent.rglob("*.svg")]
    assert any("[API_KEY]" in picture for picture in pictures)
    assert not any("quoted" in picture for picture in pictures)


def page_of(folder: Path, *conversations: list[Message]) -> str:
    """Return the page of an instance with an attempt for each conversation."""
    attempts = []
    for number, messages in enumerate(conversations, 1):
        attempts.append(an_attempt(number, messages=tuple(messages)))
    instance = an_instance("a__a-1", attempts=tuple(attempts), resolved=None)
    run = write_values(folder / "r", instance)
    [page] = instance_pages(make_pages(run))
    return page.read_text()


def test_conversations_show_a_text_once(tmp_path: Path) -> None:
    messages = [
        Message("user", "again"),
        Message("user", "new"),
    ]
    page = page_of(tmp_path, messages[:1], messages)
    assert page.count(">again</pre>") == page.count(">new</pre>") == 1
    link = '1. user: the same as <a href="#message-1-1">message 1 of attempt 1</a>'
    assert f'<p id="message-2-1" class="soft">{link}</p>' in page
    assert '<details class="message" id="message-2-2">' in page


def test_conversations_that_no_file_holds(tmp_path: Path) -> None:
    without = old(tmp_path / "old")
    assert "No messages were saved." in without
    assert "The text is not available." in without
    page = page_of(tmp_path, [], [Message("", "")])
    assert page.count("No messages were saved.") == 1
    assert '<summary>1. unknown<span class="start"></span></summary>' in page


def old(folder: Path) -> str:
    """Return the page of an instance without a trajectory."""
    content = {
        "instance_id": "a__a-1",
        "model_patch": PATCH,
        "model_name_or_path": "old",
    }
    run = write_run(folder, [content])
    [page] = instance_pages(make_pages(run))
    return texts(page)


def test_conversations_beside_each_other_are_numbered(tmp_path: Path) -> None:
    messages = [
        Message("user", "x"),
        Message("user", "y", lane=1),
    ]
    page = page_of(tmp_path, messages)
    assert "<summary>1. user<span" in page
    assert "<summary>2. user, conversation 2<span" in page


def test_calls_of_tools_are_shown(tmp_path: Path) -> None:
    calls = (
        ToolCall("edit", '{"a": 1}'),
        ToolCall("look", "{}"),
    )
    message = Message("assistant", "So:", calls)
    page = page_of(tmp_path, [message])
    assert "So:\nedit({&#34;a&#34;: 1})\nlook({})</pre>" in page


def test_the_issue_is_found_in_the_first_request(tmp_path: Path) -> None:
    issue = "It says </issue>\n</issue>\nand goes on."
    messages = [Message("user", f"Map\n<issue>\n{issue}\n</issue>\n\nWhich files?")]
    page = page_of(tmp_path, messages)
    section = text_between(page, '<h2 id="issue">', "<h2>")
    assert "<p><strong>It says &lt;/issue&gt;</strong></p>" in section
    assert "<p>&lt;/issue&gt;\nand goes on.</p>" in section


TESTS = PATCH.replace("a.py", "tests/test_a.py")
PREDICTIONS: dict[str, dict[str, Any]] = {
    "The whole patch of attempt 1.": {},
    "No patch is predicted.": {"model_patch": "", "resolved": None},
    "The patch of attempt 1 without excluded files (tests, build output):": {
        "model_patch": PATCH + TESTS,
        "attempts": (an_attempt(model_patch=PATCH + TESTS, imported=False),),
    },
    "The patch is unknown: the files of the run hold none.": {
        "attempts": (an_attempt(patch_known=False, model_patch=""),)
    },
    "It edits test configuration; existing tests ran without these edits.": {
        "attempts": (an_attempt(edits_test_configuration=True),)
    },
    "The run of its tests is doubted: 2 tests are gone.": {
        "attempts": (an_attempt(tests_doubted=True, untested="2 tests are gone"),)
    },
    "too slow": {"attempts": (an_attempt(test_note="too slow"),)},
    "verdict✗ not resolved": {"resolved": False},
    "verdict– not evaluated": {"resolved": None},
    "verdict✗ no patch": {"model_patch": "", "status": "empty", "resolved": None},
    "verdict✓ resolved\nstatusfallback": {"status": "fallback"},
    "statusplausible untested, plausible": {"status": "plausible_untested"},
}


FAILED_LINT = an_attempt(
    lint_outcome=False,
    test_outcome=None,
    status="lint_failed",
    reflections=2,
    seconds=4.25,
    totals={"prompt_tokens": 1200, "cached_tokens": 7, "completion_tokens": 30},
    added_files=("a.py", "b.py"),
    error="it broke",
)


@pytest.fixture(scope="module")
def prediction_texts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The pages of ``PREDICTIONS``, then that of ``FAILED_LINT``."""
    changes = [*PREDICTIONS.values(), {"attempts": (FAILED_LINT,)}]
    instances = []
    for number, changed in enumerate(changes, 10):
        instances.append(an_instance(f"a__a-{number}", **changed))
    run = tmp_path_factory.mktemp("predictions") / "r"
    pages = instance_pages(make_pages(write_values(run, *instances)))
    return [texts(page) for page in pages]


def test_what_a_page_says_of_the_prediction(prediction_texts: list[str]) -> None:
    for text, expected in zip(prediction_texts[:-1], PREDICTIONS, strict=True):
        assert expected in text


def test_tokens_cost_and_outcomes_of_an_attempt(prediction_texts: list[str]) -> None:
    text = prediction_texts[-1]
    for part in (
        "Attempt 1 · m, try 1 · ✗ lint failed · ✓ resolved · $1.00 · ★ chosen",
        "edit✓ clean",
        "lint✗ failed",
        "tests– unknown",
        "edit formatdiff",
        "reflections2",
        "tokens1,200 in (7 cached), 30 out",
        "seconds4.2",
        "files showna.py, b.py",
        "Error",
    ):
        assert part in text
    assert "it broke" in text


def test_no_line_ends_before_a_percent_sign_and_all_are_written_alike(
    small: Path,
) -> None:
    """Also in figures and their descriptions."""
    code = re.compile(r"<(style|script)>.*?</\1>", re.S)
    source = code.sub("", small.read_text())
    shares = re.findall(r"\d.?%", source)
    shown = texts(small).partition("Provenance\n")[0]
    assert "95\xa0%" in shown
    assert "95 %" not in shown
    assert len(shares) > 20
    for share in shares:
        assert share[1] in " \xa0"
    for figure in (small.parent / "figures").glob("*.svg"):
        _, _, drawing = figure.read_text().partition("</style>")
        assert not re.search(r"\d%", drawing)
