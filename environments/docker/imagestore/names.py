"""The names of images at mirrors of their registries. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import UserError

_HUB = "docker.io/"
_LIBRARY = "library/"


@dataclass(frozen=True)
class ImagePrefix:
    """Images whose names start with ``before`` are pulled from where ``after`` stands instead."""

    before: str
    after: str

    @classmethod
    def parse(cls, text: str) -> ImagePrefix:
        before, found, after = text.partition("=")
        if not (before and found and after) or any(mark.isspace() for mark in text):
            raise UserError(
                f"--image-prefix {text!r}: give FROM=TO, as docker.io/=mirror.example.org/hub/"
            )
        return cls(before, after)


def whole_name(image: str) -> str:
    """Return ``image`` with its registry: names without one are Docker Hub's."""
    first, slash, _ = image.partition("/")
    if slash and (first == "localhost" or any(mark in first for mark in ".:")):
        return image
    return f"{_HUB}{'' if slash else _LIBRARY}{image}"


def mirrored(image: str, prefixes: Sequence[ImagePrefix]) -> str:
    """Return the name to pull ``image`` by: that of the first prefix that fits, else its own.

    A prefix may leave out ``docker.io/``, as names of images do.
    """
    for prefix in prefixes:
        for name in (image, whole_name(image)):
            if name.startswith(prefix.before):
                return prefix.after + name[len(prefix.before) :]
    return image
