"""Properties of all files and all replies, in every format."""

from __future__ import annotations

import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.apply import safe_edits, write_report
from swe_retry.agent.formats.protocol import Matching, ReplyScope
from swe_retry.agent.formats.reading.fences import writes_markers
from swe_retry.agent.workspace import Workspace
from swe_retry.llm.chat import Reply, ToolCall
from tests.support.formats import can_say
from tests.support.render_edits import render

# Lines as in code, documentation and replies.
_LINES = st.sampled_from(
    [
        "",
        "",
        "    ",
        "x = 1",
        "    return x",
        "\tdef f(self):",
        "# naïve café",
        "```",
        "```python",
        "````",
        "~~~",
        "<<<<<<< SEARCH",
        "=======",
        "=====",
        ">>>>>>> REPLACE",
        "<<<<<<< ORIGINAL",
        ">>>>>>> UPDATED",
        "...",
        "--- a/a.py",
        "+++ b/a.py",
        "-- comment",
        "++i",
        "@@ -1,2 +1,2 @@",
        "*** Begin Patch",
        "*** End Patch",
        "*** Update File: b.py",
        "*** End of File",
        "a.py",
        "\\ No newline at end of file",
        "form\x0cfeed",
        "diff --git a/b b/b",
    ]
)
_TEXTS = st.lists(_LINES, max_size=12)
_FORMATS = st.sampled_from(format_names())


def _join(
    lines: list[str],
    newline: str,
    *,
    final: bool,
) -> str:
    text = newline.join(lines)
    if lines and final:
        return text + newline
    return text


@given(
    form=_FORMATS,
    before=_TEXTS,
    after=_TEXTS,
    crlf=st.booleans(),
    final=st.booleans(),
    encoding=st.sampled_from(["utf-8", "latin-1", "utf-8-sig"]),
)
@settings(max_examples=200)
def test_rendered_edits_give_the_text_that_was_meant(
    form: str,
    before: list[str],
    after: list[str],
    crlf: bool,
    final: bool,
    encoding: str,
) -> None:
    assume(can_say(form, after))
    newline = "\n"
    if crlf:
        newline = "\r\n"
    # An empty last line without an end is no line, and a single line has no line ends.
    assume(final or not before or (before[-1] and (not after or after[-1])))
    assume(not crlf or (len(before) > 1) or final)
    with TemporaryDirectory() as folder:
        root = Path(folder)
        file = root / "src" / "a.py"
        file.parent.mkdir()
        file.write_bytes(_join(before, newline, final=final).encode(encoding))
        file.chmod(0o755)
        space = Workspace(root)
        text = space.read("src/a.py") or ""
        target = _join(after, "\n", final=final or not before)
        edit_format = get_format(form)
        reply = render(edit_format, "src/a.py", text, target)
        edits = edit_format.parse(reply, ReplyScope({"src/a.py"}))
        report = edit_format.apply(edits, space.read, ())
        assert not report.failures, (reply, report.failures)
        write_report(report, space)
        kept_newline = "\n"
        if before:
            kept_newline = newline
        # An ASCII file has no encoding to preserve, except for a byte-order mark.
        kept_encoding = encoding
        if text.isascii() and encoding == "latin-1":
            kept_encoding = "utf-8"
        expected = _join(after, kept_newline, final=final or not before)
        if text != target:
            assert file.read_bytes() == expected.encode(kept_encoding), reply
            assert stat.S_IMODE(file.stat().st_mode) == 0o755


@given(form=_FORMATS, after=_TEXTS.filter(bool))
@settings(max_examples=100)
def test_rendered_new_files_are_written_as_they_are(
    form: str, after: list[str]
) -> None:
    edit_format = get_format(form)
    text = _join(after, "\n", final=True)
    assume(after[-1].strip() and can_say(form, after))
    reply = render(edit_format, "new.py", None, text)
    edits = edit_format.parse(reply, ReplyScope({"a.py"}))
    no_files: dict[str, str] = {}
    report = edit_format.apply(edits, no_files.get, ())
    assert report.contents == {"new.py": text}


_PIECES = st.one_of(
    _LINES,
    st.text(max_size=30),
    st.sampled_from(
        [
            "named.py",
            "src/other.py",
            "*** Add File: x",
            '{"name": "write_file"',
            "{",
            '"path": "',
        ],
    ),
)


@given(
    form=_FORMATS,
    pieces=st.lists(_PIECES, max_size=30),
    matching=st.sampled_from(Matching),
)
@settings(max_examples=200)
def test_no_reply_changes_a_file_that_no_edit_names(
    form: str, pieces: list[str], matching: Matching
) -> None:
    files = {"named.py": "x = 1\n    return x\n", "src/other.py": "```\n=======\n\n"}
    edit_format = get_format(form, matching)
    text = "\n".join(pieces)
    reply = Reply(text)
    if "{" in text:
        reply = Reply(text, tool_calls=(ToolCall("write_file", text),))
    try:
        edits = edit_format.parse(reply, ReplyScope(frozenset(files)))
    except ValueError:
        return
    paths = set()
    for edit in edits:
        paths.add(edit.path)
        paths.add(getattr(edit, "to", ""))
    report = edit_format.apply(edits, files.get, ())
    # A file is named by its path, or at least by the last part of it.
    sent = f"{text} {reply.tool_calls}"
    for path in report.contents:
        assert path in paths
        assert path.rsplit("/", 1)[-1] in sent
    assert len(report.results) == len(edits)


_PARTS = st.lists(
    st.sampled_from(
        [
            "<<<<<<< SEARCH",
            "<<<<<<< HEAD",
            "<<<<<<<",
            "<<<<<<< search",
            "<<<<<<< SEARCHx = 1",
            "=======",
            "=======y = 2",
            "x = 1=======",
            "```",
            "```python",
            "src/a.py",
            "x = 1",
            ">>>>>>> REPLACE",
            ">>>>>>> END",
            ">>>>>>>",
            ">>>>>>> branch",
            "y = 2>>>>>>> REPLACE",
            "y = 2",
            "z = 3",
            "--- a/src/a.py",
            "+++ b/src/a.py",
            "@@ @@",
            "-x = 1",
            "+y = 2",
            "*** Begin Patch",
            "*** Update File: src/a.py",
            "*** Add File: b.py",
            "*** End Patch",
            "### 1. Update `src/a.py`",
        ]
    ),
    max_size=14,
)


@given(form=_FORMATS, parts=_PARTS, block=st.booleans())
@settings(max_examples=150)
def test_no_marker_is_written(
    form: str,
    parts: list[str],
    block: bool,
) -> None:
    if block:
        parts = ["src/a.py", "```", "<<<<<<< SEARCH", "x = 1", "=======", *parts, "```"]
    edit_format = get_format(form)
    files = {"src/a.py": "x = 1\nz = 3\n"}
    reply = Reply("\n".join(parts))
    edits = edit_format.parse(reply, ReplyScope(frozenset(files)))
    report = edit_format.apply(edits, files.get, ())
    for text in filter(None, report.contents.values()):
        lines = text.split("\n")
        assert not writes_markers(lines, ()), text
        # In a file written as a whole, a line of this kind can be a heading's.
        assert form.startswith("whole") or "=======" not in lines, text


@pytest.mark.parametrize("form", format_names())
@given(text=st.text())
@settings(max_examples=100)
def test_no_reply_crashes(form: str, text: str) -> None:
    with TemporaryDirectory() as folder:
        space = Workspace(Path(folder))
        edit_format = get_format(form)
        reply = Reply(text, tool_calls=(ToolCall("f", text),))
        edits = safe_edits(edit_format.parse(reply, ReplyScope()), space)
        report = edit_format.apply(edits, space.read, ())
        write_report(report, space)
