"""SWE-Gym: classic columns, known by its repositories; images and test commands of its fork.

Repositories and commands: ``MAP_REPO_VERSION_TO_SPECS`` in ``swebench/harness/constants.py`` of
SWE-Gym/SWE-Bench-Fork; mypy's command there ends in ``-k`` and names of hidden tests. The fork's
images have each project installed in place, so only compiled files stay as they were built.
"""

from __future__ import annotations

from dataclasses import replace

from swe_retry.instances.adapters.adapter import (
    CONDA,
    TEST_COMMANDS,
    VISIBLE,
    Row,
    SetAdapter,
    columns,
    eval_image,
    text,
)
from swe_retry.instances.instance import ImageLayout, Instance, TestSetup

_LINES = {"conan-io/conan": ("export PYTHONPATH=${PYTHONPATH:-}:$(pwd)",)}


class Gym(SetAdapter):
    name = "SWE-Gym"
    marks = ("repo base_commit", "instance_id", "repo problem_statement")
    visible = VISIBLE | columns("version docker_image image_name")

    def fits(self, row: Row) -> bool:
        for key in ("image", "eval_script", "spec"):
            if row.get(key):
                return False
        repo = row.get("repo")
        if not repo:
            name = str(row.get("instance_id")).rpartition("-")[0]
            repo = name.replace("__", "/", 1)
        return str(repo).lower() in TEST_COMMANDS["gym"]

    def read(self, row: Row) -> Instance:
        repo = row["repo"].lower()
        image = text(row, "docker_image") or text(row, "image_name")
        return replace(
            self.common_fields(row),
            image=image or eval_image("xingyaoww", row["instance_id"], "_s_"),
            log_parser="parse_log_pytest",
            test_setup=TestSetup(_LINES.get(repo, ()), TEST_COMMANDS["gym"][repo]),
            layout=ImageLayout(activation=CONDA, one_commit=True),
        )
