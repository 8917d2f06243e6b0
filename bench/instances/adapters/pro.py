"""SWE-bench Pro: its id and image tag contain the gold commit, so the harness uses another id.

Statement: ``helper_code/create_problem_statement.py``; image: ``helper_code/image_uri.py`` and the
column ``dockerhub_tag``. The set's test scripts lie beside hidden data, so tests run by the usual
command of the repository's language.
"""

from __future__ import annotations

import hashlib

from bench.instances.adapters.base import Row, SetAdapter, columns, date_of, marks, text
from bench.instances.shape import ImagePlace, Instance, TestSetup

_IMAGES = "jefzda/sweap-images"
_LONGEST_TAG = 128
_PLACE = ImagePlace("/app", keeps_home=True, one_commit=True, fresh_tree=True)
_COMMANDS = {
    "go": "go test -v ./...",
    "js": "npx mocha",
    "ts": "npx jest --verbose --no-color",
    "python": "python -m pytest -rA",
}
_LANGUAGES = {"js": "javascript", "ts": "typescript"}
# The one image that is named against the rule (image_uri.py).
_EXCEPTION = "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"


def neutral_id(row: Row) -> str:
    """Return an id that is made of visible columns alone; empty if one is missing."""
    seen = [row.get(key) for key in ("repo", "base_commit", "problem_statement")]
    if not all(isinstance(part, str) and part for part in seen):
        return ""
    digest = hashlib.sha256("\0".join(map(str, seen)).encode("utf-8", "surrogatepass"))
    return f"{str(seen[0]).replace('/', '__')}-{digest.hexdigest()[:10]}"


def _read(row: Row) -> Instance:
    name, language = neutral_id(row), text(row, "repo_language").lower()
    command = _COMMANDS.get(language)
    return Instance(
        instance_id=name,
        repo=row["repo"],
        base_commit=row["base_commit"],
        problem_statement=(
            f"{row['problem_statement']}\n\nRequirements:\n{text(row, 'requirements')}\n\n"
            f"New interfaces introduced:\n{text(row, 'interface')}"
        ),
        version="",
        image=f"{_IMAGES}:{text(row, 'dockerhub_tag') or derived_tag(row)}",
        test_setup=TestSetup((), command) if command else None,
        place=_PLACE,
        language=_LANGUAGES.get(language, language),
        created_at=date_of(row.get("created_at")),
        image_label=f"{_IMAGES}:{name}",
    )


def derived_tag(row: Row) -> str:
    """Return the tag of the image of a row without ``dockerhub_tag``."""
    name = row["instance_id"]
    owner, _, project = row["repo"].lower().partition("/")
    rest = name.removeprefix("instance_")
    if name != _EXCEPTION:
        rest = rest.removesuffix("-vnan")
        project = "element" if (owner, project) == ("element-hq", "element-web") else project
    return f"{owner}.{project}-{rest}"[:_LONGEST_TAG]


PRO = SetAdapter(
    name="SWE-bench Pro",
    marks=marks("dockerhub_tag", "before_repo_set_cmd", "requirements interface repo_language"),
    required=("instance_id", "repo", "base_commit", "problem_statement"),
    visible=columns(
        "instance_id repo base_commit problem_statement requirements interface dockerhub_tag "
        "repo_language created_at"
    ),
    read=_read,
    identify=neutral_id,
)
