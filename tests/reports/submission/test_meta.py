"""``meta.yaml``: each mistake is one line, and the filled template is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from reports.submission.entry import read_meta, template
from tests.support.evaluated import Build


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"checked": True}, "checked is not a key"),
        ({"os_model": "yes"}, "os_model must be true or false"),
        ({"authors": []}, "authors is empty"),
        ({"model": "gpt-4o"}, "model must be a list"),
        ({"agent": "Harness v1.2"}, "agent name the agent without its version"),
        ({"site": "example.org"}, "site must be a full URL"),
        ({"first_author_site": None}, "first_author_site is missing"),
        ({"affiliations": "University"}, "affiliations must be a list"),
        ({"date": "tomorrow"}, "date must be a date"),
        ({"folder": "a/b"}, "folder"),
        ({"org": None}, "org is missing"),
        ({"name": 5}, "name must be a text"),
        ({"name": "TODO"}, "a TODO is left"),
        ({"web_browsing": True}, "web_measures is empty"),
        ({"logo": "picture.exe"}, "logo must name an image"),
        ({"logo": "other.svg"}, "does not exist"),
    ],
)
def test_a_mistake_in_the_meta_is_one_line(
    changes: dict[str, Any], said: str, build: Build
) -> None:
    with pytest.raises(UserError, match=said) as caught:
        build(**changes)
    assert str(caught.value).startswith("--meta ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff", b"[", b"a: &a [1]\nb: *a", b"5", b"d: 2024-99-99"])
def test_a_broken_meta_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "meta.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"meta\.yaml") as caught:
        read_meta(path)
    assert "\n" not in str(caught.value)


def test_the_template_is_a_meta_file_once_it_is_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "meta.yaml"
    path.write_text(template())
    with pytest.raises(UserError, match="a TODO is left"):
        read_meta(path)
    lines = [
        line.replace("TODO", "https://a.example/b" if line.split(":")[0] in ADDRESSES else "some")
        for line in template().splitlines()
    ]
    path.write_text("\n".join(lines))
    assert read_meta(path).folder == "some"


ADDRESSES = ("site", "report", "artifacts", "first_author_site")
