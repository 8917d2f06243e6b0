"""Pure: the repository, year, image and gold files of an instance, from several sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from bench.instances.instance import derived_image, split_row
from bench.repos.patches import patch_paths
from core.errors import UserError
from reports.data.jsonvalues import text, texts

Row = Mapping[str, Any]
_YEAR = re.compile(r"\d{4}")


def repository_of(instance_id: str) -> str:
    """Return the repository in an id: ``owner/name`` for ``owner__name-123``."""
    return instance_id.rpartition("-")[0].replace("__", "/", 1) or instance_id


def year_of(created: str) -> int | None:
    """Return the year at the start of a date; None if there is none."""
    match = _YEAR.match(created)
    return int(match[0]) if match else None


def image_of(instance_id: str, row: Row, kept: Row) -> str:
    """Return the image for an instance's tests: of the dataset, the verdict or swebench."""
    used = text(kept.get("image")).partition("@")[0]
    of_set = ""
    with suppress(UserError):
        of_set = split_row(row)[0].shown_image if row else ""
    return text(row.get("image")) or used or of_set or derived_image(instance_id)


def gold_files_of(row: Row, kept: Row, content: Row) -> tuple[str, ...] | None:
    """Return the files of the gold patch: of the dataset, the verdict or an older prediction."""
    if row.get("patch"):
        return patch_paths(text(row["patch"]))
    return texts(kept.get("gold_files")) or texts(content.get("gold_files")) or None
