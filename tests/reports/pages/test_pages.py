"""The content of the pages of a run; test_pages_browser.py tests them in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.redaction import Redactor
from llm.chat import Message, ToolCall
from reports.pages.instance import conversations, issue_in, page_name
from reports.pages.render import cut, fitting_size, highlighted, size
from runs.records import Attempt, InstanceResult
from tests.support.pages import ATTACK, make_pages, write_hostile_run
from tests.support.rundata import write_generated_run


class Texts(HTMLParser):
    """Collects the texts, element names and link targets of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elements: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append(tag)
        self.links += [str(value) for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def texts(path: Path) -> str:
    return "".join(Texts(path.read_text()).words)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pages(
        write_generated_run(tmp_path_factory.mktemp("small"), instances=4, attempts=3)
    )


def instance_pages(report: Path) -> list[Path]:
    return sorted((report.parent / "instances").iterdir())


@given(st.lists(st.integers(0, 50)), st.integers(0, 400))
def test_texts_are_cut_to_the_budget_and_no_shorter(
    sizes: list[int], budget: int
) -> None:
    most = fitting_size(sizes, budget)
    if most is None:
        assert sum(sizes) <= budget
        return
    assert sum(min(one, most) for one in sizes) <= budget
    assert sum(min(one, most + 1) for one in sizes) > budget


@given(st.text(), st.integers(0, 60))
def test_a_cut_text_keeps_its_ends(text: str, most: int) -> None:
    shown = cut(text, most)
    assert text.startswith(shown.head)
    assert text.endswith(shown.tail)
    assert len(shown.head) + len(shown.tail) + shown.left_out == len(text)
    assert shown.left_out > 0 or size(text) <= most


def test_a_page_says_everything(small: Path) -> None:
    assert len(instance_pages(small)) == 4
    for page in instance_pages(small):
        said = texts(page)
        run = small.parent.parent
        prediction = json.loads((run / f"{page.stem}.json").read_text())
        for result in prediction["all_results"]:
            assert result["model_patch"].strip() in said
        assert prediction["reason"] in said
        trajectory = json.loads(
            (run / "trajectories" / f"{page.stem}.json").read_text()
        )
        for attempt in trajectory["attempts"]:
            assert all(message["content"] in said for message in attempt["messages"])
        [log] = (run.parent.parent / "logs" / "generated").glob(
            f"{page.stem}.*.eval.log"
        )
        assert log.read_text() in said
        assert "5.0.2" in said


def test_every_selected_instance_has_a_row(small: Path) -> None:
    described = json.loads((small.parent.parent / "run.json").read_text())
    said = texts(small)
    assert len(described["selected"]) == 4
    assert all(name in said for name in described["selected"])


def test_the_page_of_a_run_whose_instance_has_no_prediction(tmp_path: Path) -> None:
    run = write_generated_run(tmp_path, instances=2, attempts=1)
    name = json.loads((run / "run.json").read_text())["selected"][0]
    (run / f"{name}.json").unlink()
    page = make_pages(run)
    assert "Without a prediction: 1 of 2 selected instances" in texts(page)
    assert len(instance_pages(page)) == 1
    assert "– no prediction" in texts(page)


def test_pages_of_earlier_predictions_go(tmp_path: Path) -> None:
    run = write_generated_run(tmp_path, instances=2, attempts=1)
    make_pages(run)
    name = json.loads((run / "run.json").read_text())["selected"][0]
    (run / f"{name}.json").unlink()
    assert f"{name}.html" not in [page.name for page in instance_pages(make_pages(run))]


def test_the_same_run_gives_the_same_pages(tmp_path: Path) -> None:
    run = write_generated_run(tmp_path, instances=2, attempts=2)

    def files() -> dict[str, bytes]:
        folder = make_pages(run).parent
        return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*.*")}

    first = files()
    assert len(first) == 1 + 2 + 2 * 4
    assert files() == first


def test_hostile_texts_make_no_elements(tmp_path: Path) -> None:
    report = make_pages(write_hostile_run(tmp_path))
    assert sorted(
        page.name == "own__thing-3.html" for page in instance_pages(report)
    ) == [
        False,
        False,
        True,
    ]
    for page, scripts in [(report, 1), *((page, 0) for page in instance_pages(report))]:
        seen = Texts(page.read_text())
        assert seen.elements.count("script") == scripts
        assert "svg" not in seen.elements
        assert ATTACK in "".join(seen.words)


def test_every_field_is_attacked(tmp_path: Path) -> None:
    """Only attacks that the page shows are a test."""
    report = make_pages(write_hostile_run(tmp_path))
    said = texts(report.parent / "instances" / "own__thing-3.html")
    heads = "Issue|Attempts|Patch|Conversation|Prediction|Verdict|Provenance"
    parts = re.split(f"\\n({heads})\\n", said)
    shown = dict(zip(parts[1::2], parts[2::2], strict=True))
    counts = {name: text.count(ATTACK) for name, text in shown.items()}
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
    run = write_generated_run(tmp_path, instances=1, attempts=1)
    [name] = json.loads((run / "run.json").read_text())["selected"]
    [page] = instance_pages(make_pages(run, issues={name: "As the dataset has it."}))
    assert "As the dataset has it." in texts(page)


def test_ids_lead_out_of_no_folder() -> None:
    for name in ("../x", "a/b", "", ".hidden", "a\0b", "x" * 300, "ü"):
        assert re.fullmatch(r"[0-9a-f]{32}\.html", page_name(name))
    assert page_name("django__django-1.5+a") == "django__django-1.5+a.html"


def test_secrets_are_removed_everywhere(tmp_path: Path) -> None:
    run = write_generated_run(tmp_path, instances=2, attempts=2)
    secret = "sk-'quoted<\"&secret"
    logs = (tmp_path / "logs").rglob("*.log")
    for path in [*run.glob("*.json"), *(run / "trajectories").iterdir(), *logs]:
        written = json.dumps(secret)[1:-1] if path.suffix == ".json" else secret
        text = path.read_text()
        for word in ("gpt-4o", "claude-3-opus", "5.0.2", "  0 "):
            text = text.replace(word, f"{word[:1]}{written}{word[-1:]}")
        path.write_text(text)
    report = make_pages(run, redact=Redactor({"API_KEY": secret}))
    for file in (report, *instance_pages(report)):
        assert secret not in texts(file)
        assert "[API_KEY]" in texts(file)
    pictures = [path.read_text() for path in report.parent.rglob("*.svg")]
    assert any("[API_KEY]" in picture for picture in pictures)
    assert not any("quoted" in picture for picture in pictures)


def trajectory(*conversations: Sequence[Message]) -> InstanceResult:
    attempts = [
        Attempt(attempt=number, messages=tuple(messages))
        for number, messages in enumerate(conversations, 1)
    ]
    return InstanceResult(instance_id="a__a-1", attempts=tuple(attempts))


def test_conversations_show_a_text_once() -> None:
    said = [Message("user", "again"), Message("user", "new")]
    found = conversations(trajectory(said[:1], said))
    assert [message.same_as for message in found[1]] == [None]
    assert found[2][0].same_as == found[1][0]
    assert found[2][1].same_as is None


def test_conversations_that_no_file_holds() -> None:
    assert conversations(None) == {}
    assert conversations(trajectory([])) == {1: ()}
    [message] = conversations(trajectory([Message("", "")]))[1]
    assert (message.role, message.content) == ("unknown", "")


def test_calls_of_tools_are_shown() -> None:
    calls = (ToolCall("edit", '{"a": 1}'), ToolCall("look", "{}"))
    said = [Message("assistant", "So:", calls)]
    [message] = conversations(trajectory(said))[1]
    assert message.content == 'So:\nedit({"a": 1})\nlook({})'


def test_the_issue_is_found_in_the_first_request() -> None:
    issue = "It says </issue>\n</issue>\nand goes on."
    said = [Message("user", f"Map\n<issue>\n{issue}\n</issue>\n\nWhich files?")]
    assert issue_in(conversations(trajectory(said))) == issue
    assert issue_in({}) == ""


def test_diffs_are_highlighted_and_escaped() -> None:
    page = highlighted("@@ -1 +1 @@\n-<old>\n+<new>\n")
    assert '<span class="gd">-&lt;old&gt;</span>' in page
    assert '<span class="gi">+&lt;new&gt;</span>' in page
    assert highlighted("<b>" * 200_000).startswith("&lt;b&gt;&lt;b&gt;")
