"""A row of one's own repository and issue, as ``swe_retry.own`` makes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pydantic import ValidationError

from swe_retry.core.errors import UserError
from swe_retry.instances.adapters.adapter import (
    VISIBLE,
    Row,
    SetAdapter,
    columns,
    mapping,
)
from swe_retry.instances.instance import Commands, Instance, TestSetup

COMMANDS = "own_repository"
"""The column with ``Commands``."""


def name_no_image(instances: Iterable[Instance]) -> bool:
    """Whether all ``instances`` are of one's own repositories, and none runs in a container."""
    return all(each.commands and not each.image for each in instances)


def refuse_docker(option: str, dataset: str) -> UserError:
    """Return the error for rows of one's own repositories without an image."""
    return UserError(
        f"{option} docker: the rows of {dataset} name no image; give {option} local"
    )


class Own(SetAdapter):
    name = "one's own repository"
    marks = (COMMANDS,)
    visible = VISIBLE | columns(f"version {COMMANDS}")

    def read(self, row: Row) -> Instance:
        try:
            commands = Commands.model_validate(mapping(row, COMMANDS))
        except ValidationError as error:
            raise UserError(f"`{COMMANDS}`: {error.errors()[0]['msg']}") from error
        setup = None
        if commands.test and commands.image:
            setup = TestSetup((), commands.test)
        return replace(
            self.common_fields(row),
            image=commands.image,
            test_setup=setup,
            commands=commands,
        )
