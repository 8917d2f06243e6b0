"""Print the map of a folder: ``python -m swe_retry.agent.repomap DIR --text FILE --tokens N``."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from swe_retry.agent.repomap.build import RepoMap
from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.agent.repomap.scanning.tree import blobs_below
from swe_retry.core.errors import UserError

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)


class MapFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


@app.command()
def main(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A git checkout, or any folder.")
    ],
    text: Annotated[
        str, typer.Option("--text", metavar="FILE", help="The issue; - for stdin.")
    ],
    tokens: Annotated[
        int,
        typer.Option(
            "--tokens",
            metavar="N",
            help="Print so many tokens at most, of four characters each.",
        ),
    ] = 1024,
    format: Annotated[
        MapFormat,
        typer.Option(
            help="Print the map as text, or all files with scores and reasons as json."
        ),
    ] = MapFormat.TEXT,
) -> None:
    """Print the files and definitions of a folder that are relevant to a text."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without UTF-8 must not stop a map with an accent in it.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        issue = _read(text)
        blobs = blobs_below(folder)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    store = TagStore(Path(cache) / "swe-retry-harness" / "tags.sqlite")
    repo_map = RepoMap.of(blobs, folder, store)
    if format is MapFormat.JSON:
        visible_paths = {entry.path for entry in repo_map.select(issue, tokens)}
        rows = []
        for file in repo_map.ranked_files(issue):
            rows.append({**asdict(file), "shown": file.path in visible_paths})
        print(json.dumps(rows, indent=1))
        return
    rendered = repo_map.render(issue, tokens)
    if rendered:
        print(rendered)


def _read(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text("utf-8", "replace")
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}") from error


if __name__ == "__main__":
    app()
