"""The texts that go to models: one file each, filled in with jinja2."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_FOLDER = Path(__file__).parent


@cache
def _templates() -> Environment:
    # Prompts are plain text: escaping for HTML would change the code in them.
    return Environment(
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=False,
    )


def render(name: str, **values: object) -> str:
    """Return the prompt ``name`` with ``values`` filled in; every name in it must be given."""
    return _templates().get_template(f"{name}.md").render(**values)


def prompts_hash() -> str:
    """Return the SHA-256 over all prompt files: what a run must repeat to be the same run."""
    digest = hashlib.sha256()
    for file in sorted(_FOLDER.glob("*.md")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
