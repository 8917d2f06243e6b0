"""Of a file above a third of the window a message shows what the conversation names."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_retry.agent.conversation.excerpts import choose_spans
from swe_retry.agent.conversation.limits import ConversationLimits, Reflections
from swe_retry.llm.chat import Traits, estimate_tokens
from tests.support.formats import APP, Scripted, block, converse, fenced


def function(number: int, body: str = "") -> str:
    lines = [f"    value = {number} + {line}" for line in range(8)]
    return "\n".join([f"def step_{number}(text):", *lines, body, "    return value"])


TEXT = "import re\n\n\n" + "\n\n\n".join(map(function, range(120))) + "\n"
CLASS = "class Steps:\n    kind = 'steps'\n\n" + "\n\n".join(
    "    " + function(number).replace("\n", "\n    ") for number in range(120)
)
FILES = {**APP, "app/big.py": TEXT}
WINDOW = Traits(context=8_192)
LIMITS = ConversationLimits(Reflections(locate=9, edit=2, lint=0, test=0))
ISSUE = "`step_77` returns the wrong value."


def ask(root: Path, *replies: str, form: str = "diff", issue: str = ISSUE) -> Scripted:
    _, script, _ = converse(
        root,
        *replies,
        files=FILES,
        issue=issue,
        repo_map="app/big.py:\n def step_33(text):\n + step_34",
        traits=WINDOW,
        form=form,
        limits=LIMITS,
    )
    return script


def whole(number: int) -> str:
    return function(number) + "\n"


def test_what_issue_and_map_name_is_shown_whole(tmp_path: Path) -> None:
    prompt = ask(tmp_path, "app/big.py app/main.py").prompt(1)
    for number in (77, 33, 34):
        assert whole(number) in prompt
        first = TEXT[: TEXT.index(f"def step_{number}(")].count("\n") + 1
        assert f", lines {first} to " in prompt or number == 34
    assert "app/big.py, lines 1 to " in prompt
    assert "import re\n" in prompt
    assert whole(60) not in prompt
    note = f"app/big.py is too long to be shown in full ({len(TEXT)} characters)."
    assert f"{note} It also defines step_" in prompt
    assert "and " in prompt.partition(note)[2]
    assert fenced("app/main.py", APP["app/main.py"]) in prompt
    assert estimate_tokens(prompt) < 8_192 // 3 + 1_000


def test_what_a_reply_names_of_it_is_shown_next(tmp_path: Path) -> None:
    replies = ["app/big.py", "I need step_60 of app/big.py", "And step_61 in big.py."]
    script = ask(tmp_path, *replies, "step_61 of app/big.py, I said.")
    for request, number in ((2, 60), (3, 61)):
        assert whole(number) not in script.prompt(request - 1)
        assert whole(number) in script.prompt(request)
    # It has been shown.
    assert whole(61) not in script.prompt(4)


def test_a_named_file_is_never_passed_over(tmp_path: Path) -> None:
    for name, text in {"one line": "x = 1;" * 9_000, "no code": "a\n" * 9_000}.items():
        files = {**APP, "app/big.py": text}
        root = tmp_path / name
        _, script, _ = converse(root, "app/big.py", "", files=files, traits=WINDOW)
        assert "app/big.py is too long to be shown in full" in script.prompt(1)


def test_shown_lines_are_edited(tmp_path: Path) -> None:
    after = whole(77).replace("return value", "return value + 1")
    ask(tmp_path, "app/big.py", block("app/big.py", whole(77), after))
    assert (tmp_path / "app/big.py").read_text() == TEXT.replace(whole(77), after)


@pytest.mark.parametrize("form", ["whole", "diff"])
def test_unseen_lines_that_would_go_are_refused_and_shown(
    tmp_path: Path, form: str
) -> None:
    without = TEXT.replace(whole(60), "")
    reply = fenced("app/big.py", without)
    script = ask(tmp_path, "app/big.py", reply, reply, form="whole")
    assert "that you have not seen" in script.prompt(2)
    assert whole(60) in script.prompt(2)
    assert (tmp_path / "app/big.py").read_text() == without


def test_a_part_is_not_taken_for_the_file(tmp_path: Path) -> None:
    for form in ("diff", "whole"):
        root = tmp_path / form
        for reply in (whole(77), f"import re\n\n\n{whole(77)}"):
            head = "app/big.py, lines 851 to 860"
            for text in (fenced(head, reply), f"```python\n{reply}```\n"):
                ask(root, "app/big.py", text, text, form=form)
                assert (root / "app/big.py").read_text() == TEXT


def test_a_file_below_a_third_is_shown_in_full(tmp_path: Path) -> None:
    text = TEXT[: 8_192 // 4 * 3]
    files = {**APP, "app/big.py": text}
    _, script, _ = converse(tmp_path, "big.py", "", files=files, traits=WINDOW)
    assert text in script.prompt(1)
    assert "too long" not in script.prompt(1)


def spans_of(path: str, text: str, focus: str, room: int = 2_000) -> str:
    spans = choose_spans(path, text, focus, "", room, len)
    lines = text.splitlines(keepends=True)
    for (start, end), part in spans.items():
        assert "".join(lines[start:end]) == part
    return "".join(spans.values())


def test_methods_are_functions() -> None:
    excerpt = spans_of("a.py", CLASS + "\n", "Steps.step_77 fails")
    assert excerpt.startswith("class Steps:\n    kind = 'steps'\n")
    assert "    " + function(77).replace("\n", "\n    ") in excerpt
    assert "step_60" not in excerpt


def test_a_text_without_functions_is_shown_around_rare_words() -> None:
    lines = [f"line {number} of the text" for number in range(999)]
    lines[700] = "the answer of everything"
    excerpt = spans_of("a.txt", "\n".join(lines), "the text with everything")
    assert "the answer of everything\n" in excerpt
    assert excerpt.startswith("line 0 of")
    assert "line 500 " not in excerpt


def test_room_is_kept() -> None:
    for room in (0, 10, 300, 2_000):
        focus = " ".join(f"step_{number}" for number in range(120))
        assert len(spans_of("a.py", TEXT, focus, room)) <= room
