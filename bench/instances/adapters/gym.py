"""SWE-Gym: classic columns, known by its repositories; images and test commands of its fork.

Repositories and commands: ``MAP_REPO_VERSION_TO_SPECS`` in ``swebench/harness/constants.py`` of
SWE-Gym/SWE-Bench-Fork; mypy's command there ends in ``-k`` and names of hidden tests. The fork's
images have each project installed in place, so only compiled files stay as they were built.
"""

from __future__ import annotations

from bench.instances.adapters.base import (
    CONDA,
    TEST_SETUP,
    Row,
    SetAdapter,
    columns,
    date_of,
    eval_image,
    marks,
    text,
)
from bench.instances.shape import ImagePlace, Instance, TestSetup

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


def _of_gym(row: Row) -> bool:
    published = row.get("image") or row.get("eval_script") or row.get("spec")
    named = str(row.get("instance_id")).rpartition("-")[0].replace("__", "/", 1)
    return not published and str(row.get("repo") or named).lower() in _COMMANDS


def _read(row: Row) -> Instance:
    name, repo = row["instance_id"], row["repo"]
    image = text(row, "docker_image") or text(row, "image_name")
    setup = TestSetup(_LINES.get(repo.lower(), ()), _COMMANDS[repo.lower()])
    return Instance(
        instance_id=name,
        repo=repo,
        base_commit=row["base_commit"],
        problem_statement=row["problem_statement"],
        version=str(row.get("version") or ""),
        image=image or eval_image("xingyaoww", name, "_s_"),
        log_parser="parse_log_pytest",
        test_setup=row.get(TEST_SETUP) or setup,
        place=ImagePlace(activation=CONDA, one_commit=True),
        language="python",
        created_at=date_of(row.get("created_at")),
    )


GYM = SetAdapter(
    name="SWE-Gym",
    marks=marks("repo base_commit", "instance_id", "repo problem_statement"),
    required=("instance_id", "repo", "base_commit", "problem_statement"),
    visible=columns(
        "instance_id repo base_commit problem_statement version docker_image image_name created_at"
    ),
    read=_read,
    fits=_of_gym,
)
