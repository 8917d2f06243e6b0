"""Print the map of a folder: ``python -m agent.repomap DIR --text FILE --tokens N [--json]``."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from agent.repomap import TagStore
from agent.repomap.build import RepoMap
from agent.repomap.scanning.tree import blobs_below
from core.errors import UserError


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the map, or with ``--json`` the ranked files, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m agent.repomap", description=__doc__
    )
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a git checkout or any folder"
    )
    parser.add_argument(
        "--text", required=True, metavar="FILE", help="the issue; - for stdin"
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=1024,
        metavar="N",
        help="budget, of four characters each",
    )
    parser.add_argument(
        "--json", action="store_true", help="all files with score and reasons"
    )
    parser.add_argument(
        "--chat", action="append", default=[], metavar="PATH", help="leave out"
    )
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    parser.add_argument(
        "--store",
        type=Path,
        default=Path(base) / "swe-retry-harness" / "tags.sqlite",
        metavar="FILE",
        help="where tags are kept",
    )
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without UTF-8 must not stop a map with an accent in it.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if options.text == "-":
            text = sys.stdin.read()
        else:
            try:
                text = Path(options.text).read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                raise UserError(
                    f"cannot read {options.text}: {error.strerror}"
                ) from error
        blobs = blobs_below(options.folder)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    repo_map = RepoMap.of(blobs, options.folder, TagStore(options.store))
    if options.json:
        shown = {
            entry.path
            for entry in repo_map.select(text, options.tokens, chat=options.chat)
        }
        rows = [{**asdict(f), "shown": f.path in shown} for f in repo_map.ranked(text)]
        print(json.dumps(rows, indent=1))
    elif rendered := repo_map.render(text, options.tokens, chat=options.chat):
        print(rendered)
    return 0


if __name__ == "__main__":
    sys.exit(main())
