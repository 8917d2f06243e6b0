from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.edits import SearchReplace
from swe_retry.agent.formats.protocol import ReplyScope
from swe_retry.llm.chat import Reply, ToolCall
from tests.support.render_edits import render

HOSTILE_PATHS = (
    "/etc/passwd",
    "/dev/zero",
    "/dev/stdin",
    "/proc/self/mem",
    "../outside/secret.txt",
    "../outside/fifo",
    "package/../../outside/secret.txt",
    "..",
    ".",
    "~/.bashrc",
    ".git/hooks/post-checkout",
    ".git/config",
    ".GIT/config",
    ".Git/HEAD",
    ".git./x",
    ".git /x",
    ".git",
    "git~1/config",
    ".g\u200cit/config",
    "package/.git/config",
    "link-out/secret.txt",
    "link-out/new.txt",
    "link-to-secret",
    "link-to-git/config",
    "link-inside/a.py",
    "loop/x",
    "fifo",
    "socket",
    "folder",
    "folder/",
    "C:\\Windows\\x",
    "C:/x",
    "file.txt:stream",
    "CON",
    "nul.txt",
    "trailing.",
    "trailing ",
    "Readme.md",
    "README.MD",
    "new\nline.py",
    "nul\0byte.py",
    "lone\ud800.py",
    "tab\t.py",
    "\u202egnp.py",
    "caf\u0065\u0301.py",
    "x" * 300 + ".py",
    "/".join(["deep"] * 600),
    "a/" * 40 + "b.py",
    "%2e%2e/x",
    "",
    " ",
)
_MARKS = (
    "<<<<<<< SEARCH",
    "=======",
    ">>>>>>> REPLACE",
    "```",
    "````python",
    "~~~",
    "...",
    "--- a/a.py",
    "+++ b/a.py",
    "--- /dev/null",
    "+++ /dev/null",
    "@@ -1,3 +1,3 @@",
    "@@ -" + "9" * 5000 + " +1 @@",
    "rename from README.md",
    "rename to ../x",
    "*** Begin Patch",
    "*** End Patch",
    "*** Add File: new.py",
    "*** Delete File: README.md",
    "*** Update File: README.md",
    "*** Move to: .git/hooks/pre-commit",
    "*** End of File",
    '{"name": "write_file", "arguments": {"path": "x.py", "content": "',
    '{"path": {"a": [1]}, "content": null}',
    "{[]: 1}",
    "[" * 3000,
    '{"a":' * 1500,
    "# coding: punycode",
    "# coding: rot13",
    "# -*- coding: utf-7 -*-",
    "(" * 2000,
    "try:\n pass\nfinally:\n pass",
    "\0",
    "\ud800",
    "\u2028",
    "\x85",
    "\r",
    "\x0c",
    "ｐａｃｋａｇｅ/а.py",
    "`" * 500,
    "=" * 500,
    " " * 500,
)
Mutation = Callable[[random.Random, str, Sequence[str]], str]


def replies_in(folders: Sequence[Path]) -> list[str]:
    """Return the assistants' messages of the trajectories (JSON files) in ``folders``."""
    replies: list[str] = []
    for folder in folders:
        for file in sorted(folder.glob("*.json")):
            for attempt in json.loads(file.read_text())["attempts"]:
                for message in attempt["messages"]:
                    if message["role"] == "assistant":
                        replies.append(message["content"] or "")
    return replies


def blocks_in(replies: Sequence[str]) -> list[SearchReplace]:
    """Return the SEARCH/REPLACE blocks of ``replies``."""
    parsed = (get_format("diff").parse(Reply(text), ReplyScope()) for text in replies)
    return [
        edit for edits in parsed for edit in edits if isinstance(edit, SearchReplace)
    ]


def files_of(blocks: Sequence[SearchReplace]) -> Mapping[str, str]:
    """Return files that contain the searched lines of ``blocks``, by path."""
    files: dict[str, str] = {}
    for block in blocks:
        if block.search.strip() and block.search not in files.get(block.path, ""):
            files[block.path] = files.get(block.path, "") + block.search
    return files


class Writer:
    """Writes real and mutated replies in every format.

    Attributes:
        real: the replies that mutations start from, by format.
    """

    def __init__(self, texts: Sequence[str], blocks: Sequence[SearchReplace]) -> None:
        self.texts = texts
        self.paths = sorted(files_of(blocks))
        self.real = {form: [*_rendered(form, blocks)] for form in format_names()}
        self.real["diff"] += [Reply(text) for text in texts]

    def reply(self, source: random.Random, form: str) -> Reply:
        """Return a real reply of ``form``, mutated up to six times (5 % are not mutated)."""
        reply = source.choice(self.real[form])
        if source.random() < 0.3:
            reply = _joined(reply, source.choice(self.real[form]))
        times = 0 if source.random() < 0.05 else source.randint(1, 6)
        calls = [
            ToolCall(self._mutated(source, call.name, times // 6), arguments)
            for call in reply.tool_calls
            for arguments in [self._mutated(source, call.arguments, times)]
        ]
        return Reply(
            self._mutated(source, reply.content, times), tool_calls=tuple(calls)
        )

    def _mutated(
        self,
        source: random.Random,
        text: str,
        times: int,
    ) -> str:
        for _ in range(times):
            mutation = source.choice(_MUTATIONS)
            other = source.choice(self.texts)
            text = mutation(source, text, [other, *self.paths])
        return text


def _rendered(form: str, blocks: Sequence[SearchReplace]) -> Iterator[Reply]:
    for block in blocks:
        if block.search.strip():
            yield render(get_format(form), block.path, block.search, block.replace)
        else:
            yield render(get_format(form), block.path, None, block.replace)


def _joined(first: Reply, second: Reply) -> Reply:
    text = f"{first.content}\n{second.content}"
    return Reply(text, tool_calls=(*first.tool_calls, *second.tool_calls))


def _edit_lines(change: Callable[[random.Random, list[str]], None]) -> Mutation:
    def mutation(
        source: random.Random,
        text: str,
        others: Sequence[str],
    ) -> str:
        lines = text.split("\n")
        change(source, lines)
        return "\n".join(lines)

    return mutation


def _delete(source: random.Random, lines: list[str]) -> None:
    at = source.randrange(len(lines))
    del lines[at : at + source.randint(1, 5)]


def _duplicate(source: random.Random, lines: list[str]) -> None:
    at = source.randrange(len(lines))
    part = lines[at : at + source.randint(1, 8)]
    lines[at:at] = part * source.choice((1, 1, 2, 30))


def _swap(source: random.Random, lines: list[str]) -> None:
    first = source.randrange(len(lines))
    second = source.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]


def _insert_mark(source: random.Random, lines: list[str]) -> None:
    lines.insert(source.randrange(len(lines) + 1), source.choice(_MARKS))


def _indent(source: random.Random, lines: list[str]) -> None:
    at = source.randrange(len(lines))
    by = source.choice((" ", "    ", "\t", "> ", "+", "-", "\ufeff"))
    for number in range(at, min(len(lines), at + source.randint(1, 12))):
        lines[number] = by + lines[number]


def _splice(
    source: random.Random,
    text: str,
    others: Sequence[str],
) -> str:
    other = others[0]
    return text[: source.randint(0, len(text))] + other[source.randint(0, len(other)) :]


def _other_path(
    source: random.Random,
    text: str,
    others: Sequence[str],
) -> str:
    """Replace the path of a named file, most often by a hostile one."""
    named = [path for path in others[1:] if path in text]
    to = source.choice(HOSTILE_PATHS if source.random() < 0.8 else others[1:])
    if source.random() < 0.1:
        to = source.choice((to, to.upper(), "a/../" + to))
    if not named:
        return f"{to}\n{text}"
    written = to
    if text.startswith("{") and source.random() < 0.8:
        written = json.dumps(to)[1:-1]
    return text.replace(source.choice(named), written)


def _truncate(
    source: random.Random,
    text: str,
    others: Sequence[str],
) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return data[: source.randint(0, len(data))].decode("utf-8", "replace")


def _insert_piece(
    source: random.Random,
    text: str,
    others: Sequence[str],
) -> str:
    at = source.randint(0, len(text))
    return text[:at] + source.choice(_MARKS) + text[at:]


def _flip(
    source: random.Random,
    text: str,
    others: Sequence[str],
) -> str:
    at = source.randrange(len(text) + 1)
    return (
        text[:at]
        + chr(source.choice((0, 10, 32, 34, 39, 92, 96, 123, 0x430, 0xD800)))
        + text[at + 1 :]
    )


_MUTATIONS: tuple[Mutation, ...] = (
    _edit_lines(_delete),
    _edit_lines(_duplicate),
    _edit_lines(_swap),
    _edit_lines(_insert_mark),
    _edit_lines(_indent),
    _splice,
    _other_path,
    _other_path,
    _other_path,
    _truncate,
    _insert_piece,
    _flip,
)
