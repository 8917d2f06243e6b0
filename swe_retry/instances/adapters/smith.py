"""SWE-smith: a patch plants the bug, and its reverse is the fix.

``base_commit`` is the commit of a mirror repository in which the bug is planted
(``swesmith/harness/gather.py``); a clean commit may stand there too, and the patch is applied to
it. The image holds the clean tree, so all its tracked files are replaced. Test commands:
``swesmith/constants.py``; those that are not the default one are in ``commands.yaml``.
"""

from __future__ import annotations

import re
from dataclasses import replace

from swe_retry.core.errors import UserError
from swe_retry.instances.adapters.adapter import (
    CONDA,
    TEST_COMMANDS,
    VISIBLE,
    Row,
    SetAdapter,
    columns,
)
from swe_retry.instances.instance import ImageLayout, Instance, TestSetup

_REPOSITORY = re.compile(r"([\w-]+__[\w.-]+?)\.([0-9a-f]{7,40})(?:\.|$)")


class Smith(SetAdapter):
    name = "SWE-smith"
    marks = ("image_name", "instance_id repo")
    required = ("instance_id", "repo", "patch", "image_name", "problem_statement")
    # The only visible patch: it is the bug, and made part of the tree.
    visible = VISIBLE | columns("patch image_name")

    def fits(self, row: Row) -> bool:
        return "swesmith" in f"{row.get('image_name')} {row.get('repo')}".lower()

    def read(self, row: Row) -> Instance:
        match = _REPOSITORY.match(row["instance_id"])
        if match is None:
            raise UserError("`instance_id` is not of the form owner__name.commit.bug")
        name, commit = match.groups()
        commands = TEST_COMMANDS["smith"]
        common = self.common_fields(row)
        repo = common.repo
        base_commit = common.base_commit
        if not base_commit:
            # Without a commit of the mirror repository, the bug is planted in the original one.
            repo = name.replace("__", "/", 1)
            base_commit = commit
        return replace(
            common,
            repo=repo,
            base_commit=base_commit,
            version=commit,
            image=row["image_name"],
            log_parser="parse_log_pytest",
            test_setup=TestSetup((), commands.get(name.lower(), commands["default"])),
            layout=ImageLayout(activation=CONDA, one_commit=True, fresh_tree=True),
            bug=row["patch"],
        )
