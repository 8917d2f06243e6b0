"""The file of a study: rows, one budget, and arms, each the settings of an ordinary run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from swe_retry.attempts.config import RunSettings
from swe_retry.core.errors import UserError
from swe_retry.core.settings import Section
from swe_retry.core.sources import (
    Layer,
    SourcedValue,
    check_settings,
    merge_layers,
    of_environment,
    of_mapping,
    read_mapping,
)
from swe_retry.core.untrusted import fault_of
from swe_retry.runner.config import name_slug

ArmName = Annotated[str, StringConstraints(pattern=r"^[\w.+-]+$")]
_OF_ALL = ("instances.", "folders.")
# Sections of a report, which harness.py does not import.
_OF_REPORTS = ("evaluation", "report")


class Study(BaseModel):
    """A study as its file has it; further keys are settings that all arms share.

    ``budget.usd`` is what all arms together may spend.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    path: Path
    dataset: str = Field(min_length=1)
    arms: Mapping[ArmName, dict[str, Any]] = Field(min_length=2)

    @classmethod
    def read(cls, path: Path) -> Study:
        """Return the study in a YAML file.

        Raises:
            UserError: it is not a study; the settings of arms are not read yet.
        """
        data = read_mapping(path, str(path))
        try:
            return cls.model_validate({**data, "path": path})
        except ValidationError as error:
            keys = ", ".join(map(str, data))
            fix = "give dataset, and two arms or more with names of letters, digits and ._+-"
            raise UserError(
                f"{path}: {fault_of(error)}; it has the keys {keys}; {fix}"
            ) from error

    @property
    def name(self) -> str:
        return name_slug(self.path.stem)

    def run_settings(self, arm: str) -> RunSettings:
        """Return the settings of an arm's run; a UserError names the arm and the setting."""
        where = f"{self.path}: arm {arm}"
        own = of_mapping(RunSettings, self.arms[arm], where)
        for name in own:
            if name == "budget.usd" or name.startswith(_OF_ALL):
                raise UserError(
                    f"{where}: {name} is for all arms; give it outside of arms"
                )
        layer = merge_layers(RunSettings, [self.shared_layer(RunSettings), own])
        if layer.keys().isdisjoint(("models.names", "agent.name")):
            raise UserError(
                f"{where}: give models or an agent, as `models: {{names: [gpt-4o]}}`"
            )
        layer["instances.dataset"] = SourcedValue(f"{self.path}: dataset", self.dataset)
        layer["folders.run"] = SourcedValue(where, f"{self.name}--{arm}")
        return check_settings(RunSettings, layer)

    def shared_layer(self, root: type[Section]) -> Layer:
        """Return what the environment and the file say of all arms, of the sections of ``root``."""
        others = {*RunSettings.model_fields, *_OF_REPORTS}.difference(root.model_fields)
        shared = {}
        for key, value in (self.model_extra or {}).items():
            if key.partition(".")[0] not in others:
                shared[key] = value
        layers = [
            of_environment(root, os.environ),
            of_mapping(root, shared, str(self.path)),
        ]
        return merge_layers(root, layers)
