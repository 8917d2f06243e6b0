"""Replies in the forms of many models: read as meant, or the model is told why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from swe_retry.agent.formats.report import feedback
from tests.support.formats import apply

Files = Mapping[str, str]
Changes = Mapping[str, str | None] | None


class Form(NamedTuple):
    """One reply; ``after`` holds the files that change (None: it is gone), None for a refusal."""

    format: str
    name: str
    reply: str
    before: Files
    after: Changes


F = "```"
A = {"src/a.py": "import os\n\n\ndef a():\n    return 1\n\n\ndef b():\n    return 1\n"}
OLD = "def a():\n    return 1"
NEW = "def a():\n    return 2"
DONE = {"src/a.py": A["src/a.py"].replace(OLD, NEW, 1)}
FULL = DONE["src/a.py"]
BODY = FULL.rstrip()
TWO = {"src/a.py": "x = 1\n", "src/b.py": "x = 1\n"}
TITLE = "Title\n=======\n\nold\n\nMore\n====\n\nend\n"
LONGER = TITLE.replace("Title\n=======", "Title of it\n===========")
LONG = {"src/a.py": "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(9))}
SHORT = "def f0():\n    return 0\n\n\ndef f1():\n    return 1\n"


def forms(
    format: str, replies: Mapping[str, str], after: Changes = DONE, before: Files = A
) -> list[Form]:
    """Return forms with one result; ``replies`` are named."""
    return [Form(format, name, text, before, after) for name, text in replies.items()]


def parts(
    old: str = OLD,
    new: str = NEW,
    head: str = "<<<<<<< SEARCH",
    end: str = ">>>>>>> REPLACE",
    mid: str = "=======",
) -> str:
    return f"{head}\n{old}\n{mid}\n{new}\n{end}"


def fenced(
    body: str, name: str = "src/a.py", info: str = "python", fence: str = F
) -> str:
    return f"I change it.\n\n{name}\n{fence}{info}\n{body}\n{fence}\n\nThat is all.\n"


def block(*texts: str, **markers: str) -> str:
    return fenced(parts(*texts, **markers))


def diff(text: str, fence: str = F) -> str:
    return f"{fence}diff\n{text}\n{fence}\n"


def hunk(head: str, lines: str, path: str = "src/a.py") -> str:
    return f"--- a/{path}\n+++ b/{path}\n{head}\n{lines}"


BLOCK = block()
PARTS = parts()
LINES = "-    return 1\n+    return 2"
CHANGE = f" def a():\n{LINES}"
UDIFF = hunk("@@ @@", CHANGE)
BARE = f"@@ @@\n{CHANGE}"
GIT = "diff --git a/src/a.py b/src/a.py\n"
V4A = f"*** Begin Patch\n*** Update File: src/a.py\n@@\n{CHANGE}\n*** End Patch"
IN_FULL = {"a file in full": fenced(BODY)}

# The first and the last marker.
MARKERS = [
    ("<<<<<<< search", ">>>>>>> replace"),
    ("<<<<<<< HEAD", ">>>>>>> branch"),
    ("<<<<<<< HEAD", ">>>>>>> Updated code"),
    ("<<<<<<< HEAD", ">>>>>>> REPLACE"),
    ("<<<<<<<", ">>>>>>>"),
    ("<<<<<< SEARCH", ">>>>>>>> REPLACE"),
    ("------- SEARCH", "+++++++ REPLACE"),
]
LAST_MARKERS = [
    ">>>>>>>",
    ">>>>>>> END",
    ">>>>>>> SEARCH",
    ">>>>>>> src/a.py",
    ">>>>>>>\n>>>>>>> REPLACE",
    ">>>>>>> REPLACE\n>>>>>>> REPLACE",
    f"{F}\n>>>>>>> REPLACE",
    "======= REPLACE",
    "======= END",
    "=======REPLACE",
]
NAMES_OF_BLOCKS = [
    "src/a.py:4",
    "src/a.py:4-5",
    "**src/a.py** (lines 4-5)",
    "src/a.py#L4-L5",
    "./src/a.py",
    "### 1. Update `src/a.py`",
    "**Step 1: `src/a.py`**",
    "Modified file: src/a.py",
    "a.py",
    "project/src/a.py",
]
DIFF = {
    "a last marker behind code": block(new=f"{NEW}>>>>>>> REPLACE", end=""),
    "a last marker behind code and a space": block(
        new=f"{NEW} >>>>>>> REPLACE", end=""
    ),
    "code behind the first marker": fenced(PARTS.replace("SEARCH\n", "SEARCH")),
    "code behind the first marker and a space": fenced(
        PARTS.replace("SEARCH\n", "SEARCH ")
    ),
    "a divider behind code": fenced(PARTS.replace("\n=======", "=======")),
    "code behind the divider": BLOCK.replace("=======\n", "======="),
    "a second divider at the end": block(new=f"{NEW}\n======="),
    "a second divider at once": block(mid="=======\n======="),
    "nine marks": block(
        head="<<<<<<<<< SEARCH", mid="=========", end=">>>>>>>>> REPLACE"
    ),
    "five marks": block(head="<<<<< SEARCH", mid="=====", end=">>>>> REPLACE"),
    "no last marker": fenced(parts(end="").rstrip()),
    "no fence": f"src/a.py\n{PARTS}\n",
    "no fence and prose": f"In src/a.py:\n\n{PARTS}\nDone.\n",
    "an unclosed fence": f"src/a.py\n{F}python\n{PARTS}",
    "a tilde fence": fenced(PARTS, fence="~~~"),
    "a long fence": fenced(PARTS, fence="`````"),
    "a fence for diffs": fenced(PARTS, info="diff"),
    "marks of a diff inside": fenced(
        parts("-def a():\n-    return 1", "+def a():\n+    return 2"), info="diff"
    ),
    "the name behind the first marker": "Text.\n\n"
    + fenced(parts(head="<<<<<<< SEARCH src/a.py"), ""),
    "the name in a fence of its own": f"{F}\nsrc/a.py\n{F}\n{F}python\n{PARTS}\n{F}\n",
    "a comment with the name": fenced(f"# src/a.py\n{PARTS}", ""),
    "CRLF": BLOCK.replace("\n", "\r\n"),
    "blank lines around the parts": block(f"\n{OLD}\n", f"\n{NEW}\n"),
    "dots for lines that stay": block(f"{OLD}\n...\ndef b():", f"{NEW}\n...\ndef b():"),
    "a unified diff": fenced(UDIFF, info="diff"),
    "a patch": fenced(V4A, info="diff"),
    "the same change as a diff": f"{diff(UDIFF)}\n{BLOCK}",
}
REFUSED_AS_DIFF = {
    **IN_FULL,
    "three parts": block(new=f"{NEW}\n=======\nlast"),
    "a call of a function": (
        '{"name": "write_file", "arguments": {"path": "src/a.py", "content": "x"}}'
    ),
    "git's markers with three parts": block(
        f"{OLD}\n||||||| base\nx", head="<<<<<<< HEAD", end=">>>>>>> b"
    ),
    "JSON with the name": (
        '{"path": "src/a.py", "search": "return 1", "replace": "return 2"}'
    ),
}


def blocks() -> list[Form]:
    """Forms of SEARCH/REPLACE."""
    named = {}
    for head, end in MARKERS:
        named[f"{head} {end}"] = block(head=head, end=end)
    for end in LAST_MARKERS:
        named[end] = block(end=end)
    for name in NAMES_OF_BLOCKS:
        named[name] = fenced(PARTS, name)
    conflict = "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> branch"
    new = f"<<<<<<< SEARCH\n=======\n{SHORT}>>>>>>> REPLACE"
    made = f"{BLOCK}\nCreate `src/new.py`:\n\n{F}python\n{new}\n{F}\n"
    other = diff(hunk("@@", "-x = 1\n+x = 2", "src/b.py"))
    old, ruled = "Title\n=======\n\nold", "Title\n=======\n\nnew"
    longer = "Title of it\n==========="
    titles = [
        ("a title shorter than its rule", TITLE, old, ruled),
        ("a new title", TITLE, "end", "end\n\nHistory\n======="),
        ("an underline longer than its new title", LONGER, longer, old[:13]),
        ("that underline before more text", LONGER, f"{longer}\n\nold", old),
    ]
    rst = []
    for name, before, search, replace in titles:
        after = {"doc.rst": before.replace(search, replace)}
        reply = fenced(parts(search, replace), "doc.rst", "")
        rst += forms("diff", {name: reply}, after, {"doc.rst": before})
    return [
        *forms("diff", named),
        *forms("diff", DIFF),
        *forms("diff", REFUSED_AS_DIFF, None),
        *rst,
        Form(
            "diff",
            "a title in Markdown",
            fenced(parts(old, ruled), "doc.md", ""),
            {"doc.md": TITLE},
            {"doc.md": TITLE.replace("old", "new")},
        ),
        Form(
            "diff",
            "a conflict that is resolved",
            block(conflict, "x = 2"),
            {"src/a.py": f"{conflict}\ny = 1\n"},
            {"src/a.py": "x = 2\ny = 1\n"},
        ),
        Form(
            "diff",
            "a new file under a sentence",
            made,
            A,
            {**DONE, "src/new.py": SHORT},
        ),
        Form(
            "diff",
            "a diff for another file",
            f"{BLOCK}\n{other}",
            {**A, "src/b.py": "x = 1\n"},
            {**DONE, "src/b.py": "x = 2\n"},
        ),
        Form(
            "diff",
            "a block for no file",
            f"{F}\n{parts('x = 1', 'x = 2')}\n{F}\n",
            TWO,
            None,
        ),
    ]


NAMES_OF_FILES = [
    "### 1. Update `src/a.py`",
    "Here is the complete content of `src/a.py`:",
    "Here's the updated src/a.py:",
    "**src/a.py**",
    "#### `src/a.py`",
    "1. **src/a.py**",
    "**Step 2: modify `src/a.py`**",
    "File: `src/a.py`",
    "src/a.py:1",
    "./src/a.py",
    "Updated `src/a.py`:",
    "The full file `src/a.py` now reads:",
    "`src/a.py` (updated)",
    "Save this as `src/a.py`:",
    "- `src/a.py`",
    "In `src/a.py`:",
]
ELISIONS = [
    "# ... rest of the file unchanged ...",
    "# ...",
    "...",
    "# Rest of the code",
    "# (existing code remains the same)",
    "# other functions stay as before",
]
CODE = f"{F}python\n{BODY}\n{F}\n"
WHOLE = {
    "a name in the fence": f"{F}python src/a.py\n{BODY}\n{F}\n",
    "no name, one file": f"Here:\n\n{CODE}",
    "blocks": BLOCK,
    "blocks under a heading": fenced(PARTS, "### 1. `src/a.py`"),
    "a unified diff": fenced(UDIFF, "", "diff"),
    "a patch": V4A,
    "a quotation after the file": (
        f"{fenced(BODY)}\nNow in `src/a.py`:\n\n{F}python\n    return 2\n{F}\n"
    ),
    "CRLF": fenced(BODY).replace("\n", "\r\n"),
    "tildes": fenced(BODY, fence="~~~"),
    "shell under a name": (
        f"Run `src/a.py`:\n\n{F}bash\npytest src/a.py\n{F}\n\n{fenced(BODY)}"
    ),
    "a hunk with a hint": fenced(f"@@ def a():\n{CHANGE}", info="diff"),
    "a hunk without a place": fenced(f"@@ ... @@\n{CHANGE}"),
    "marked lines in a diff fence": fenced(CHANGE, info="diff"),
    "a drawn line under the name": f"src/a.py\n--------\n{CODE}",
}
REFUSED_AS_WHOLE = {
    "a marker at the end": fenced(f"{BODY}\n>>>>>>> REPLACE"),
    "unclosed": f"src/a.py\n{F}python\n{BODY}\n",
    "a name and code without a fence": f"src/a.py\n{FULL}",
    "a tag with the name": f'<file path="src/a.py">\n{FULL}</file>\n',
}


def wholes() -> list[Form]:
    """Forms of whole files."""
    named = {name: fenced(BODY, name) for name in NAMES_OF_FILES}
    cut = {line: fenced(f"def f0():\n    return 10\n\n\n{line}") for line in ELISIONS}
    cut["a part of the file quoted"] = (
        f"Look at `src/a.py`:\n\n{F}python\ndef f0():\n    return 0\n{F}\n"
    )
    shorter = {"a shorter file": fenced(SHORT.rstrip())}
    prose = {"named in the prose before": f"I change `src/a.py`.\n\n{CODE}"}
    nameless = {"no name, two files": f"Here:\n\n{F}python\nx = 2\n{F}\n"}
    new = {
        "a new file under a sentence": (
            f"Create `src/new.py` with:\n\n{F}python\nx = 1\n{F}\n"
        )
    }
    return [
        *forms("whole", named),
        *forms("whole", cut, None, LONG),
        *forms("whole", WHOLE),
        *forms("whole", REFUSED_AS_WHOLE, None),
        *forms("whole", shorter, {"src/a.py": SHORT}, LONG),
        *forms("whole", prose, DONE, {**A, "src/b.py": "x\n"}),
        *forms("whole", nameless, None, TWO),
        *forms("whole", new, {"src/new.py": "x = 1\n"}),
    ]


DEFINITION = "+\n+\n+def c():\n+    return 3"
UDIFFS = {
    "no fence": UDIFF,
    "prose behind": f"{UDIFF}\n\nThat is all.\n",
    "a name above the fence": f"src/a.py\n{diff(BARE)}",
    "a sentence above the fence": f"I change `src/a.py`:\n\n{diff(BARE)}",
    "no header, no hunk line": f"src/a.py\n{diff(CHANGE)}",
    "a fence without its kind": f"src/a.py\n{F}\n{BARE}\n{F}\n",
    "git's header alone": diff(GIT + BARE),
    "git's headers": diff(f"{GIT}index 1..2 100644\n{UDIFF}"),
    "one header": diff(f"+++ b/src/a.py\n{BARE}"),
    "tildes": diff(UDIFF, "~~~"),
    "unclosed": f"{F}diff\n{UDIFF}",
    "CRLF": diff(UDIFF).replace("\n", "\r\n"),
    "no prefixes": diff(UDIFF.replace("a/src", "src").replace("b/src", "src")),
    "remarks": diff(UDIFF.replace("/a.py\n", "/a.py (original)\n", 1)),
    "kept lines without a mark": diff(hunk("@@ @@", CHANGE[1:])),
    "kept lines raw": diff(
        hunk("@@ @@", f"def a():\n{LINES}\n\n\ndef b():\n    return 1")
    ),
    "a hint": diff(hunk("@@ ... @@ def a():", LINES)),
    "numbers and a hint": diff(hunk("@@ -50,3 +50,3 @@ def a():", LINES)),
    "a patch": V4A,
    "blocks": BLOCK,
    "the end marker of a patch": f"*** Begin Patch\n{UDIFF}\n*** End Patch\n",
    "a copy with a longer name": diff(
        UDIFF.replace("+++ b/src/a.py", "+++ b/src/a.py.new")
    ),
}
REFUSED_AS_UDIFF = {
    **IN_FULL,
    "two places": diff(hunk("@@ @@", LINES)),
    "new lines without a place": diff(hunk("@@ @@", "+    print()")),
    "a marker in a new file": diff(
        "--- /dev/null\n+++ b/src/new.py\n@@ @@\n+x = 1\n>>>>>>> REPLACE"
    ),
}
DELETED = "--- a/src/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1"
MOVED = UDIFF.replace("b/src/a.py", "b/src/c.py")
RENAMED = {
    "renamed by its headers": diff(MOVED),
    "renamed by git": (
        "diff --git a/src/a.py b/src/c.py\nsimilarity index 90%\n"
        f"rename from src/a.py\nrename to src/c.py\n{MOVED}"
    ),
}
ADDED_LINES = {
    "new lines at their number": diff(hunk("@@ -8,0 +9,1 @@", "+    print()")),
    "new lines under a hint": diff(hunk("@@ ... @@ def b():", "+    print()")),
}
ADDED_DEFINITIONS = {
    "a new definition": diff(hunk("@@ @@", DEFINITION)),
    "a definition under a hint": diff(hunk("@@ ... @@ def b():", DEFINITION)),
}


def udiffs() -> list[Form]:
    """Forms of unified diffs."""
    text = A["src/a.py"]
    second = {"a hint at the second": diff(hunk("@@ ... @@ def b():", LINES))}
    in_second = {"src/a.py": "return 2".join(text.rsplit("return 1", 1))}
    defined = {"src/a.py": f"{text}\n\ndef c():\n    return 3\n"}
    printed = {"src/a.py": text.replace("def b():\n", "def b():\n    print()\n")}
    rows = [
        *forms("udiff", UDIFFS),
        *forms("udiff", REFUSED_AS_UDIFF, None),
        *forms("udiff", second, in_second),
        *forms("udiff", ADDED_DEFINITIONS, defined),
        *forms("udiff", ADDED_LINES, printed),
        *forms("udiff", RENAMED, {"src/a.py": None, "src/c.py": FULL}),
        *forms("udiff", {"a deleted file": diff(DELETED)}, {"src/b.py": None}, TWO),
        *forms("udiff", {"no file": diff("@@ @@\n-x = 1\n+x = 2")}, None, TWO),
    ]
    for before, path in (("/dev/null", "src/new.py"), ("a/tests/a.py", "tests/a.py")):
        reply = diff(f"--- {before}\n+++ b/{path}\n@@ -0,0 +1 @@\n+x = 1")
        rows += forms("udiff", {f"a new file after {before}": reply}, {path: "x = 1\n"})
    return rows


PATCHES = {
    "lower case": V4A.replace("Begin Patch", "begin patch").replace("Update", "update"),
    "no colon": V4A.replace("File:", "File"),
    "another verb": V4A.replace("Update", "Modify"),
    "no end": V4A.removesuffix("\n*** End Patch"),
    "a fence and no end": f"{F}\n{V4A.removesuffix('*** End Patch')}{F}\nDone.\n",
    "a fence of its own kind": f"{F}patch\n{V4A}\n{F}\n",
    "numbers": V4A.replace("@@\n", "@@ -4,2 +4,2 @@\n"),
    "two marks in a header": V4A.replace("@@\n def a():\n", "@@ def a(): @@\n"),
    "a diff": diff(UDIFF),
    "a diff between the markers": f"*** Begin Patch\n{UDIFF}\n*** End Patch\n",
    "blocks": BLOCK,
    "a bold name": V4A.replace("src/a.py", "`src/a.py`"),
    "kept lines raw": V4A.replace("return 2", "return 2\n\n\ndef b():\n    return 1"),
}
NEW_FILE = "*** Begin Patch\n*** {} File: src/new.py\n+x = 1\n*** End Patch"
REFUSED_AS_PATCH = {
    **IN_FULL,
    "a marker in a new file": NEW_FILE.format("Add").replace(
        "+x = 1", "x = 1\n<<<<<<< SEARCH"
    ),
}


def patches() -> list[Form]:
    """Forms of V4A patches."""
    update = "*** Begin Patch\n*** Update File: src/{}.py\n@@\n-x = 1\n+x = {}\n"
    fences = (
        f"{F}\n{update.format('a', 2)}{F}\n\nAnd:\n\n{F}\n{update.format('b', 3)}{F}\n"
    )
    both = {"src/a.py": "x = 2\n", "src/b.py": "x = 3\n"}
    new = {verb: NEW_FILE.format(verb) for verb in ("Add", "Create")}
    return [
        *forms("patch", PATCHES),
        *forms("patch", REFUSED_AS_PATCH, None),
        *forms("patch", new, {"src/new.py": "x = 1\n"}),
        *forms("patch", {"two fences without ends": fences}, both, TWO),
    ]


# Text where a call of a function was asked for.
CALLS = [
    *forms("whole-func", {"blocks": BLOCK}),
    *forms("diff-func", {"a unified diff": diff(UDIFF)}),
    *forms("whole-func", IN_FULL, None),
]
FORMS = [*blocks(), *wholes(), *udiffs(), *patches(), *CALLS]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.format}: {form.name}")
def test_a_reply_is_read_as_it_is_meant(form: Form) -> None:
    report = apply(form.format, form.reply, form.before)
    message = feedback(report)
    if form.after is None:
        assert report.contents == {}
        assert message, "nothing was applied, and the model is not told"
    else:
        assert (report.contents, message) == (form.after, "")
