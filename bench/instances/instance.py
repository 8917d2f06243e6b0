"""Rows, split into the half that the harness may know and the half for reports only.

``split_row`` is the only place with both halves of a row. The second half cannot reach an attempt:
it has another type, which ``bench.attempts`` and ``agent`` never accept. The first half is made by
the adapter of the row's set, from the columns that it may see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.instances.adapters import ADAPTERS, adapter_of, nearest
from bench.instances.adapters.base import TEST_SETUP, SetAdapter, own_id
from bench.instances.evalscript import bare_setup
from bench.instances.hidden import Evaluation, evaluation_of
from bench.instances.shape import ImagePlace, Instance, Spec, TestSetup, derived_image
from bench.repos.patches import patch_paths
from core.errors import UserError
from runs.storage.layouts import is_safe_key

__all__ = [
    "Evaluation", "ImagePlace", "Instance", "Spec", "TestSetup",
    "derived_image", "instance_id_of", "split_row",
]  # fmt: skip

_PLAIN_TEXTS = ("instance_id", "repo", "base_commit", "problem_statement")
_REPO = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SHOWN_COLUMNS = 12


def split_row(row: Mapping[str, Any]) -> tuple[Instance, Evaluation]:
    """Split a dataset row into the harness's half and the reports' half.

    Raises:
        UserError: a required field is missing or has the wrong type, or the set is unknown.
    """
    adapter = _adapter(row)
    name = adapter.identify(row)
    try:
        _check_types(row)
        evaluation = evaluation_of(row, name, plants_bug="patch" in adapter.visible)
        instance = adapter.read(_visible(row, adapter, evaluation.test_patch))
        instance = replace(instance, set_name=adapter.name)
        _check(instance)
    except UserError as error:
        raise UserError(f"instance {name}: {error}{_looks(adapter)}") from error
    return instance, evaluation


def instance_id_of(row: Mapping[str, Any]) -> str:
    """Return the id under which the harness knows ``row``, also if ``row`` is damaged."""
    adapter = adapter_of(row)
    return adapter.identify(row) if adapter else own_id(row)


def _looks(adapter: SetAdapter) -> str:
    return f" (the row looks like {adapter.name})"


def _adapter(row: Mapping[str, Any]) -> SetAdapter:
    """Return the adapter for ``row``, which has the columns that it needs."""
    found = adapter_of(row)
    adapter = found or nearest(row)
    missing = [key for key in adapter.required if not _present(row, key)]
    if found is None and 2 * len(missing) > len(adapter.required):
        held = ", ".join(sorted(map(str, row))[:_SHOWN_COLUMNS])
        known = ", ".join(adapter.name for adapter in ADAPTERS)
        raise UserError(
            f"a row of no known set: it has the columns {held or 'of an empty row'}; "
            f"known sets: {known}"
        )
    if missing:
        name = row.get("instance_id") or "?"
        words = missing[0].replace("|", "` or `")
        raise UserError(
            f"instance {name}: the field `{words}` is missing; fix the dataset{_looks(adapter)}"
        )
    return adapter


def _present(row: Mapping[str, Any], key: str) -> bool:
    return any(row.get(name) not in (None, "", [], {}) for name in key.split("|"))


def _check_types(row: Mapping[str, Any]) -> None:
    for key in _PLAIN_TEXTS:
        value = row.get(key)
        if value is not None and not isinstance(value, str):
            kind = type(value).__name__
            raise UserError(f"the field `{key}` must be a text, not {kind}; fix the dataset")


def _visible(row: Mapping[str, Any], adapter: SetAdapter, test_patch: str) -> dict[str, Any]:
    """Return the columns that the adapter may see; a script without what it has of the others."""
    shown = {key: value for key, value in row.items() if key in adapter.visible}
    if TEST_SETUP in adapter.visible and row.get("eval_script"):
        shown[TEST_SETUP] = bare_setup(row["eval_script"], patch_paths(test_patch))
    return shown


def _check(instance: Instance) -> None:
    if not is_safe_key(instance.instance_id):
        raise UserError("an id holds only letters, digits and ._+-, and names no file of a run")
    if not _COMMIT.fullmatch(instance.base_commit):
        raise UserError("`base_commit` is not a commit hash")
    if not _REPO.fullmatch(instance.repo):
        raise UserError("`repo` is not of the form owner/name")
