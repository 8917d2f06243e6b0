"""A row of one's own repository and issue, as ``swe_retry.own`` makes it."""

from __future__ import annotations

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
