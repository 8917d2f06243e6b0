"""SWE-rebench, V1 and V2: rows with ``install_config``, whose commands need no hidden data.

V1: ``swebench/harness/test_spec/python.py`` of SWE-rebench/SWE-bench-fork. V2: ``scripts/eval.py``
and ``combine.Dockerfile.j2`` of SWE-rebench/SWE-rebench-V2; its columns ``interface`` and
``pr_description`` come from the solution and are hidden.
"""

from __future__ import annotations

from bench.instances.adapters.base import (
    CONDA,
    Row,
    SetAdapter,
    columns,
    date_of,
    eval_image,
    lines,
    mapping,
    marks,
    text,
)
from bench.instances.shape import ImagePlace, Instance, TestSetup
from core.errors import UserError

_COMMON = "instance_id repo base_commit problem_statement created_at install_config image_name "
_REQUIRED = ("instance_id", "repo", "base_commit", "problem_statement", "install_config")


def _command(config: Row) -> str:
    commands = " ; ".join(lines(config, "test_cmd"))
    if not commands:
        raise UserError("`install_config` has no `test_cmd`; fix the dataset")
    return commands


def _read(row: Row) -> Instance:
    config, name = mapping(row, "install_config"), row["instance_id"]
    image = text(row, "docker_image") or text(row, "image_name")
    return Instance(
        instance_id=name,
        repo=row["repo"],
        base_commit=row["base_commit"],
        problem_statement=row["problem_statement"],
        version=str(row.get("version") or ""),
        image=image or eval_image("swerebench", name),
        log_parser=text(config, "log_parser"),
        test_setup=TestSetup(lines(config, "install"), _command(config)),
        place=ImagePlace(activation=CONDA, one_commit=True),
        language="python",
        created_at=date_of(row.get("created_at")),
    )


def _read_v2(row: Row) -> Instance:
    config = mapping(row, "install_config")
    folder = f"/{row['repo'].partition('/')[2]}"
    return Instance(
        instance_id=row["instance_id"],
        repo=row["repo"],
        base_commit=row["base_commit"],
        problem_statement=row["problem_statement"],
        version="",
        image=row["image_name"],
        log_parser=text(config, "log_parser"),
        test_setup=TestSetup((), _command(config)),
        place=ImagePlace(folder, keeps_home=True, one_commit=True),
        language=text(row, "language").lower(),
        created_at=date_of(row.get("created_at")),
    )


REBENCH = SetAdapter(
    name="SWE-rebench",
    marks=marks("install_config", "docker_image", "image_name"),
    required=_REQUIRED,
    visible=columns(_COMMON + "version docker_image"),
    read=_read,
    fits=lambda row: (
        "install_config" in row
        or any("swerebench/" in str(row.get(key)) for key in ("docker_image", "image_name"))
    ),
)
REBENCH_V2 = SetAdapter(
    name="SWE-rebench V2",
    marks=marks("install_config language", "pr_description", "image_name language interface"),
    required=(*_REQUIRED, "image_name"),
    visible=columns(_COMMON + "language"),
    read=_read_v2,
)
