"""SWE-bench itself: lite, verified, full, multilingual, multimodal, and rows of its layout.

Columns: ``swebench/types.py`` and ``swebench/harness/utils.py`` of swebench 5.0.2; the pictures of
Multimodal: ``image_assets["problem_statement"]``.
"""

from __future__ import annotations

from bench.instances.adapters.base import (
    TEST_SETUP,
    Row,
    SetAdapter,
    columns,
    date_of,
    lines,
    mapping,
    marks,
    text,
)
from bench.instances.shape import Instance, Spec, derived_image
from core.errors import UserError


def _read(row: Row) -> Instance:
    try:
        spec = Spec.of(row["spec"]) if row.get("spec") else None
    except (ValueError, TypeError) as error:
        raise UserError(f"`spec` cannot be read: {error}") from error
    # The pictures of the patches are hidden.
    pictures = mapping(row, "image_assets").get("problem_statement")
    return Instance(
        instance_id=row["instance_id"],
        repo=row["repo"],
        base_commit=row["base_commit"],
        problem_statement=row["problem_statement"],
        version=str(row.get("version") or ""),
        image=text(row, "image") or derived_image(row["instance_id"]),
        log_parser=text(row, "log_parser"),
        spec=spec,
        test_setup=row.get(TEST_SETUP),
        created_at=date_of(row.get("created_at")),
        image_urls=lines({"pictures": pictures}, "pictures"),
    )


CLASSIC = SetAdapter(
    name="SWE-bench",
    marks=marks("instance_id", "base_commit", "problem_statement"),
    required=("instance_id", "repo", "base_commit", "problem_statement"),
    visible=columns(
        "instance_id repo base_commit problem_statement version image log_parser spec "
        "created_at image_assets"
    )
    | {TEST_SETUP},
    read=_read,
)
