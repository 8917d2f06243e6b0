"""Try edit formats by hand: ``python -m agent.formats show FORMAT``, or ``apply``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agent.formats import format_names, get_format
from agent.formats.apply import safe_edits, write_report
from agent.formats.base import (
    ApplyReport,
    EditFormat,
    MalformedReplyError,
    Matching,
    Notation,
    OnFailure,
    ReplyScope,
    after_failures,
    feedback,
)
from agent.workspace import Workspace
from llm.chat import Reply

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True
)
FormatName = Annotated[
    str, typer.Argument(metavar="FORMAT", help=f"One of {', '.join(format_names())}.")
]


@app.command()
def show(
    form: FormatName,
    fence: Annotated[str, typer.Option()] = "```",
    notation: Annotated[Notation, typer.Option()] = Notation.CURRENT,
) -> None:
    """Print the instructions of a format."""
    print(_format(form, Matching.TOLERANT, notation).instructions(fence))


@app.command()
def apply(
    form: FormatName,
    reply: Annotated[Path, typer.Argument(help="The model's reply, as a text file.")],
    root: Annotated[
        Path, typer.Option("--root", help="The folder whose files are edited.")
    ],
    matching: Annotated[Matching, typer.Option()] = Matching.TOLERANT,
    on_failure: Annotated[
        OnFailure,
        typer.Option("--on-failed-edit", help="What becomes of the other edits."),
    ] = OnFailure.KEEP,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
) -> None:
    """Apply a reply to the files below a folder and print the result of each edit as JSON."""
    edit_format = _format(form, matching)
    if not root.is_dir():
        _refuse(f"--root {root}: no such folder")
    try:
        text = reply.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        _refuse(f"{reply}: {error.strerror}")
    space = Workspace(root.resolve())
    known = _files(root)
    try:
        edits = edit_format.parse(Reply(text), ReplyScope(known))
        problem = (
            "" if edits else f"the reply holds no edit in the format {edit_format.name}"
        )
    except MalformedReplyError as error:
        problem = str(error)
    if problem:
        failed = [{"path": "", "reason": problem}]
        result: dict[str, Any] = {"applied": [], "failed": failed, "feedback": problem}
    else:
        safe = safe_edits(edits, space)
        report = after_failures(edit_format.apply(safe, space.read, ()), on_failure)
        result = _described(report if dry_run else write_report(report, space))
    print(json.dumps(result, indent=2, ensure_ascii=False))
    raise typer.Exit(0 if result["applied"] and not result["failed"] else 1)


def _format(
    name: str, matching: Matching, notation: Notation = Notation.CURRENT
) -> EditFormat:
    if name not in (names := format_names(notation)):
        _refuse(f"{name}: there are {', '.join(names)}")
    return get_format(name, matching, notation)


def _refuse(problem: str) -> None:
    print(f"error: {problem}", file=sys.stderr)
    raise typer.Exit(2)


def _described(report: ApplyReport) -> dict[str, Any]:
    numbered = list(enumerate(report.results, 1))
    kept = [] if report.rolled_back else [(n, r) for n, r in numbered if r.applied]
    return {
        "applied": [{"edit": n, "path": r.landed_in, "step": r.step} for n, r in kept],
        "failed": [
            {"edit": n, "path": r.path, "reason": r.problem}
            for n, r in numbered
            if not r.applied
        ],
        "rolled_back": report.rolled_back,
        "feedback": feedback(report),
    }


def _files(root: Path) -> frozenset[str]:
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(command, capture_output=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.decode("utf-8", "surrogateescape").split("\0")
        return frozenset(name for name in names if name and (root / name).is_file())
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return frozenset(path.as_posix() for path in found if ".git" not in path.parts)


if __name__ == "__main__":
    app()
