"""The options of environments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import ByteSize, TypeAdapter, ValidationError

from core.errors import UserError
from core.options import option, option_group
from environments.base import EnvironmentKind
from environments.docker.images import ImagePrefix, Images

TESTS = "Environment and tests"


@option_group
class EnvironmentChoice:
    """Where tests run; the command line chooses an environment by itself."""

    environment: EnvironmentKind = option(
        EnvironmentKind.NONE,
        "Where tests run; default: docker when an engine answers, else local.",
        "--environment",
        panel=TESTS,
        given=EnvironmentKind | None,
        decides=True,
    )


def _bytes(name: str, text: str, _: object) -> int:
    try:
        size = int(TypeAdapter(ByteSize).validate_python(text.strip()))
    except ValidationError as error:
        raise UserError(
            f"{name} {text!r}: give a size with its unit, as 60GB"
        ) from error
    if size < 1:
        raise UserError(f"{name} {text!r}: give a size that is greater than 0, as 60GB")
    return size


@option_group
class ImageOptions:
    """How images are pulled, and how much room they may take.

    Attributes:
        image_disk: bytes; None for no limit.
    """

    image_disk: int | None = option(
        None,
        "Room for images that are pulled, as 60GB: those used longest ago are removed, but none "
        "that was there before. Default: no limit.",
        "--image-disk",
        panel=TESTS,
        given=str,
        read=_bytes,
    )
    image_prefix: tuple[ImagePrefix, ...] = option(
        (),
        "FROM=TO: pull images whose names start with FROM from a mirror; repeatable.",
        "--image-prefix",
        panel=TESTS,
        given=list[str],
        read=lambda _, texts, __: tuple(map(ImagePrefix.parse, texts)),
    )

    @property
    def images(self) -> Images:
        disk = None if self.image_disk is None else ByteSize(self.image_disk)
        return Images(disk=disk, mirrors=self.image_prefix)


def absolute(_: str, paths: Sequence[Path], __: object) -> tuple[Path, ...]:
    """Return paths as a command can be called by: absolute, with their links."""
    return tuple(Path(os.path.abspath(path.expanduser())) for path in paths)  # noqa: PTH100
