"""What a model has not seen, it cannot discard; what it asks for and does not see is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from swe_retry.agent.conversation.limits import ConversationLimits, Reflections
from swe_retry.agent.formats.apply import apply_edits
from swe_retry.agent.formats.edits import WholeFile
from swe_retry.agent.formats.report import OnFailure
from swe_retry.llm.chat import Message, Reminder, Reply, Traits
from tests.support.formats import (
    APP,
    BAD,
    SETUP,
    Scripted,
    attempt,
    block,
    converse,
    fenced,
    make_coder,
    tool_reply,
)

FILES = {
    "app/main.py": "def f():\n    return 1\n",
    "app/other.py": "X = 1\n\n\ndef g():\n    return X\n",
    "app/empty.py": "",
}
OTHER = FILES["app/other.py"]
MINE = "mine = 1\n"
ONE_FUNCTION = "def g():\n    return 2\n"


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"]) + "\n"


def git_diff(*lines: str) -> str:
    return "\n".join(["```diff", *lines, "```"]) + "\n"


WRITE = tool_reply("write_file", {"path": "app/other.py", "content": ONE_FUNCTION})
DELETE = patch("*** Delete File: app/other.py")
REMOVED = git_diff("--- a/app/other.py", "+++ /dev/null")
DISCARDING: Mapping[str, tuple[str, str | Reply]] = {
    "a file in full": ("whole", fenced("app/other.py", ONE_FUNCTION)),
    "a call": ("whole-func", WRITE),
    "an emptied file": (
        "whole-func",
        tool_reply("write_file", {"path": "app/other.py", "content": ""}),
    ),
    "the only fence": (
        "whole",
        f"I change app/other.py:\n\n```python\n{ONE_FUNCTION}```\n",
    ),
    "a deletion": ("patch", DELETE),
    "a deletion in another format": ("diff", DELETE),
    "a deletion by a diff": ("udiff", REMOVED),
    "a deletion by a diff in another format": ("whole", REMOVED),
    "a new file in its place": (
        "patch",
        patch("*** Delete File: app/other.py", "*** Add File: app/other.py", "+X = 2"),
    ),
    "another file in its place": (
        "patch",
        patch(
            "*** Delete File: app/other.py",
            "*** Update File: app/main.py",
            "*** Move to: app/other.py",
            "@@",
            "-    return 1",
            "+    return 2",
        ),
    ),
}


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("name", DISCARDING)
def test_lines_that_were_not_shown_are_not_discarded(
    tmp_path: Path, name: str, shown: bool
) -> None:
    form, reply = DISCARDING[name]
    replies = ["I need app/other.py.", reply] if shown else [reply, reply]
    result, script, _ = converse(tmp_path, *replies, files=FILES, form=form)
    other = tmp_path / "app/other.py"
    assert not other.exists() or other.read_text() != OTHER
    assert result.edit is True
    assert fenced("app/other.py", OTHER) in script.prompt(1)
    if not shown:
        assert "app/other.py that you have not seen" in script.prompt(1)


@pytest.mark.parametrize("name", DISCARDING)
def test_a_refused_edit_changes_nothing(tmp_path: Path, name: str) -> None:
    form, reply = DISCARDING[name]
    limits = ConversationLimits(Reflections(shared=0))
    result, _, _ = converse(tmp_path, reply, files=FILES, form=form, limits=limits)
    for path, text in FILES.items():
        assert (tmp_path / path).read_text() == text
    assert result.edit is False
    assert result.edited_files == ()
    assert result.replies[0].failed >= 1


HARMLESS: Mapping[str, tuple[str, str | Reply, str | None]] = {
    "quoted lines": ("diff", block("app/other.py", OTHER, "X = 2\n"), "X = 2\n"),
    "quoted lines with another indentation": (
        "diff",
        block("app/other.py", "return X\n", "return X + 1\n"),
        OTHER.replace("return X", "return X + 1"),
    ),
    "quoted lines of a file that goes": (
        "udiff",
        git_diff(
            "--- a/app/other.py",
            "+++ /dev/null",
            "@@ -1,5 +0,0 @@",
            *(f"-{line}" for line in OTHER.splitlines()),
        ),
        None,
    ),
    "lines that are added": (
        "whole",
        fenced("app/other.py", f"import os\n{OTHER}"),
        f"import os\n{OTHER}",
    ),
    "a move": (
        "patch",
        patch("*** Update File: app/main.py", "*** Move to: app/moved.py"),
        OTHER,
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_edits_that_discard_nothing_unseen_are_applied(
    tmp_path: Path, name: str
) -> None:
    form, reply, after = HARMLESS[name]
    result, script, _ = converse(tmp_path, reply, files=FILES, form=form)
    assert result.edit is True
    assert len(script.requests) == 1
    other = tmp_path / "app/other.py"
    assert (other.read_text() if other.exists() else None) == after


def test_an_empty_file_holds_nothing_unseen(tmp_path: Path) -> None:
    reply = fenced("app/empty.py", "X = 1\n")
    result, _, _ = converse(tmp_path, reply, files=FILES, form="whole")
    assert result.edit is True


def test_a_word_of_a_comment_is_not_changed_unseen(tmp_path: Path) -> None:
    text = "# Return the usual answer of f\ndef f():\n    return 1\n"
    old = "# Return the usual answers of f\ndef f():\n    return 1\n"
    reply = block("a.py", old, "def f():\n    return 2\n")
    converse(tmp_path, reply, files={"a.py": text})
    assert (tmp_path / "a.py").read_text() == text
    converse(tmp_path, "a.py", reply, files={"a.py": text})
    assert (tmp_path / "a.py").read_text() == "def f():\n    return 2\n"


def test_the_other_files_of_a_reply_are_written(tmp_path: Path) -> None:
    both = f"{fenced('app/main.py', MINE)}\n\n{fenced('app/other.py', MINE)}"
    result, script, _ = converse(
        tmp_path, "app/main.py", both, files=FILES, form="whole"
    )
    assert result.edited_files == ("app/main.py",)
    assert fenced("app/other.py", OTHER) in script.prompt(2)
    assert "The other 1 were applied" in script.prompt(2)


def test_a_refusal_rolls_the_good_edits_back(tmp_path: Path) -> None:
    both = f"{fenced('app/main.py', MINE)}\n\n{fenced('app/other.py', MINE)}"
    roll_back = OnFailure.ROLL_BACK
    result, _, _ = converse(
        tmp_path, "app/main.py", both, files=FILES, form="whole", on_failure=roll_back
    )
    assert result.edited_files == ()


def test_what_the_model_wrote_it_has_seen(tmp_path: Path) -> None:
    first = f"{fenced('app/new.py', MINE)}\n\n{fenced('app/other.py', MINE)}"
    second = fenced("app/new.py", "new = 2\n")
    result, _, _ = converse(tmp_path, first, second, files=FILES, form="whole")
    assert (tmp_path / "app/new.py").read_text() == "new = 2\n"
    assert (tmp_path / "app/other.py").read_text() == OTHER
    assert result.edit is True


@pytest.mark.parametrize("shown", [False, True])
def test_a_file_that_was_moved_is_as_seen_as_before(
    tmp_path: Path, shown: bool
) -> None:
    move = patch("*** Update File: app/other.py", "*** Move to: app/moved.py")
    bad = block("app/main.py", "none\n", "")
    delete = patch("*** Delete File: app/moved.py")
    first = "app/other.py" if shown else "app/main.py"
    converse(tmp_path, first, move + bad, delete, files=FILES, form="patch")
    assert (tmp_path / "app/moved.py").exists() is not shown


def test_a_file_too_long_to_be_shown_is_not_overwritten(tmp_path: Path) -> None:
    files = {"big.py": "x = 1\n" * 3_000}
    reply = fenced("big.py", "x = 2\n")
    result, script, _ = converse(
        tmp_path, reply, reply, files=files, form="whole", traits=Traits(context=4_000)
    )
    assert (tmp_path / "big.py").read_text() == files["big.py"]
    assert "big.py is too long to be shown" in script.prompt(1)
    assert result.edit is False


@pytest.mark.parametrize("form", ["patch", "diff"])
def test_a_file_that_is_no_text_can_be_deleted_on_purpose(
    tmp_path: Path, form: str
) -> None:
    files = {**FILES, "app/logo.png": "\x89PNG\0"}
    reply = patch("*** Delete File: app/logo.png")
    result, script, _ = converse(tmp_path, reply, reply, files=files, form=form)
    assert "app/logo.png is not a text file." in script.prompt(1)
    assert not (tmp_path / "app/logo.png").exists()
    assert result.edit is True


def test_a_file_that_is_no_text_is_not_overwritten(tmp_path: Path) -> None:
    files = {**FILES, "app/logo.png": "\x89PNG\0"}
    reply = fenced("app/logo.png", "a logo\n")
    converse(tmp_path, reply, reply, files=files, form="whole")
    assert (tmp_path / "app/logo.png").read_text() == files["app/logo.png"]


def test_a_setup_that_shows_changed_files_shows_a_refused_one_too(
    tmp_path: Path,
) -> None:
    setup = replace(SETUP, opening="{{ problem }}", shown_files=("f.py",))
    setup = replace(setup, more_files=True)
    reply = fenced("g.py", "y = 1\n")
    _, exercise = attempt(tmp_path, reply, reply, setup=setup, form="whole")
    assert fenced("g.py", "x = 1\nx = 1\n") in exercise.model.prompt(1)
    assert (tmp_path / "g.py").read_text() == "y = 1\n"


LONG = "word " * 1_200
WINDOW = Traits(context=5_000)
BIG = "".join(f"x = {number}\n" for number in range(330))
ENDLESS = ConversationLimits(Reflections(shared=9))


@pytest.mark.parametrize("reminder", [Reminder.SYSTEM, Reminder.USER])
def test_files_of_messages_that_were_dropped_are_shown_again(
    tmp_path: Path, reminder: Reminder
) -> None:
    # The report about a failed edit quotes the line that is all of a.py.
    files = {**APP, "a.py": "return 1\n"}
    replies = ["a.py app/main.py", *[f"{BAD}{LONG}"] * 3, "no"]
    _, script, _ = converse(
        tmp_path,
        *replies,
        files=files,
        traits=replace(WINDOW, reminder=reminder),
        limits=ENDLESS,
    )
    prompts = [request[-1].content for request in script.requests]
    cut = [prompt for prompt in prompts if "left out because" in prompt]
    assert cut
    for prompt in cut:
        assert fenced("a.py", "return 1\n") in prompt


def drop_big(root: Path, *replies: str) -> Scripted:
    """Show a file that has no room any more when the first rounds are dropped, and go on."""
    bad = block("app/main.py", "none of these lines is there\n" * 40, "")
    _, script, _ = converse(
        root,
        *["big.py", bad, bad + LONG, *replies],
        files={**APP, "big.py": BIG},
        issue="word " * 1_600,
        form="whole",
        traits=Traits(context=4_400),
        limits=ENDLESS,
    )
    assert shows_big(script, 1)
    assert not shows_big(script, 3)
    return script


def shows_big(script: Scripted, number: int) -> bool:
    return any(BIG in message.content for message in script.requests[number])


def test_a_file_whose_message_was_dropped_is_unseen(tmp_path: Path) -> None:
    drop_big(tmp_path, fenced("big.py", MINE))
    assert (tmp_path / "big.py").read_text() == BIG


def test_a_file_whose_message_was_dropped_is_shown_when_it_is_named(
    tmp_path: Path,
) -> None:
    script = drop_big(tmp_path, "Show me big.py again.", fenced("big.py", MINE))
    assert shows_big(script, 4)
    assert (tmp_path / "big.py").read_text() == MINE


EXCERPT = "X = 1\n"


@pytest.mark.parametrize(
    ("after", "applied"),
    [
        (OTHER.replace("X = 1", "X = 2"), True),
        (f"import os\n{OTHER}", True),
        (OTHER.replace("return X", "return 2"), False),
        (ONE_FUNCTION, False),
        ("", False),
    ],
)
def test_of_a_file_that_was_shown_in_part_only_that_part_is_discarded(
    tmp_path: Path, after: str, applied: bool
) -> None:
    coder = make_coder(tmp_path, Scripted([]), files=FILES)
    message = Message("user", EXCERPT)
    coder.messages.extend([message, Message("assistant", "written")])
    shown_files = coder._shown_files
    shown_files.record(message, {"app/other.py": EXCERPT})
    report = apply_edits([WholeFile("app/other.py", after)], coder.workspace.read)
    checked = shown_files.refuse_unseen(report, ())
    assert ("app/other.py" in checked.contents) is applied
    assert bool(checked.failures) is not applied


def test_a_file_that_was_edited_unseen_is_shown_when_it_is_named(
    tmp_path: Path,
) -> None:
    edit = block("app/main.py", "    return 1\n", "    return missing\n")
    _, script, _ = converse(tmp_path, edit, "I must see app/main.py.", files=FILES)
    after = "def f():\n    return missing\n"
    assert fenced("app/main.py", after) in script.prompt(2)


def test_an_empty_file_that_no_message_shows_is_missing(tmp_path: Path) -> None:
    coder = make_coder(tmp_path, Scripted([]), files=FILES)
    shown = {"app/main.py": FILES["app/main.py"]}
    paths = ["app/empty.py", "app/main.py", "gone.py"]
    assert coder._shown_files.changed_from(shown, paths) == ["app/empty.py"]
