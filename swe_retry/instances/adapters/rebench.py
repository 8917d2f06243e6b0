"""SWE-rebench, V1 and V2: rows with ``install_config``, whose commands need no hidden data.

V1: ``swebench/harness/test_spec/python.py`` of SWE-rebench/SWE-bench-fork. V2: ``scripts/eval.py``
and ``combine.Dockerfile.j2`` of SWE-rebench/SWE-rebench-V2; its columns ``interface`` and
``pr_description`` come from the solution and are hidden.
"""

from __future__ import annotations

from dataclasses import replace

from swe_retry.core.errors import UserError
from swe_retry.instances.adapters.adapter import (
    CONDA,
    REQUIRED,
    VISIBLE,
    Row,
    SetAdapter,
    columns,
    eval_image,
    lines,
    mapping,
    text,
)
from swe_retry.instances.instance import ImageLayout, Instance, TestSetup


def _command(config: Row) -> str:
    commands = " ; ".join(lines(config, "test_cmd"))
    if not commands:
        raise UserError("`install_config` has no `test_cmd`; fix the dataset")
    return commands


class Rebench(SetAdapter):
    name = "SWE-rebench"
    marks = ("install_config", "docker_image", "image_name")
    required = (*REQUIRED, "install_config")
    visible = VISIBLE | columns("install_config image_name version docker_image")

    def fits(self, row: Row) -> bool:
        images = f"{row.get('docker_image')} {row.get('image_name')}"
        return "install_config" in row or "swerebench/" in images

    def read(self, row: Row) -> Instance:
        config = mapping(row, "install_config")
        image = text(row, "docker_image") or text(row, "image_name")
        return replace(
            self.common_fields(row),
            image=image or eval_image("swerebench", row["instance_id"]),
            log_parser=text(config, "log_parser"),
            test_setup=TestSetup(lines(config, "install"), _command(config)),
            layout=ImageLayout(activation=CONDA, one_commit=True),
        )


class RebenchV2(SetAdapter):
    name = "SWE-rebench V2"
    marks = (
        "install_config language",
        "pr_description",
        "image_name language interface",
    )
    required = (*REQUIRED, "install_config", "image_name")
    visible = VISIBLE | columns("install_config image_name")

    def read(self, row: Row) -> Instance:
        config = mapping(row, "install_config")
        name = row["repo"].partition("/")[2]
        return replace(
            self.common_fields(row),
            image=row["image_name"],
            log_parser=text(config, "log_parser"),
            test_setup=TestSetup((), _command(config)),
            layout=ImageLayout(f"/{name}", keeps_home=True, one_commit=True),
        )
