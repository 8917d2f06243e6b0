"""Instances, split into the half that the harness may know and the half for reports only.

``split_row`` is the only place with both halves of a row. The second half cannot reach an attempt:
it has another type, which ``bench.attempts`` and ``agent`` never accept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.instances.evalscript import TestSetup, bare_setup
from bench.repos.patches import patch_paths
from core.errors import UserError
from runs.storage.layouts import is_safe_key

_REQUIRED = ("instance_id", "repo", "base_commit", "problem_statement")
_TEXTS = ("patch", "test_patch", "hints_text", "eval_script", "image", "log_parser")
_REPO = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True)
class Spec:
    """How SWE-bench installs and tests one version of a repository (its ``MAP_REPO_VERSION``)."""

    python: str = "3"
    packages: str = ""
    pip_packages: tuple[str, ...] = ()
    pre_install: tuple[str, ...] = ()
    install: str = ""
    test_cmd: str = ""

    @classmethod
    def of(cls, raw: object) -> Spec:
        """Read a row's ``spec``, a mapping or its JSON text; unknown keys are left out.

        Raises:
            ValueError: it is neither.
        """
        raw = json.loads(raw) if isinstance(raw, str) else raw
        if not isinstance(raw, Mapping):
            raise ValueError("not a mapping")
        command = raw.get("test_cmd") or ""
        return cls(
            python=str(raw.get("python", "3")),
            packages=str(raw.get("packages") or ""),
            pip_packages=tuple(raw.get("pip_packages") or ()),
            pre_install=tuple(raw.get("pre_install") or ()),
            install=str(raw.get("install") or ""),
            test_cmd=str(command[-1] if isinstance(command, list) else command),
        )


@dataclass(frozen=True)
class Instance:
    """One SWE-bench problem: what the harness may know of it."""

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    version: str
    image: str
    log_parser: str = ""
    spec: Spec | None = None
    test_setup: TestSetup | None = None


@dataclass(frozen=True)
class Evaluation:
    """The half that only ``report.py`` may know: the gold patch and the hidden tests.

    Attributes:
        row: all fields, for the evaluator.
    """

    instance_id: str
    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    hints_text: str
    row: Mapping[str, Any]


def split_row(row: Mapping[str, Any]) -> tuple[Instance, Evaluation]:
    """Split a dataset row into the harness's half and the reports' half.

    Raises:
        UserError: a required field is missing or has the wrong type.
    """
    name = row.get("instance_id", "?")
    for key in _REQUIRED:
        value = row.get(key)
        if value is None or value == "":
            raise UserError(f"instance {name}: the field `{key}` is missing; fix the dataset")
        if not isinstance(value, str):
            kind = type(value).__name__
            raise UserError(
                f"instance {name}: the field `{key}` must be a text, not {kind}; fix the dataset"
            )
    if not is_safe_key(name):
        raise UserError(f"instance {name!r}: an id holds only letters, digits and ._+-")
    if not _COMMIT.fullmatch(row["base_commit"]):
        raise UserError(f"instance {name}: `base_commit` is not a commit hash")
    if not _REPO.fullmatch(row["repo"]):
        raise UserError(f"instance {name}: `repo` is not of the form owner/name")
    for key in _TEXTS:
        if not isinstance(row.get(key) or "", str):
            raise UserError(f"instance {name}: `{key}` is not a text")
    return _instance(row), _evaluation(row)


def _instance(row: Mapping[str, Any]) -> Instance:
    hidden = patch_paths(row.get("test_patch") or "")
    script = row.get("eval_script") or ""
    return Instance(
        instance_id=row["instance_id"],
        repo=row["repo"],
        base_commit=row["base_commit"],
        problem_statement=row["problem_statement"],
        version=str(row.get("version") or ""),
        image=row.get("image") or derived_image(row["instance_id"]),
        log_parser=row.get("log_parser") or "",
        spec=_spec(row) if row.get("spec") else None,
        test_setup=bare_setup(script, hidden) if script else None,
    )


def _spec(row: Mapping[str, Any]) -> Spec:
    try:
        return Spec.of(row["spec"])
    except (ValueError, TypeError) as error:
        raise UserError(f"instance {row['instance_id']}: `spec` cannot be read: {error}") from error


def _evaluation(row: Mapping[str, Any]) -> Evaluation:
    return Evaluation(
        instance_id=row["instance_id"],
        patch=row.get("patch") or "",
        test_patch=row.get("test_patch") or "",
        fail_to_pass=_names(row, "FAIL_TO_PASS"),
        pass_to_pass=_names(row, "PASS_TO_PASS"),
        hints_text=row.get("hints_text") or "",
        row=row,
    )


def _names(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the names of tests in a list or its JSON text."""
    value = row.get(key) or []
    try:
        names = json.loads(value) if isinstance(value, str) else value
        return tuple(str(name) for name in names)
    except (ValueError, TypeError) as error:
        raise UserError(f"instance {row['instance_id']}: `{key}` is not a list") from error


def derived_image(instance_id: str) -> str:
    """Return the official image for an instance whose row names none (as in swebench 5)."""
    return f"swebench/sweb.eval.x86_64.{instance_id.lower().replace('__', '_1776_')}:latest"
