"""SWE-smith: a patch plants the bug, and its reverse is the fix.

``base_commit`` is the commit of a mirror repository in which the bug is planted
(``swesmith/harness/gather.py``); a clean commit may stand there too, and the patch is applied to
it. The image holds the clean tree, so all its tracked files are replaced. Test commands:
``swesmith/constants.py``; those that are not the default one are listed here.
"""

from __future__ import annotations

import re

from bench.instances.adapters.base import (
    CONDA,
    Row,
    SetAdapter,
    columns,
    date_of,
    marks,
    text,
)
from bench.instances.shape import ImagePlace, Instance, TestSetup
from core.errors import UserError

_DEFAULT = "pytest --disable-warnings --color=no --tb=no --verbose"
_COMMANDS = {
    "gin-gonic__gin": "go test -v ./...",
    "google__jax": f"{_DEFAULT} -n auto",
    "jax-ml__jax": f"{_DEFAULT} -n auto",
    "mido__mido": f"{_DEFAULT} -rs -c /dev/null",
    "paramiko__paramiko": "pytest -rA --color=no --disable-warnings",
    "pydantic__pydantic": f"/root/.local/bin/uv run {_DEFAULT}",
    "python__mypy": "pytest --color=no -rA",
    "tkrajina__gpxpy": "pytest test.py --verbose --color=no --tb=no --disable-warnings",
    "tornadoweb__tornado": "python -m tornado.test --verbose",
    "un33k__python-slugify": "python test.py --verbose",
}
_REPOSITORY = re.compile(r"([\w-]+__[\w.-]+?)\.([0-9a-f]{7,40})(?:\.|$)")


def _read(row: Row) -> Instance:
    found = _REPOSITORY.match(row["instance_id"])
    if found is None:
        raise UserError("`instance_id` is not of the form owner__name.commit.bug")
    name, commit = found.groups()
    # Without a commit of the mirror repository, the bug is planted in the original one.
    base, repo = text(row, "base_commit"), text(row, "repo")
    return Instance(
        instance_id=row["instance_id"],
        repo=repo if base else name.replace("__", "/", 1),
        base_commit=base or commit,
        problem_statement=row["problem_statement"],
        version=commit,
        image=row["image_name"],
        log_parser="parse_log_pytest",
        test_setup=TestSetup((), _COMMANDS.get(name.lower(), _DEFAULT)),
        place=ImagePlace(activation=CONDA, one_commit=True, fresh_tree=True),
        language="go" if _COMMANDS.get(name.lower(), "").startswith("go ") else "python",
        created_at=date_of(row.get("created_at")),
        bug=row["patch"],
    )


SMITH = SetAdapter(
    name="SWE-smith",
    marks=marks("image_name", "instance_id repo"),
    required=("instance_id", "repo", "patch", "image_name", "problem_statement"),
    # The only visible patch: it is the bug, and made part of the tree.
    visible=columns("instance_id repo patch image_name base_commit problem_statement created_at"),
    read=_read,
    fits=lambda row: "swesmith" in f"{row.get('image_name')} {row.get('repo')}".lower(),
)
