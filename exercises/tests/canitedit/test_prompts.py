"""What is sent in each of the five prompts, and the program that is read out of a reply."""

from __future__ import annotations

from swe_retry_exercises.canitedit.prompts import (
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


def roles_and_texts(request: EditRequest) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in request.messages]


def test_the_messages_of_chat_prompts() -> None:
    one_shot = ("user", ONE_SHOT)
    answer = ("assistant", ANSWER)
    # The zero-shot prompt is that of the public code.
    turn = TURN.replace("```\n## Instruction", "```\n\n## Instruction")
    messages = {
        Prompt.CHAT: [
            ("user", f"{SYSTEM}\n\n{ONE_SHOT}"),
            answer,
            ("user", f"{SYSTEM}\n\n{TURN}"),
        ],
        Prompt.CHAT_SYSTEM: [("system", SYSTEM), one_shot, answer, ("user", TURN)],
        Prompt.ZERO_SHOT: [("system", SYSTEM), ("user", f"{turn}\n\n## Code After")],
    }
    for prompt, expected in messages.items():
        request = edit_request(prompt, BEFORE, INSTRUCTION)
        assert roles_and_texts(request) == expected
        assert request.text == ""
        assert request.stop == ()


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


def test_chat_replies() -> None:
    for name, (reply, program) in FENCED.items():
        for prompt in (Prompt.CHAT, Prompt.CHAT_SYSTEM, Prompt.ZERO_SHOT):
            assert program_of(prompt, reply) == program, name


def test_a_fence_is_told_from_an_empty_program() -> None:
    unfenced = ("no fence", "nothing", "indented fence alone")
    for name, (reply, program) in FENCED.items():
        assert has_fence(reply) is (name not in unfenced), name
        assert fenced_program(f"x\n{reply}") == program, name


def test_texts_end_at_a_stop_string() -> None:
    editcoder = {
        CODE: CODE,
        "": "",
        f"{CODE}## Explanation:\nIt.\n## Code After:\n": CODE,
        f"{CODE}## Test Case:\n## Explanation:": CODE,
        f"{CODE}# Code After\n": f"{CODE}# Code After\n",
        f"```py\n{CODE}```\n": f"```py\n{CODE}```\n",
        CODE.replace("\n", "\r\n"): CODE,
    }
    for reply, program in editcoder.items():
        assert program_of(Prompt.EDITCODER, reply) == program
    for reply, program in {
        f"{CODE}<commit_before>x<commit_msg>": CODE,
        f"{CODE}## Explanation:\n": f"{CODE}## Explanation:\n",
    }.items():
        assert program_of(Prompt.COMMIT, reply) == program
