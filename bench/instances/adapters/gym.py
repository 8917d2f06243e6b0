"""SWE-Gym: classic columns, known by its repositories; images and test commands of its fork.

Repositories and commands: ``MAP_REPO_VERSION_TO_SPECS`` in ``swebench/harness/constants.py`` of
SWE-Gym/SWE-Bench-Fork; mypy's command there ends in ``-k`` and names of hidden tests. The fork's
images have each project installed in place, so only compiled files stay as they were built.
"""

from __future__ import annotations

from dataclasses import replace

from bench.instances.adapters.base import (
    CONDA,
    VISIBLE,
    Row,
    SetAdapter,
    columns,
    eval_image,
    marks,
    text,
)
from bench.instances.shape import ImageLayout, Instance, TestSetup

_COMMANDS = {
    "bokeh/bokeh": "pytest -rA -n0",
    "conan-io/conan": "pytest -n0 -rA",
    "dask/dask": "pytest -n0 -rA --color=no",
    "facebookresearch/hydra": "pytest -rA --tb=long",
    "getmoto/moto": "pytest -n0 -rA",
    "hypothesisworks/hypothesis": "pytest -n0 -rA --tb=no --no-header",
    "iterative/dvc": "pytest -rA",
    "modin-project/modin": "pytest -n0 -rA",
    "pandas-dev/pandas": "pytest -rA --tb=long",
    "project-monai/monai": "pytest -rA",
    "pydantic/pydantic": "pytest -rA --tb=short -vv -o console_output_style=classic --no-header",
    "python/mypy": "pytest -n0 -rA",
    "spyder-ide/spyder": "pytest -n0 -rA",
}
_LINES = {"conan-io/conan": ("export PYTHONPATH=${PYTHONPATH:-}:$(pwd)",)}


class Gym(SetAdapter):
    name = "SWE-Gym"
    marks = marks("repo base_commit", "instance_id", "repo problem_statement")
    visible = VISIBLE | columns("version docker_image image_name")

    def fits(self, row: Row) -> bool:
        for key in ("image", "eval_script", "spec"):
            if row.get(key):
                return False
        repo = row.get("repo")
        if not repo:
            name = str(row.get("instance_id")).rpartition("-")[0]
            repo = name.replace("__", "/", 1)
        return str(repo).lower() in _COMMANDS

    def read(self, row: Row) -> Instance:
        repo = row["repo"].lower()
        image = text(row, "docker_image") or text(row, "image_name")
        return replace(
            self.common_fields(row),
            image=image or eval_image("xingyaoww", row["instance_id"], "_s_"),
            log_parser="parse_log_pytest",
            test_setup=TestSetup(_LINES.get(repo, ()), _COMMANDS[repo]),
            layout=ImageLayout(activation=CONDA, one_commit=True),
        )
