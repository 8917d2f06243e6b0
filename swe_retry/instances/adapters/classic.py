"""SWE-bench itself: lite, verified, full, multilingual, multimodal, and rows of its layout.

Columns: ``swebench/types.py`` and ``swebench/harness/utils.py`` of swebench 5.0.2; the pictures of
Multimodal: ``image_assets["problem_statement"]``.
"""

from __future__ import annotations

from dataclasses import replace

from swe_retry.core.errors import UserError
from swe_retry.instances.adapters.adapter import (
    TEST_SETUP,
    VISIBLE,
    Row,
    SetAdapter,
    columns,
    lines,
    mapping,
    text,
)
from swe_retry.instances.instance import Instance, Spec, derived_image


class Classic(SetAdapter):
    name = "SWE-bench"
    marks = ("instance_id", "base_commit", "problem_statement")
    visible = (
        VISIBLE
        | columns("version image log_parser spec image_assets environment_setup_commit")
        | {TEST_SETUP}
    )

    def read(self, row: Row) -> Instance:
        spec = None
        try:
            if row.get("spec"):
                spec = Spec.of(row["spec"])
        except (ValueError, TypeError) as error:
            raise UserError(f"`spec` cannot be read: {error}") from error
        # The pictures of the patches are hidden.
        pictures = mapping(row, "image_assets").get("problem_statement")
        return replace(
            self.common_fields(row),
            image=text(row, "image") or derived_image(row["instance_id"]),
            log_parser=text(row, "log_parser"),
            spec=spec,
            setup_commit=text(row, "environment_setup_commit"),
            test_setup=row.get(TEST_SETUP),
            image_urls=lines({"pictures": pictures}, "pictures"),
        )
