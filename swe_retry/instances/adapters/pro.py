"""SWE-bench Pro: its id and image tag contain the gold commit, so the harness uses another id.

Statement: ``helper_code/create_problem_statement.py``; image: ``helper_code/image_uri.py`` and the
column ``dockerhub_tag``. The set's test scripts lie beside hidden data, so tests run by the usual
command of the repository's language.
"""

from __future__ import annotations

from dataclasses import replace

from swe_retry.core.hashing import sha256_of
from swe_retry.instances.adapters.adapter import (
    TEST_COMMANDS,
    VISIBLE,
    Row,
    SetAdapter,
    columns,
    text,
)
from swe_retry.instances.instance import ImageLayout, Instance, TestSetup

_IMAGES = "jefzda/sweap-images"
_MAX_TAG = 128
# The one image that is named against the rule (image_uri.py).
_EXCEPTION = (
    "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"
)


class Pro(SetAdapter):
    name = "SWE-bench Pro"
    marks = (
        "dockerhub_tag",
        "before_repo_set_cmd",
        "requirements interface repo_language",
    )
    visible = VISIBLE | columns("requirements interface dockerhub_tag repo_language")

    def identify(self, row: Row) -> str:
        """Return an id that is made of visible columns alone; empty if one is missing."""
        parts = []
        for key in ("repo", "base_commit", "problem_statement"):
            part = row.get(key)
            if not isinstance(part, str) or not part:
                return ""
            parts.append(part)
        digest = sha256_of("\0".join(parts))
        return f"{parts[0].replace('/', '__')}-{digest[:10]}"

    def read(self, row: Row) -> Instance:
        common = self.common_fields(row)
        language = text(row, "repo_language").lower()
        setup = None
        if language in TEST_COMMANDS["pro"]:
            setup = TestSetup((), TEST_COMMANDS["pro"][language])
        statement = (
            f"{common.problem_statement}\n\nRequirements:\n{text(row, 'requirements')}\n\n"
            f"New interfaces introduced:\n{text(row, 'interface')}"
        )
        tag = text(row, "dockerhub_tag") or derived_tag(row)
        return replace(
            common,
            problem_statement=statement,
            image=f"{_IMAGES}:{tag}",
            test_setup=setup,
            layout=ImageLayout(
                "/app",
                keeps_home=True,
                one_commit=True,
                fresh_tree=True,
            ),
            image_label=f"{_IMAGES}:{common.instance_id}",
        )


def derived_tag(row: Row) -> str:
    """Return the tag of the image of a row without ``dockerhub_tag``."""
    name = row["instance_id"]
    owner, _, project = row["repo"].lower().partition("/")
    rest = name.removeprefix("instance_")
    if name != _EXCEPTION:
        rest = rest.removesuffix("-vnan")
        if (owner, project) == ("element-hq", "element-web"):
            project = "element"
    return f"{owner}.{project}-{rest}"[:_MAX_TAG]
