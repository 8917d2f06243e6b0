"""Replies in the forms of many models: read as meant, or the model is told why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from agent.formats.base import feedback
from tests.support.formats import apply


class Form(NamedTuple):
    """One reply; ``after`` holds the files that change (None: it is gone), None for a refusal."""

    name: str
    form: str
    before: Mapping[str, str]
    reply: str
    after: Mapping[str, str | None] | None


F = "```"
A = {"src/a.py": "import os\n\n\ndef a():\n    return 1\n\n\ndef b():\n    return 1\n"}
OLD = "def a():\n    return 1"
NEW = "def a():\n    return 2"
DONE = {"src/a.py": A["src/a.py"].replace(OLD, NEW, 1)}
FULL = DONE["src/a.py"]
TWO = {"src/a.py": "x = 1\n", "src/b.py": "x = 1\n"}
TITLE = {"doc.rst": "Title\n=======\n\nold\n\nMore\n====\n\nend\n"}
LONG = {"src/a.py": "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(9))}


def sr(
    old: str = OLD,
    new: str = NEW,
    head: str = "<<<<<<< SEARCH",
    end: str = ">>>>>>> REPLACE",
    mid: str = "=======",
) -> str:
    return f"{head}\n{old}\n{mid}\n{new}\n{end}"


def fenced(
    body: str,
    name: str = "src/a.py",
    info: str = "python",
    fence: str = F,
) -> str:
    return f"I change it.\n\n{name}\n{fence}{info}\n{body}\n{fence}\n\nThat is all.\n"


def hunk(
    head: str = "@@ @@",
    path: str = "src/a.py",
    new: str = "",
) -> str:
    body = new or "-    return 1\n+    return 2"
    return f"--- a/{path}\n+++ b/{path}\n{head}\n{body}"


CHANGE = " def a():\n-    return 1\n+    return 2"
UDIFF = hunk(new=CHANGE)
V4A = "*** Begin Patch\n*** Update File: src/a.py\n@@\n" + CHANGE + "\n*** End Patch"


def blocks() -> list[Form]:
    """Forms of SEARCH/REPLACE."""
    done = {
        "lower-case markers": fenced(sr(head="<<<<<<< search", end=">>>>>>> replace")),
        "markers of git": fenced(sr(head="<<<<<<< HEAD", end=">>>>>>> branch")),
        "markers of git with words": fenced(
            sr(head="<<<<<<< HEAD", end=">>>>>>> Updated code")
        ),
        "HEAD and REPLACE": fenced(sr(head="<<<<<<< HEAD", end=">>>>>>> REPLACE")),
        "bare markers": fenced(sr(head="<<<<<<<", end=">>>>>>>")),
        "a bare last marker": fenced(sr(end=">>>>>>>")),
        "END as last marker": fenced(sr(end=">>>>>>> END")),
        "SEARCH again as last marker": fenced(sr(end=">>>>>>> SEARCH")),
        "the file as last marker": fenced(sr(end=">>>>>>> src/a.py")),
        "a bare marker before the true one": fenced(sr(end=">>>>>>>\n>>>>>>> REPLACE")),
        "the last marker twice": fenced(sr(end=">>>>>>> REPLACE\n>>>>>>> REPLACE")),
        "a last marker behind code": fenced(sr(new=NEW + ">>>>>>> REPLACE", end="")),
        "a last marker behind code and a space": fenced(
            sr(new=NEW + " >>>>>>> REPLACE", end="")
        ),
        "code behind the first marker": fenced("<<<<<<< SEARCH" + sr()[15:]),
        "code behind the first marker and a space": fenced(
            "<<<<<<< SEARCH " + sr()[15:]
        ),
        "a divider behind code": fenced(
            sr(old=OLD + "=======", mid="").replace("\n\n", "\n")
        ),
        "code behind the divider": fenced(sr().replace("=======\n", "=======")),
        "a second divider at the end": fenced(sr(new=NEW + "\n=======")),
        "a second divider at once": fenced(sr(mid="=======\n=======")),
        "nine marks": fenced(
            sr(head="<<<<<<<<< SEARCH", mid="=========", end=">>>>>>>>> REPLACE")
        ),
        "five marks": fenced(sr(head="<<<<< SEARCH", mid="=====", end=">>>>> REPLACE")),
        "marks of three lengths": fenced(
            sr(head="<<<<<< SEARCH", end=">>>>>>>> REPLACE")
        ),
        "marks of another tool": fenced(
            sr(head="------- SEARCH", end="+++++++ REPLACE")
        ),
        "the fence before the last marker": fenced(sr(end=f"{F}\n>>>>>>> REPLACE")),
        "no last marker": fenced(sr(end="").rstrip()),
        "no fence": "src/a.py\n" + sr() + "\n",
        "no fence and prose": "In src/a.py:\n\n" + sr() + "\nDone.\n",
        "an unclosed fence": f"src/a.py\n{F}python\n" + sr(),
        "a tilde fence": fenced(sr(), fence="~~~"),
        "a long fence": fenced(sr(), fence="`````"),
        "a fence for diffs": fenced(sr(), info="diff"),
        "marks of a diff inside": fenced(
            sr("-def a():\n-    return 1", "+def a():\n+    return 2"), info="diff"
        ),
        "a name with a line": fenced(sr(), "src/a.py:4"),
        "a name with lines": fenced(sr(), "src/a.py:4-5"),
        "a name with lines in words": fenced(sr(), "**src/a.py** (lines 4-5)"),
        "a name with an anchor": fenced(sr(), "src/a.py#L4-L5"),
        "a name from here": fenced(sr(), "./src/a.py"),
        "a numbered heading": fenced(sr(), "### 1. Update `src/a.py`"),
        "a bold step": fenced(sr(), "**Step 1: `src/a.py`**"),
        "a label of words": fenced(sr(), "Modified file: src/a.py"),
        "the name behind the first marker": "Text.\n\n"
        + fenced(sr(head="<<<<<<< SEARCH src/a.py"), ""),
        "the name in a fence of its own": f"{F}\nsrc/a.py\n{F}\n{F}python\n{sr()}\n{F}\n",
        "a comment with the name": fenced("# src/a.py\n" + sr(), ""),
        "a base name": fenced(sr(), "a.py"),
        "a name with a wrong folder": fenced(sr(), "project/src/a.py"),
        "CRLF": fenced(sr()).replace("\n", "\r\n"),
        "blank lines around the parts": fenced(
            sr("\n" + OLD + "\n", "\n" + NEW + "\n")
        ),
        "less indentation": fenced(
            sr("return 1\n\n\ndef b()", "return 2\n\n\ndef b()")
        ),
        "dots for lines that stay": fenced(
            sr(
                "def a():\n    return 1\n...\ndef b():",
                "def a():\n    return 2\n...\ndef b():",
            )
        ),
    }
    del done["less indentation"]
    found = [Form(name, "diff", A, reply, DONE) for name, reply in done.items()]
    found += [
        Form(f"{form} in diff", "diff", A, fenced(text, info="diff"), DONE)
        for form, text in (("a unified diff", UDIFF), ("a patch", V4A))
    ]
    three = fenced(sr(new=f"{NEW}\n=======\nlast"))
    rst = {"doc.rst": TITLE["doc.rst"].replace("old", "new")}
    head = "Title\n=======\n\n"
    added = TITLE["doc.rst"] + "\nHistory\n=======\n"
    new = "def new():\n    return 1\n"
    conflict = {
        "src/a.py": "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> branch\ny = 1\n"
    }
    return [
        *found,
        Form("three parts", "diff", A, three, None),
        Form("a file in full", "diff", A, fenced(FULL.rstrip()), None),
        Form(
            "a title shorter than its rule",
            "diff",
            TITLE,
            fenced(sr(f"{head}old", f"{head}new"), "doc.rst", ""),
            rst,
        ),
        Form(
            "a title in Markdown",
            "diff",
            {"doc.md": TITLE["doc.rst"]},
            fenced(sr(f"{head}old", f"{head}new"), "doc.md", ""),
            {"doc.md": rst["doc.rst"]},
        ),
        Form(
            "a new title",
            "diff",
            TITLE,
            fenced(sr("end", "end\n\nHistory\n======="), "doc.rst", ""),
            {"doc.rst": added},
        ),
        Form(
            "a conflict that is resolved",
            "diff",
            conflict,
            fenced(sr(conflict["src/a.py"].removesuffix("\ny = 1\n"), "x = 2")),
            {"src/a.py": "x = 2\ny = 1\n"},
        ),
        Form(
            "a new file under a sentence",
            "diff",
            A,
            f"{fenced(sr())}\nCreate `src/new.py`:\n\n{F}python\n{sr('', new[:-1])}\n{F}\n".replace(
                "SEARCH\n\n", "SEARCH\n"
            ),
            DONE | {"src/new.py": new},
        ),
        Form(
            "a diff for another file",
            "diff",
            A | {"src/b.py": "x = 1\n"},
            f"{fenced(sr())}\n{F}diff\n"
            + hunk("@@", "src/b.py", "-x = 1\n+x = 2")
            + f"\n{F}\n",
            DONE | {"src/b.py": "x = 2\n"},
        ),
        Form(
            "the same change as a diff",
            "diff",
            A,
            f"{F}diff\n{UDIFF}\n{F}\n\n{fenced(sr())}",
            DONE,
        ),
        Form(
            "a block for no file",
            "diff",
            TWO,
            f"{F}\n{sr('x = 1', 'x = 2')}\n{F}\n",
            None,
        ),
        Form(
            "a call of a function",
            "diff",
            A,
            '{"name": "write_file", "arguments": {"path": "src/a.py", "content": "x"}}',
            None,
        ),
        Form(
            "git's markers with three parts",
            "diff",
            A,
            fenced(
                "<<<<<<< HEAD\n"
                + OLD
                + "\n||||||| base\nx\n=======\n"
                + NEW
                + "\n>>>>>>> b"
            ),
            None,
        ),
    ]


def wholes() -> list[Form]:
    """Forms of whole files."""
    body = FULL.rstrip()
    names = [
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
    stub = "def f0():\n    return 10\n\n\n{}\n"
    shorter = "\n\n".join(f"def f{n}():\n    return {n}\n" for n in range(2))
    found = []
    for name in names:
        found.append(Form(f"whole: {name}", "whole", A, fenced(body, name), DONE))
    found += [
        Form(
            f"whole elided: {line}",
            "whole",
            LONG,
            fenced(stub.format(line).rstrip()),
            None,
        )
        for line in (
            "# ... rest of the file unchanged ...",
            "# ...",
            "...",
            "# Rest of the code",
            "# (existing code remains the same)",
            "# other functions stay as before",
        )
    ]
    return [
        *found,
        Form(
            "whole: a name in the fence",
            "whole",
            A,
            f"{F}python src/a.py\n{body}\n{F}\n",
            DONE,
        ),
        Form(
            "whole: a shorter file",
            "whole",
            LONG,
            fenced(shorter.rstrip()),
            {"src/a.py": shorter},
        ),
        Form(
            "whole: no name, one file",
            "whole",
            A,
            f"Here:\n\n{F}python\n{body}\n{F}\n",
            DONE,
        ),
        Form(
            "whole: named in the prose before",
            "whole",
            A | {"src/b.py": "x\n"},
            f"I change `src/a.py`.\n\n{F}python\n{body}\n{F}\n",
            DONE,
        ),
        Form(
            "whole: no name, two files",
            "whole",
            TWO,
            f"Here:\n\n{F}python\nx = 2\n{F}\n",
            None,
        ),
        Form("whole: blocks", "whole", A, fenced(sr()), DONE),
        Form(
            "whole: blocks under a heading",
            "whole",
            A,
            fenced(sr(), "### 1. `src/a.py`"),
            DONE,
        ),
        Form("whole: a unified diff", "whole", A, fenced(UDIFF, "", "diff"), DONE),
        Form("whole: a patch", "whole", A, V4A, DONE),
        Form(
            "whole: a marker at the end",
            "whole",
            A,
            fenced(body + "\n>>>>>>> REPLACE"),
            None,
        ),
        Form(
            "whole: a part of the file quoted",
            "whole",
            LONG,
            f"Look at `src/a.py`:\n\n{F}python\ndef f0():\n    return 0\n{F}\n",
            None,
        ),
        Form(
            "whole: a quotation after the file",
            "whole",
            A,
            f"{fenced(body)}\nNow in `src/a.py`:\n\n{F}python\n    return 2\n{F}\n",
            DONE,
        ),
        Form(
            "whole: a new file under a sentence",
            "whole",
            A,
            f"Create `src/new.py` with:\n\n{F}python\nx = 1\n{F}\n",
            {"src/new.py": "x = 1\n"},
        ),
        Form("whole: unclosed", "whole", A, f"src/a.py\n{F}python\n{body}\n", None),
        Form("whole: CRLF", "whole", A, fenced(body).replace("\n", "\r\n"), DONE),
        Form("whole: tildes", "whole", A, fenced(body, fence="~~~"), DONE),
        Form(
            "whole: shell under a name",
            "whole",
            A,
            f"Run `src/a.py`:\n\n{F}bash\npytest src/a.py\n{F}\n\n{fenced(body)}",
            DONE,
        ),
    ]


def diffs() -> list[Form]:
    """Forms of unified diffs."""
    fence = "{0}diff\n{1}\n{0}\n".format
    bare = UDIFF.split("\n", 2)[2]
    new = "+\n+\n+def c():\n+    return 3"
    end = {"src/a.py": A["src/a.py"] + "\n\ndef c():\n    return 3\n"}
    inb = {
        "src/a.py": A["src/a.py"].replace(
            "def b():\n    return 1", "def b():\n    return 2"
        )
    }
    log = {"src/a.py": A["src/a.py"].replace("def b():\n", "def b():\n    print()\n")}
    moved = {"src/a.py": None, "src/c.py": FULL}
    done = {
        "udiff: no fence": UDIFF,
        "udiff: prose behind": UDIFF + "\n\nThat is all.\n",
        "udiff: a name above the fence": f"src/a.py\n{fence(F, bare)}",
        "udiff: a sentence above the fence": f"I change `src/a.py`:\n\n{fence(F, bare)}",
        "udiff: no header, no hunk line": f"src/a.py\n{fence(F, CHANGE)}",
        "udiff: a fence without its kind": f"src/a.py\n{F}\n{bare}\n{F}\n",
        "udiff: git's header alone": fence(
            F, "diff --git a/src/a.py b/src/a.py\n" + bare
        ),
        "udiff: git's headers": fence(
            F, "diff --git a/src/a.py b/src/a.py\nindex 1..2 100644\n" + UDIFF
        ),
        "udiff: one header": fence(F, "+++ b/src/a.py\n" + bare),
        "udiff: tildes": fence("~~~", UDIFF),
        "udiff: unclosed": f"{F}diff\n{UDIFF}",
        "udiff: CRLF": fence(F, UDIFF).replace("\n", "\r\n"),
        "udiff: no prefixes": fence(
            F, UDIFF.replace("a/src", "src").replace("b/src", "src")
        ),
        "udiff: remarks": fence(F, UDIFF.replace("/a.py\n", "/a.py (original)\n", 1)),
        "udiff: kept lines without a mark": fence(F, hunk(new=CHANGE[1:])),
        "udiff: kept lines raw": fence(
            F,
            hunk(
                new="def a():\n-    return 1\n+    return 2\n\n\ndef b():\n    return 1"
            ),
        ),
        "udiff: a hint": fence(F, hunk("@@ ... @@ def a():")),
        "udiff: numbers and a hint": fence(F, hunk("@@ -50,3 +50,3 @@ def a():")),
        "udiff: a patch": V4A,
        "udiff: blocks": fenced(sr()),
        "udiff: the end marker of a patch": f"*** Begin Patch\n{UDIFF}\n*** End Patch\n",
    }
    return [
        *(Form(name, "udiff", A, reply, DONE) for name, reply in done.items()),
        Form(
            "udiff: a hint at the second",
            "udiff",
            A,
            body("@@ ... @@ def b():", "-    return 1\n+    return 2"),
            inb,
        ),
        Form(
            "udiff: two places",
            "udiff",
            A,
            body("@@ @@", "-    return 1\n+    return 2"),
            None,
        ),
        Form("udiff: a new definition", "udiff", A, body("@@ @@", new), end),
        Form(
            "udiff: new lines at their number",
            "udiff",
            A,
            body("@@ -8,0 +9,1 @@", "+    print()"),
            log,
        ),
        Form(
            "udiff: new lines under a hint",
            "udiff",
            A,
            body("@@ ... @@ def b():", "+    print()"),
            log,
        ),
        Form(
            "udiff: a definition under a hint",
            "udiff",
            A,
            body("@@ ... @@ def b():", new),
            end,
        ),
        Form(
            "udiff: new lines without a place",
            "udiff",
            A,
            body("@@ @@", "+    print()"),
            None,
        ),
        Form(
            "udiff: renamed by its headers",
            "udiff",
            A,
            fence(F, UDIFF.replace("b/src/a.py", "b/src/c.py")),
            moved,
        ),
        Form(
            "udiff: renamed by git",
            "udiff",
            A,
            "diff --git a/src/a.py b/src/c.py\nsimilarity index 90%\nrename from src/a.py\n"
            "rename to src/c.py\n" + UDIFF.replace("b/src/a.py", "b/src/c.py"),
            moved,
        ),
        Form(
            "udiff: a copy with a longer name",
            "udiff",
            A,
            fence(F, UDIFF.replace("+++ b/src/a.py", "+++ b/src/a.py.new")),
            DONE,
        ),
        Form(
            "udiff: a new file",
            "udiff",
            A,
            fence(F, "--- /dev/null\n+++ b/src/new.py\n@@ -0,0 +1 @@\n+x = 1"),
            {"src/new.py": "x = 1\n"},
        ),
        Form(
            "udiff: a new file without /dev/null",
            "udiff",
            A,
            fence(F, "--- a/tests/a.py\n+++ b/tests/a.py\n@@ -0,0 +1 @@\n+x = 1"),
            {"tests/a.py": "x = 1\n"},
        ),
        Form(
            "udiff: a deleted file",
            "udiff",
            TWO,
            fence(F, "--- a/src/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1"),
            {"src/b.py": None},
        ),
        Form(
            "udiff: a marker in a new file",
            "udiff",
            A,
            fence(F, "--- /dev/null\n+++ b/src/new.py\n@@ @@\n+x = 1\n>>>>>>> REPLACE"),
            None,
        ),
        Form("udiff: no file", "udiff", TWO, fence(F, "@@ @@\n-x = 1\n+x = 2"), None),
        Form("udiff: a file in full", "udiff", A, fenced(FULL.rstrip()), None),
    ]


def body(head: str, lines: str) -> str:
    return f"{F}diff\n{hunk(head, new=lines)}\n{F}\n"


def patches() -> list[Form]:
    """Forms of V4A patches."""
    numbered = V4A.replace("@@\n", "@@ -4,2 +4,2 @@\n")
    done = {
        "patch: lower case": V4A.replace("Begin Patch", "begin patch").replace(
            "Update", "update"
        ),
        "patch: no colon": V4A.replace("File:", "File"),
        "patch: another verb": V4A.replace("Update", "Modify"),
        "patch: no end": V4A.removesuffix("\n*** End Patch"),
        "patch: a fence and no end": f"{F}\n{V4A}".removesuffix("*** End Patch")
        + f"{F}\nDone.\n",
        "patch: a fence of its own kind": f"{F}patch\n{V4A}\n{F}\n",
        "patch: numbers": numbered,
        "patch: two marks in a header": V4A.replace("@@\n", "@@ def a(): @@\n").replace(
            " def a():\n", ""
        ),
        "patch: a diff": f"{F}diff\n{UDIFF}\n{F}\n",
        "patch: a diff between the markers": f"*** Begin Patch\n{UDIFF}\n*** End Patch\n",
        "patch: blocks": fenced(sr()),
        "patch: a bold name": V4A.replace("src/a.py", "`src/a.py`"),
        "patch: kept lines raw": V4A.replace(
            "+    return 2", "+    return 2\n\n\ndef b():\n    return 1"
        ),
    }
    new = "*** Begin Patch\n*** {} File: src/new.py\n+x = 1\n*** End Patch"
    made = {"src/new.py": "x = 1\n"}
    second = "*** Begin Patch\n*** Update File: src/b.py\n@@\n-x = 1\n+x = 3\n"
    first = second.replace("b.py", "a.py").replace("3", "2")
    return [
        *(Form(name, "patch", A, reply, DONE) for name, reply in done.items()),
        Form("patch: a new file", "patch", A, new.format("Add"), made),
        Form("patch: Create", "patch", A, new.format("Create"), made),
        Form(
            "patch: two fences without ends",
            "patch",
            TWO,
            f"{F}\n{first}{F}\n\nAnd:\n\n{F}\n{second}{F}\n",
            {"src/a.py": "x = 2\n", "src/b.py": "x = 3\n"},
        ),
        Form(
            "patch: a marker in a new file",
            "patch",
            A,
            new.format("Add").replace("+x = 1", "x = 1\n<<<<<<< SEARCH"),
            None,
        ),
        Form("patch: a file in full", "patch", A, fenced(FULL.rstrip()), None),
    ]


def calls() -> list[Form]:
    """Text where a call of a function was asked for."""
    return [
        Form("whole-func: blocks", "whole-func", A, fenced(sr()), DONE),
        Form(
            "diff-func: a unified diff",
            "diff-func",
            A,
            f"{F}diff\n{UDIFF}\n{F}\n",
            DONE,
        ),
        Form(
            "whole-func: a file in full", "whole-func", A, fenced(FULL.rstrip()), None
        ),
    ]


def reviewed() -> list[Form]:
    """Forms that a review tried."""
    hint = f"@@ def a():\n{CHANGE}"
    ruled = "Title\n=======\n\nold"
    longer = {
        "doc.rst": TITLE["doc.rst"].replace(
            "Title\n=======", "Title of it\n==========="
        )
    }
    short = {"doc.rst": TITLE["doc.rst"]}
    tag = f'<file path="src/a.py">\n{FULL}</file>\n'
    keyed = '{"path": "src/a.py", "search": "return 1", "replace": "return 2"}'
    return [
        Form("whole: a hunk with a hint", "whole", A, fenced(hint, info="diff"), DONE),
        Form(
            "whole: a hunk without a place",
            "whole",
            A,
            fenced(f"@@ ... @@\n{CHANGE}"),
            DONE,
        ),
        Form(
            "whole: marked lines in a diff fence",
            "whole",
            A,
            fenced(CHANGE, info="diff"),
            DONE,
        ),
        Form(
            "whole: a drawn line under the name",
            "whole",
            A,
            f"src/a.py\n--------\n{F}python\n{FULL}{F}\n",
            DONE,
        ),
        Form(
            "whole: a name and code without a fence",
            "whole",
            A,
            f"src/a.py\n{FULL}",
            None,
        ),
        Form("whole: a tag with the name", "whole", A, tag, None),
        Form("diff: JSON with the name", "diff", A, keyed, None),
        Form(
            "diff: a last marker of =",
            "diff",
            A,
            fenced(sr(end="======= REPLACE")),
            DONE,
        ),
        Form(
            "diff: END at a last marker of =",
            "diff",
            A,
            fenced(sr(end="======= END")),
            DONE,
        ),
        Form(
            "diff: no space in a last marker of =",
            "diff",
            A,
            fenced(sr(end="=======REPLACE")),
            DONE,
        ),
        Form(
            "diff: an underline longer than its new title",
            "diff",
            longer,
            fenced(sr("Title of it\n===========", "Title\n======="), "doc.rst"),
            short,
        ),
        Form(
            "diff: that underline before more text",
            "diff",
            longer,
            fenced(sr("Title of it\n===========\n\nold", ruled), "doc.rst"),
            short,
        ),
    ]


FORMS = [*blocks(), *wholes(), *diffs(), *patches(), *calls(), *reviewed()]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_reply_is_read_as_it_is_meant(form: Form) -> None:
    report = apply(form.form, form.reply, form.before)
    said = feedback(report)
    if form.after is None:
        assert report.contents == {}
        assert said, "nothing was applied, and the model is not told"
    else:
        assert (report.contents, said) == (form.after, "")
