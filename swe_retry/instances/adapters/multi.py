"""Multi-SWE-bench, mini and flash (``multi_swe_bench/harness/image.py`` and ``pull_request.py``).

A row's title and body are the pull request's and hidden; the statement is the first resolved issue.
The images contain the gold patch and the test patch in ``/home``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swe_retry.core.errors import UserError
from swe_retry.instances.adapters.adapter import (
    CONDA,
    Row,
    SetAdapter,
    columns,
    eval_image,
    mapping,
    text,
)
from swe_retry.instances.instance import ImageLayout, Instance, TestSetup

_HIDDEN_FILES = (
    "/home/fix.patch",
    "/home/test.patch",
    "/home/fix-run.sh",
    "/home/test-run.sh",
)


class Multi(SetAdapter):
    name = "Multi-SWE-bench"
    marks = ("org number", "org base", "fix_patch", "resolved_issues")
    required = ("org", "repo", "number", "base", "resolved_issues")
    visible = columns("org repo number base resolved_issues lang")

    def identify(self, row: Row) -> str:
        return f"{row.get('org')}__{row.get('repo')}-{row.get('number')}"

    def read(self, row: Row) -> Instance:
        org = text(row, "org")
        repo = text(row, "repo")
        base = mapping(row, "base")
        if not text(base, "sha"):
            raise UserError("`base` has no `sha`; fix the dataset")
        number = str(row["number"])
        if not number.isdecimal():
            raise UserError("`number` is not the number of a pull request")
        setup = None
        if text(row, "lang").lower() in ("python", "py"):
            image = eval_image("swebench", f"{org}__{repo}-{number}") + ":latest"
            layout = ImageLayout(
                activation=CONDA,
                one_commit=True,
                removed=_HIDDEN_FILES,
            )
        else:
            image = f"mswebench/{org}_m_{repo}".lower() + f":pr-{number}"
            setup = TestSetup((), "bash /home/run.sh")
            layout = ImageLayout(
                f"/home/{repo}",
                keeps_home=True,
                one_commit=True,
                removed=_HIDDEN_FILES,
            )
        issues: Any = row["resolved_issues"]
        issue = None
        if isinstance(issues, list) and issues:
            issue = issues[0]
        if not isinstance(issue, Mapping):
            raise UserError("`resolved_issues` is not a list of issues")
        statement = f"{text(issue, 'title')}\n{text(issue, 'body')}"
        if not statement.strip():
            raise UserError("`resolved_issues` has an empty first issue")
        return Instance(
            instance_id=self.identify(row),
            repo=f"{org}/{repo}",
            base_commit=text(base, "sha"),
            problem_statement=statement,
            version="",
            image=image,
            test_setup=setup,
            layout=layout,
        )
