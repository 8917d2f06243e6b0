"""Render texts of templates that stand beside their modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def render_text(
    template: Path,
    *functions: Callable[..., object],
    **values: object,
) -> str:
    """Return the text of a template file, which knows ``functions`` by their names.

    Nothing in the values is read as a template.
    """
    for function in functions:
        values[function.__name__] = function
    return _read_template(template).render(values)


@cache
def _read_template(path: Path) -> Template:
    return make_environment().from_string(path.read_text("utf-8"))


def make_environment() -> Environment:
    # Imported here: most commands render nothing.
    from jinja2 import Environment, StrictUndefined

    return Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
