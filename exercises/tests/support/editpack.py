from __future__ import annotations

import ast
import gzip
import json
import random
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from swe_retry.core.git import git
from swe_retry_exercises.editpack.__main__ import PROGRAM
from swe_retry_exercises.editpack.files import report_of
from swe_retry_exercises.editpack.rows import (
    NEW,
    OLD,
    EditRow,
    file_digest,
    with_content,
)
from tests.support import read_json, sha256_of, write_json

SKIP_BAD = ("--set", "rows.skip_bad=true")


def edit(
    old: str,
    new: str,
    message: str = "Change it",
    **columns: object,
) -> EditRow:
    return {"old_contents": old, "new_contents": new, "message": message, **columns}


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """Write rows a line each; what is bytes already is a line as it is."""
    lines = []
    for row in rows:
        lines.append(row if isinstance(row, bytes) else json.dumps(row).encode())
    data = b"".join(line + b"\n" for line in lines)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read_rows(path: Path) -> list[EditRow]:
    data = path.read_bytes()
    text = data
    if path.suffix == ".gz":
        text = gzip.decompress(data)
    return [json.loads(line) for line in text.splitlines()]


def report_beside(path: Path) -> Any:
    return read_json(path.with_name(f"{path.name}.report.json"))


def editpack(*arguments: object) -> int:
    """Run a command of editpack in this process and return its exit code."""
    with patch.object(sys, "argv", ["editpack", *map(str, arguments)]):
        return PROGRAM.main()


_HEADS = (
    "", "\n", "# one\n", "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n\n", "# a\n\n# b\n\n",
    '"""One line."""\n', '"""Several\nlines.\n"""\n', "'''Several\nlines.'''\n",
    '# c\n"""Behind\na comment.\n"""\n# d\n', 'T = """\na\n"""\n', '# """ in a comment\n',
    'r"""Raw\n\\d"""  # noqa\n', '"""Never closed\n', '"""a\n"""; CODE = 1\n', "    # indented\n",
    "\ufeff# marked\n", "# c\r\n\r\n", '"""Of\r\nWindows."""\r\n', "\f\n# after a feed\n", "# \0\n",
    '"a\\\nb"\n', 'f"""\n{1}"""\n', "# old\rMAC = 1\n", '""" """ """\nodd\n"""\n',
)  # fmt: skip
_BODIES = (
    "def f(x):\n    return x + 1\n",
    "import os\n\n\nprint(os.name)\n",
    "class A:\n    pass\n",
    "x = [1, 2, 3]\n",
    "for i in range(3):\n    print(i)\n",
    "text = 'Todo'\n",
    "\n",
    "  \n\t\n",
)
_SPOILT = (
    "# TODO: later\n", "# fixme\n", "log.debug('x')\n", "import setuptools\n", "print 'two'\n",
    "fix me = 1\n", "BUG = 'FIX ME'\n", "if:\n", "from setuptools import setup\n", "x = '\0'\n",
    "s = '\ud800'\n", "todo = 1\n", "del (\n",
)  # fmt: skip


def generated_edits(number: int, seed: int = 6) -> Iterator[EditRow]:
    """Yield edits with heads of all kinds, spoilt or small at random; equal for equal numbers."""
    choose = random.Random(seed)
    for number_of_edit in range(number):
        body = "".join(choose.choices(_BODIES, k=choose.randint(0, 3)))
        spoilt = "".join(choose.sample(_SPOILT, choose.choice((0, 0, 0, 1, 2))))
        name = "y" * choose.choice((0, 5, 8, 9, 10, 11, 30))
        old = choose.choice(_HEADS) + body + choose.choice(("", "", *_SPOILT))
        new = choose.choice((_HEADS, (old[: old.find(body)],))[choose.random() < 0.6])
        yield edit(
            old,
            new + body + spoilt + (f"{name} = 1\n" if name else ""),
            commit=str(number_of_edit),
        )


MIT = b"""MIT License

Copyright (c) 2020 Nobody

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.
"""
FILE = b"100644"
EXECUTABLE = b"100755"
LINK = b"120000"
SUBMODULE = b"160000"
AUTHOR = "Ada Example"
HOSTILE = (
    "new\nline.py",
    'quo"te\\.py',
    "-rf.py",
    ":100644 1 2 M.py",
    "tab\té.py",
    "$(x).py",
)
PLAIN = ("a.py", "b.py", "typed.py", "g_pb2.py", "src/vendor/lib.py")
LONG = b"x = '" + b"a" * 49_993 + b"'"
Content = bytes | tuple[bytes, bytes] | None
"""Data, mode with data, or None for a file that is removed."""


@dataclass
class MadeHistory:
    """Writes commits for ``git fast-import``; each has the date of a day later than the last.

    ``lines`` holds the data by path at each branch's tip, so that tests can say edits shortly.
    """

    stream: bytearray = field(default_factory=bytearray)
    number: int = 0

    def commit(
        self,
        message: str | bytes,
        files: dict[bytes | str, Content],
        *,
        branch: str = "main",
        parents: tuple[int, ...] | None = None,
        encoding: str = "",
        author: str = AUTHOR,
        date: int | None = None,
    ) -> int:
        """Write a commit, by default on top of the branch, and return its number."""
        self.number += 1
        if isinstance(message, str):
            message = message.encode()
        if date is None:
            date = 1_600_000_000 + 86_400 * self.number
        who = f"{author} <ada@example.org>".encode()
        out = [f"commit refs/heads/{branch}\nmark :{self.number}\n".encode()]
        out.append(
            b"author %s %d +0200\ncommitter %s %d +0200\n" % (who, date, who, date)
        )
        out.append(f"encoding {encoding}\n".encode() if encoding else b"")
        out.append(b"data %d\n%s\n" % (len(message), message))
        for index, parent in enumerate(parents or ()):
            out.append(f"{'merge' if index else 'from'} :{parent}\n".encode())
        self.stream += (
            b"".join(out) + b"".join(_file(p, c) for p, c in files.items()) + b"\n"
        )
        return self.number

    def write(
        self,
        folder: Path,
        *,
        hash_name: str = "sha1",
        bare: bool = True,
    ) -> Path:
        """Make the repository."""
        folder.mkdir(parents=True)
        kind = ("--bare",) if bare else ()
        form = f"--object-format={hash_name}"
        git("init", "--quiet", "--initial-branch=main", form, *kind, cwd=folder)
        git(
            "fast-import",
            "--quiet",
            "--date-format=raw-permissive",
            cwd=folder,
            stdin=bytes(self.stream),
        )
        return folder


def _file(path: bytes | str, content: Content) -> bytes:
    if isinstance(path, str):
        path = path.encode()
    named = b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'
    if content is None:
        return b"D %s\n" % named
    mode, data = content if isinstance(content, tuple) else (FILE, content)
    if mode == SUBMODULE:
        return b"M %s %s %s\n" % (mode, data, named)
    return b"M %s inline %s\ndata %d\n%s\n" % (mode, named, len(data), data)


def file(name: str, number: int, *statements: str) -> bytes:
    """Return a content that no other name and number has."""
    lines = (f"x = {number}", *statements, f"name = {name!r}")
    return "".join(f"{text}\n" for text in lines).encode()


def hostile_history() -> MadeHistory:
    """Return a history of 35 commits and a merge; 29 of them modify Python."""
    made = MadeHistory()
    first = made.commit(
        "Begin with many files",
        {
            "LICENSE": MIT,
            "link.py": (LINK, b"a.py"),
            "sub": (SUBMODULE, b"1" * 40),
            "latin.py": "é = 0\n".encode("latin-1"),
            "crlf.py": b"x = 0\r\ny = 0\r\n",
            "long.py": LONG + b"0\n",
            "fits.py": LONG + b"\n",
            "notes.txt": b"0\n",
            "old_name.py": file("old_name.py", 7),
            b"\xff.py": file("ff", 0),
            **{name: file(name, 0) for name in (*PLAIN, *HOSTILE)},
            **{f"many/{number}.py": file(f"{number:02}", 0) for number in range(100)},
        },
    )
    side = made.commit(
        "Handle the empty list",
        {"b.py": file("b.py", 1)},
        branch="side",
        parents=(first,),
    )
    main = made.commit("Set one in the first file", {"a.py": file("a.py", 1)})
    made.commit(
        "Merge the side branch here",
        {"a.py": file("a.py", 9), "b.py": file("b.py", 1)},
        parents=(main, side),
    )
    made.commit(
        "Handle the empty list",
        {"b.py": file("b.py", 1)},
        branch="maint",
        parents=(first,),
    )
    made.commit(
        "Rename the module of names",
        {"old_name.py": None, "new_name.py": file("old_name.py", 7)},
    )
    made.commit("Point the link elsewhere", {"link.py": (LINK, b"b.py")})
    made.commit("Make a link of the file", {"typed.py": (LINK, b"b.py")})
    made.commit("Change the latin file", {"latin.py": "é = 1\n".encode("latin-1")})
    made.commit("Change one line of two", {"crlf.py": b"x = 1\r\ny = 0\r\n"})
    made.commit("Use the other line ends", {"crlf.py": b"x = 1\ny = 0\n"})
    made.commit("Move the submodule ahead", {"sub": (SUBMODULE, b"2" * 40)})
    made.commit(
        "Change two files at once",
        {"a.py": file("a.py", 2), "b.py": file("b.py", 2, "y = 2")},
    )
    made.commit(
        "Change two files alike",
        {"b.py": file("b.py", 3, "y = 2"), "a.py": file("a.py", 3)},
    )
    made.commit("Generate the messages again", {"g_pb2.py": file("g_pb2.py", 1)})
    made.commit(
        "Update the vendored library",
        {"src/vendor/lib.py": file("src/vendor/lib.py", 1)},
    )
    made.commit("Make the file executable", {"a.py": (EXECUTABLE, file("a.py", 3))})
    made.commit("Change the long file", {"long.py": LONG + b"1\n"})
    made.commit(
        "Change the file that fits", {"fits.py": LONG.replace(b"aa", b"bb") + b"\n"}
    )
    made.commit("Change the notes only", {"notes.txt": b"1\n"})
    made.commit("Change a name of bytes", {b"\xff.py": file("ff", 1)})
    for number, name in enumerate(HOSTILE):
        made.commit(f"Change the hostile name {number}", {name: file(name, 1)})
    made.commit(
        "Change many files at once",
        {f"many/{number}.py": file(f"{number:02}", 1) for number in range(100)},
    )
    made.commit("Fixed the first file", {"a.py": file("a.py", 4)})
    made.commit(b"Write without a newline", {"a.py": file("a.py", 5)})
    made.commit(
        "Rename the café".encode("latin-1"),
        {"a.py": file("a.py", 6)},
        encoding="ISO-8859-1",
    )
    made.commit("Rename the café".encode("latin-1"), {"a.py": file("a.py", 7)})
    made.commit("", {"a.py": file("a.py", 8)})
    made.commit("Say it at length " + "x" * 2_000_000, {"a.py": file("a.py", 9)})
    made.commit(
        f"[core] Fix the sum (#12)\n\nBy {AUTHOR}, see ada@example.org.\n\n"
        f"Fixes: #12\nSigned-off-by: {AUTHOR} <ada@example.org>\n",
        {"a.py": file("a.py", 10)},
    )
    made.commit("Set a date before all dates", {"a.py": file("a.py", 11)}, date=10**15)
    return made


def simple(
    folder: Path,
    message: str = "Return two instead of one",
    *,
    hash_name: str = "sha1",
    bare: bool = True,
) -> Path:
    """Make a repository with a licence and one edit."""
    history = MadeHistory()
    history.commit(
        "Begin with a module", {"LICENSE": MIT, "a.py": b"def f():\n    return 1\n"}
    )
    history.commit(message, {"a.py": b"def f():\n    return 2\n"})
    return history.write(folder, hash_name=hash_name, bare=bare)


def lay_traps(repository: Path, trace: Path) -> None:
    """Configure whatever git may run in a bare repository such that it leaves a trace.

    Also replace a blob, and graft a commit, so that a reader who trusts either reads other text.
    """
    script = repository / "trap"
    script.write_text(f"#!/bin/sh\necho $0 $@ >>{trace}\nexit 1\n")
    script.chmod(0o755)
    (repository / "info" / "attributes").write_text("* diff=trap filter=trap\n")
    (repository / "hooks").mkdir(exist_ok=True)
    for name in (
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "fsmonitor",
    ):
        shutil.copy(script, repository / "hooks" / name)
    settings = (
        "diff.trap.textconv",
        "diff.trap.command",
        "diff.external",
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "core.fsmonitor",
        "core.pager",
        "pager.log",
        "gpg.program",
        "gpg.ssh.program",
        "core.sshCommand",
        "core.gitProxy",
        "core.editor",
        "core.alternateRefsCommand",
        "remote.origin.uploadpack",
        "credential.helper",
    )
    values = dict.fromkeys(settings, str(script))
    values |= {
        "alias.log": f"!{script}",
        "alias.cat-file": f"!{script}",
        "log.showSignature": "true",
        "log.follow": "true",
        "log.diffMerges": "first-parent",
        "diff.renames": "copies",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{script}",
        "protocol.ext.allow": "always",
        "core.repositoryFormatVersion": "1",
    }
    for name, value in values.items():
        git("config", name, value, cwd=repository)


def files_of(folder: Path) -> dict[str, tuple[str, int]]:
    """Return digest and time of change of each file, and each folder's, to see any change."""
    states = {}
    for path in sorted(folder.rglob("*")):
        digest = sha256_of(path) if path.is_file() else ""
        name = path.relative_to(folder).as_posix()
        states[name] = (digest, path.stat().st_mtime_ns)
    return states


QUOTES = '"""'


def plain_cleanup(text: str) -> str:
    """Drop the comments on top and one block in triple double quotes, line by line."""
    lines = text.split("\n")
    comments = 0
    opened = None
    for number, line in enumerate(lines):
        once = line.find(QUOTES) >= 0 and len(line.split(QUOTES)) == 2
        if opened is not None:
            if once:
                return "\n".join(lines[number + 1 :])
        elif once:
            opened = number
        elif line[:1] == "#":
            comments = number + 1
        elif not line.isspace() and line:
            break
    return "\n".join(lines[comments:])


def plain_distance(
    a: str,
    b: str,
    limit: int = 1000,
) -> int:
    """Return the Levenshtein distance, ``limit`` for any that is as large.

    What both begin and end with costs nothing; no row of the table is better than that above, and
    no cell is better than its distance from the diagonal.
    """
    for _ in range(2):
        apart = (
            index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y
        )
        same = next(apart, min(len(a), len(b)))
        a = a[same:][::-1]
        b = b[same:][::-1]
    above = {column: column for column in range(min(len(b), limit) + 1)}
    for row, left in enumerate(a, 1):
        here = {0: row}
        for column in range(max(1, row - limit), min(len(b), row + limit) + 1):
            changed = above.get(column - 1, limit) + (left != b[column - 1])
            beside = min(above.get(column, limit), here.get(column - 1, limit)) + 1
            here[column] = min(changed, beside)
        above = here
        if min(above.values()) >= limit:
            break
    return min(above.get(len(b), limit), limit)


def plain_parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except Exception:
        return False
    return True


def plain_verdict(row: EditRow) -> tuple[str, str, str]:
    """Return both cleaned sides and the first rule of the published code that the row breaks."""
    old = plain_cleanup(row["old_contents"])
    new = plain_cleanup(row["new_contents"])
    markers = [
        "TODO",
        "FIXME",
        "BUG",
        "FIX ME",
        "from setuptools import",
        "import setuptools",
    ]
    if not old.strip() or not new.strip():
        rule = "blank"
    elif any(word in new or word.lower() in new for word in markers):
        rule = "words"
    elif abs(len(old) - len(new)) < 10 and plain_distance(old, new, 10) < 10:
        rule = "small"
    elif not plain_parses(new):
        rule = "syntax"
    else:
        rule = ""
    return old, new, rule


END = "<|end|>"
SYLLABLES = [first + second for first in "bdfgklmnprst" for second in "aeiou"]


def recipe(**values: object) -> list[str]:
    """Return the arguments that give settings of ``train``."""
    argv: list[str] = []
    for name, value in values.items():
        argv += ["--set", f"train.{name}={value}"]
    return argv


SHORT = recipe(window=80, batch=3, step_windows=6, lr="3e-3")
"""Of 16 windows: three steps an epoch, the last with four windows."""


def edits(number: int, seed: int = 0) -> list[EditRow]:
    """Return different edits of one kind: a number is doubled, under a name that means nothing.

    There are 3,600 names of two syllables, so a model that writes the right one has copied it; and
    the programs have little besides it, so two of them are no near-duplicates.
    """
    rng = random.Random(seed)
    names = rng.sample([a + b for a in SYLLABLES for b in SYLLABLES], number)
    return [
        with_content(
            {
                OLD: f"{name} = 4\n",
                NEW: f"{name} = 4\n{name} = {name} + {name}\n",
                "message": f"Double {name} after that",
                "license": "MIT",
            }
        )
        for name in names
    ]


def write_training_rows(
    path: Path,
    rows: Iterable[EditRow],
    *,
    clean: bool = True,
) -> Path:
    """Write rows, with a report that shows decontamination if they are ``clean``."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sha256 = file_digest(path)
    command = "dedup"
    if clean:
        command = "decontaminate"
    report = {
        "command": command,
        "inputs": [],
        "output": {"name": path.name, "sha256": sha256},
    }
    write_json(report_of(path), report)
    return path


def tokenizer_of(texts: Sequence[str], vocabulary: int = 344) -> Any:
    """Return a byte-level BPE tokenizer of ``tokenizers``, made of texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return made


def write_model(
    folder: Path,
    texts: Sequence[str],
    vocabulary: int = 344,
) -> Path:
    """Write a Llama of 3 layers and width 96 with random weights, and its tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokens = tokenizer_of(texts, vocabulary)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokens, eos_token=END, pad_token=END
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokens.get_vocab_size(),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def record(tuned: Path) -> Any:
    return read_json(tuned / "train.json")


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): sha256_of(p) for p in files}
