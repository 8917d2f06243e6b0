"""What is sent in each of the five prompts, and the program that is read out of a reply."""

from __future__ import annotations

import pytest

from exercises.canitedit.prompts import (
    EditRequest,
    Prompt,
    edit_request,
    fenced_program,
    has_fence,
    program_of,
)

BEFORE = "a = 1\nb = `x`"
INSTRUCTION = "Set a to 2."
SYSTEM = (
    "You are PythonEditGPT. You will be provided the original code snippet and an instruction that"
    " specifies the changes you need to make. You will produce the changed code, based on the"
    " original code and the instruction given. Only produce the code, do not include any additional"
    " prose."
)
ONE_SHOT = (
    "## Code Before\n```py\ndef add(a, b):\n    return a + b\n```\n\n## Instruction\n"
    'Add a "sub" function that subtracts two numbers. Also write docstrings for both functions and'
    " change a,b to x,y."
)
ANSWER = (
    '## Code After\n```py\ndef add(x, y):\n    """Adds two numbers."""\n    return x + y\n\n'
    'def sub(x, y):\n    """Subtracts two numbers."""\n    return x - y\n```\n'
)
TURN = "## Code Before\n```py\na = 1\nb = `x`\n```\n## Instruction\nSet a to 2."


def sent(request: EditRequest) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in request.messages]


def test_chat_has_no_system_role() -> None:
    request = edit_request(Prompt.CHAT, BEFORE, INSTRUCTION)
    assert sent(request) == [
        ("user", f"{SYSTEM}\n\n{ONE_SHOT}"),
        ("assistant", ANSWER),
        ("user", f"{SYSTEM}\n\n{TURN}"),
    ]
    assert (request.text, request.stop) == ("", ())


def test_chat_system() -> None:
    request = edit_request(Prompt.CHAT_SYSTEM, BEFORE, INSTRUCTION)
    assert sent(request) == [
        ("system", SYSTEM),
        ("user", ONE_SHOT),
        ("assistant", ANSWER),
        ("user", TURN),
    ]


def test_zero_shot_is_that_of_the_public_code() -> None:
    request = edit_request(Prompt.ZERO_SHOT, BEFORE, INSTRUCTION)
    turn = TURN.replace("```\n## Instruction", "```\n\n## Instruction")
    assert sent(request) == [("system", SYSTEM), ("user", f"{turn}\n\n## Code After")]


def test_commit_and_editcoder_are_texts() -> None:
    commit = edit_request(Prompt.COMMIT, BEFORE, INSTRUCTION)
    assert commit.text == (
        "<commit_before>a = 1\nb = `x`<commit_msg>Set a to 2.<commit_after>"
    )
    editcoder = edit_request(Prompt.EDITCODER, BEFORE, INSTRUCTION)
    assert editcoder.text == (
        "## Code Before:\na = 1\nb = `x`\n## Instruction:\nSet a to 2.\n## Code After:\n"
    )
    assert editcoder.stop == (
        "## Code After:",
        "## Instruction:",
        "## Code Before:",
        "## Test Case:",
        "## Explanation:",
    )
    assert commit.messages == editcoder.messages == ()


CODE = "def f():\n    return 1\n"
FENCED = {
    "language tag": (f"## Code After\n```py\n{CODE}```\n", CODE),
    "long tag": (f"```python title=a\n{CODE}```", CODE),
    "no tag": (f"Here:\n```\n{CODE}```\nDone.", CODE),
    "no fence": (CODE, ""),
    "nothing": ("", ""),
    "two fences": (f"```py\n{CODE}```\n\n```py\nother()\n```\n", CODE),
    "indented fence alone": (f"  ```py\n{CODE}  ```\n", ""),
    "indented fence inside": (
        f"```py\n{CODE}  ```\nx = 1\n```\n",
        f"{CODE}  ```\nx = 1\n",
    ),
    "indented fence before": (f" ```\n x\n ```\n```py\n{CODE}```\n", CODE),
    "unclosed": (f"```py\n{CODE}    x = ", f"{CODE}    x = \n"),
    "unclosed and empty": ("```py", ""),
    "empty": ("```py\n```\n", ""),
    "CRLF": (f"```py\n{CODE}```\n".replace("\n", "\r\n"), CODE),
    "CRLF, unclosed": ("```py\r\nx = 1\r\n", "x = 1\n"),
    "line of code in backticks": (f"```x = 1```\n```py\n{CODE}```\n", CODE),
    "longer fence": (f"````py\n{CODE}```\n````\n", f"{CODE}```\n"),
    "example usage stays": (
        "```py\nx = 1\n# Example usage:\ny = 2\n```",
        "x = 1\n# Example usage:\ny = 2\n",
    ),
    "other separators": ("```py\nx = '\x0c\u2028'\n```", "x = '\x0c\u2028'\n"),
}


@pytest.mark.parametrize("prompt", [Prompt.CHAT, Prompt.CHAT_SYSTEM, Prompt.ZERO_SHOT])
@pytest.mark.parametrize("name", FENCED)
def test_chat_replies(prompt: Prompt, name: str) -> None:
    reply, program = FENCED[name]
    assert program_of(prompt, reply) == program


@pytest.mark.parametrize("name", FENCED)
def test_a_fence_is_told_from_an_empty_program(name: str) -> None:
    reply, _ = FENCED[name]
    assert has_fence(reply) is (
        name not in ("no fence", "nothing", "indented fence alone")
    )
    assert fenced_program("x\n" + reply) == FENCED[name][1]


@pytest.mark.parametrize(
    ("prompt", "reply", "program"),
    [
        (Prompt.EDITCODER, CODE, CODE),
        (Prompt.EDITCODER, "", ""),
        (Prompt.EDITCODER, f"{CODE}## Explanation:\nIt.\n## Code After:\n", CODE),
        (Prompt.EDITCODER, f"{CODE}## Test Case:\n## Explanation:", CODE),
        (Prompt.EDITCODER, f"{CODE}# Code After\n", f"{CODE}# Code After\n"),
        (Prompt.EDITCODER, f"```py\n{CODE}```\n", f"```py\n{CODE}```\n"),
        (Prompt.EDITCODER, CODE.replace("\n", "\r\n"), CODE),
        (Prompt.COMMIT, f"{CODE}<commit_before>x<commit_msg>", CODE),
        (Prompt.COMMIT, f"{CODE}## Explanation:\n", f"{CODE}## Explanation:\n"),
    ],
)
def test_texts_end_at_a_stop_string(prompt: Prompt, reply: str, program: str) -> None:
    assert program_of(prompt, reply) == program
