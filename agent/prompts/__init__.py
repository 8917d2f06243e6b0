"""The texts that go to models: one file each, filled in with jinja2."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_FOLDER = Path(__file__).parent


@cache
def _templates() -> Environment:
    # Imported here: the help of commands renders nothing.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

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


def source(name: str) -> str:
    """Return the prompt ``name`` as a template for ``fill``."""
    return (_FOLDER / f"{name}.md").read_text("utf-8")


def fill(template: str, **values: object) -> str:
    """Return ``template`` with ``values`` filled in; every name in it must be given."""
    return _compile(template).render(**values)


@cache
def _compile(template: str) -> Template:
    return _templates().from_string(template)


def prompts_hash() -> str:
    """Return the SHA-256 over the prompt files of a run, which a run must repeat to be the same.

    Those in subfolders belong to notations that a run of the harness does not use.
    """
    digest = hashlib.sha256()
    for file in sorted(_FOLDER.glob("*.md")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
