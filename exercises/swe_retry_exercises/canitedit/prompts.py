"""Pure: what a model is sent for a problem in each of the five prompts; the program in a reply.

The texts are those of the paper (figure 6) and, for ``zero-shot``, of the benchmark's public code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from swe_retry.kit import Message

# A line of backticks and code, ```x = 1```, opens no block.
_OPENING = re.compile(r"^(`{3,})[^`\n]*$", re.MULTILINE)


class Prompt(StrEnum):
    """The way in which a model is asked for an edit."""

    CHAT = "chat"
    CHAT_SYSTEM = "chat-system"
    COMMIT = "commit"
    EDITCODER = "editcoder"
    ZERO_SHOT = "zero-shot"


@dataclass(frozen=True)
class EditRequest:
    """What is sent: messages to a chat model, or a text that the model continues."""

    messages: tuple[Message, ...] = ()
    text: str = ""
    stop: tuple[str, ...] = ()


_SYSTEM = (
    "You are PythonEditGPT. You will be provided the original code snippet and an instruction that "
    "specifies the changes you need to make. You will produce the changed code, based on the "
    "original code and the instruction given. Only produce the code, do not include any additional "
    "prose."
)
_EXAMPLE_USER = """\
## Code Before
```py
def add(a, b):
    return a + b
```

## Instruction
Add a "sub" function that subtracts two numbers. \
Also write docstrings for both functions and change a,b to x,y."""
_EXAMPLE_ASSISTANT = '''\
## Code After
```py
def add(x, y):
    """Adds two numbers."""
    return x + y

def sub(x, y):
    """Subtracts two numbers."""
    return x - y
```
'''
STOP = {
    # The tags cannot be part of an edit: a model that writes one begins another commit.
    Prompt.COMMIT: ("<commit_before>", "<commit_msg>", "<commit_after>"),
    Prompt.EDITCODER: (
        "## Code After:",
        "## Instruction:",
        "## Code Before:",
        "## Test Case:",
        "## Explanation:",
    ),
}
"""The stop strings of the prompts that are a text, and not messages."""


def edit_request(prompt: Prompt, before: str, instruction: str) -> EditRequest:
    if prompt in STOP:
        text = f"## Code Before:\n{before}\n## Instruction:\n{instruction}\n## Code After:\n"
        if prompt is Prompt.COMMIT:
            text = f"<commit_before>{before}<commit_msg>{instruction}<commit_after>"
        return EditRequest(text=text, stop=STOP[prompt])
    system = Message("system", _SYSTEM)
    code = f"## Code Before\n```py\n{before}\n```"
    if prompt is Prompt.ZERO_SHOT:
        text = f"{code}\n\n## Instruction\n{instruction}\n\n## Code After"
        return EditRequest((system, Message("user", text)))
    # Figure 6 has a blank line before the instruction of the example, and none here.
    text = f"{code}\n## Instruction\n{instruction}"
    answer = Message("assistant", _EXAMPLE_ASSISTANT)
    if prompt is Prompt.CHAT_SYSTEM:
        example = Message("user", _EXAMPLE_USER)
        return EditRequest((system, example, answer, Message("user", text)))
    # For models without a system role.
    example = Message("user", f"{_SYSTEM}\n\n{_EXAMPLE_USER}")
    user = Message("user", f"{_SYSTEM}\n\n{text}")
    return EditRequest((example, answer, user))


def program_of(prompt: Prompt, reply: str) -> str:
    """Return the edited program in a reply; empty if there is none.

    The prompts of a text end before the first stop; a server may have cut the reply there already.
    """
    if prompt not in STOP:
        return fenced_program(reply)
    stops = map(re.escape, STOP[prompt])
    parts = re.split("|".join(stops), _plain_lines(reply), maxsplit=1)
    return parts[0]


def fenced_program(reply: str) -> str:
    """Return the lines of the first fenced block, each with its end.

    A fence stands in column 0. The block ends before the first line that begins with as many
    backticks as its opening, or with the reply: what a truncated reply holds of it is kept. An
    indented fence is a line like any other. Without a block the program is empty.
    """
    text = _plain_lines(reply)
    opening = _OPENING.search(text)
    if opening is None:
        return ""
    block = text[opening.end() + 1 :]
    closing = re.search(rf"^{opening[1]}", block, re.MULTILINE)
    if closing:
        return block[: closing.start()]
    if not block or block.endswith("\n"):
        return block
    return f"{block}\n"


def has_fence(reply: str) -> bool:
    """Return whether ``fenced_program`` finds a block, an empty one included."""
    return _OPENING.search(_plain_lines(reply)) is not None


def _plain_lines(text: str) -> str:
    r"""Return ``text`` with ``\n`` for ``\r\n``.

    Python reads both as one end of a line, also in strings; line counts and distances would differ.
    """
    return text.replace("\r\n", "\n")
