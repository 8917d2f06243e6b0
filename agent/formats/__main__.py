"""Try edit formats by hand: ``python -m swe_retry.agent.formats show FORMAT``, or ``apply``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.apply import safe_edits, write_report
from swe_retry.agent.formats.protocol import EditFormat, MalformedReplyError, ReplyScope
from swe_retry.agent.formats.report import ApplyReport, feedback
from swe_retry.agent.workspace import Workspace
from swe_retry.core.git import git_result, split_paths
from swe_retry.core.plaintext import did_you_mean
from swe_retry.llm.chat import Reply

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=True,
)
FormatName = Annotated[
    str, typer.Argument(metavar="FORMAT", help=f"One of {', '.join(format_names())}.")
]


@app.command()
def show(form: FormatName) -> None:
    """Print the instructions of a format."""
    print(_format(form).instructions("```"))


@app.command()
def apply(
    form: FormatName,
    reply: Annotated[Path, typer.Argument(help="The model's reply, as a text file.")],
    root: Annotated[
        Path, typer.Option("--root", help="The folder whose files are edited.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
) -> None:
    """Apply a reply to the files below a folder and print the result of each edit as JSON."""
    edit_format = _format(form)
    if not root.is_dir():
        _refuse(f"--root {root}: no such folder")
    try:
        text = reply.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        _refuse(f"{reply}: {error.strerror}")
    result = _apply_reply(edit_format, text, root, dry_run=dry_run)
    print(json.dumps(result, indent=2, ensure_ascii=False))
    succeeded = result["applied"] and not result["failed"]
    raise typer.Exit(0 if succeeded else 1)


def _apply_reply(
    edit_format: EditFormat, text: str, root: Path, *, dry_run: bool
) -> dict[str, Any]:
    space = Workspace(root.resolve())
    scope = ReplyScope(_files_below(root), read=space.read)
    problem = ""
    try:
        edits = edit_format.parse(Reply(text), scope)
    except MalformedReplyError as error:
        problem = str(error)
    else:
        if not edits:
            problem = f"the reply holds no edit in the format {edit_format.name}"
    if problem:
        failure = {"path": "", "reason": problem}
        return {"applied": [], "failed": [failure], "feedback": problem}
    edits = safe_edits(edits, space)
    report = edit_format.apply(edits, space.read, ())
    if not dry_run:
        report = write_report(report, space)
    return _as_json(report)


def _format(name: str) -> EditFormat:
    names = format_names()
    if name not in names:
        _refuse(f"{name}: there are {', '.join(names)}{did_you_mean(name, names)}")
    return get_format(name)


def _refuse(problem: str) -> None:
    print(f"error: {problem}", file=sys.stderr)
    raise typer.Exit(2)


def _as_json(report: ApplyReport) -> dict[str, Any]:
    applied = []
    failed = []
    for number, result in enumerate(report.results, 1):
        if result.applied:
            applied.append(
                {"edit": number, "path": result.landed_in, "step": result.step}
            )
        else:
            failed.append(
                {"edit": number, "path": result.path, "reason": result.problem}
            )
    return {
        "applied": applied,
        "failed": failed,
        "rolled_back": report.rolled_back,
        "feedback": feedback(report),
    }


def _files_below(root: Path) -> frozenset[str]:
    result = git_result("ls-files", "-z", "--cached", "--others", cwd=root)
    if result.returncode == 0:
        names = split_paths(result.stdout)
        return frozenset(name for name in names if (root / name).is_file())
    files = set()
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if path.is_file() and ".git" not in relative.parts:
            files.add(relative.as_posix())
    return frozenset(files)


if __name__ == "__main__":
    app()
