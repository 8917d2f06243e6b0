"""The model of ``run.json``: what a run is, which other programs write too."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, OnErrorOmit

from swe_retry.llm.chat import AnyText
from swe_retry.record.keys import SafeKey
from swe_retry.record.records import (
    Attempt,
    Flag,
    Known,
    Recorded,
    Values,
    Word,
    list_or_empty,
)


class RecordedModel(Recorded):
    """A model of a run in the order of the turns, with its edit format or coding agent."""

    name: Word = ""
    edit_format: Word = ""
    architect: Known[RecordedModel] = None

    @property
    def name_of_turn(self) -> str:
        """The name in attempts, which for a pair has both models."""
        if self.architect:
            return f"{self.architect.name} + {self.name}"
        return self.name

    @property
    def label(self) -> str:
        return Attempt(model=self.name_of_turn, edit_format=self.edit_format).label


class RecordedConfig(Recorded):
    """The options of a run of which readers know."""

    models: Annotated[
        tuple[OnErrorOmit[RecordedModel], ...], BeforeValidator(list_or_empty)
    ] = ()
    require_tests: Flag = False
    environment: Word = ""
    agent: Word = ""
    select: Word = ""
    agent_allow_web: Flag = False
    replay: Known[AnyText] = None
    api_base: Known[AnyText] = None


class DatasetFacts(BaseModel):
    """What ``run.json`` says of the dataset.

    Attributes:
        neutral_ids: the instances have other ids than the set's own.
    """

    model_config = ConfigDict(extra="allow", strict=True)

    name: str | None = None
    split: str | None = None
    sha256: str | None = None
    revision: str | None = None
    config: str | None = None
    neutral_ids: bool | None = None


class RunStart(Recorded, extra="allow"):
    """A start of a run; ``ended`` is None after a kill. Versions and prices where they differ."""

    started: Word = ""
    ended: Known[AnyText] = None
    versions: Known[Values] = None
    prices: Known[Values] = None
    api_base: Known[AnyText] = None


class Run(Recorded, extra="allow"):
    """A run; what other versions wrote is kept, and what is not known is left out.

    Attributes:
        read_with: the command for a run of another benchmark.
        deciding: options that a continued run must repeat; None where they are unknown.
        selected: ids of the selected jobs; None where they are unknown.
        options: as they were chosen, for ``--continue``; those of exercises, and of runs of 0.12.
        settings: those that any source gave, by section.
        imported: of a run of another harness: its path, layout and agent.
    """

    run: Word = ""
    read_with: Word = ""
    config: Values = Field(default_factory=dict)
    deciding: Known[Values] = None
    versions: Values = Field(default_factory=dict)
    started: Word = ""
    model_name_or_path: Word = ""
    dataset: DatasetFacts = DatasetFacts()
    selected: list[SafeKey] | None = None
    options: Values = Field(default_factory=dict)
    settings: Values = Field(default_factory=dict)
    prices: Values = Field(default_factory=dict)
    starts: list[RunStart] = Field(default_factory=list)
    models_returned: dict[str, list[AnyText]] = Field(default_factory=dict)
    images: Values = Field(default_factory=dict)
    only_valid: Values = Field(default_factory=dict)
    evaluation: Values = Field(default_factory=dict)
    combined: list[CombinedRun] = Field(default_factory=list)
    imported: Known[Values] = None

    @property
    def last_versions(self) -> Values:
        """The versions of the last start."""
        versions = dict(self.versions)
        for start in self.starts:
            versions |= start.versions or {}
        return versions

    @cached_property
    def configuration(self) -> RecordedConfig:
        """The options of which readers know; ``config`` has all, in their order."""
        return RecordedConfig.model_validate(self.config)

    def setting(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return a setting that was given; None for another. Runs of 0.12 have options instead."""
        section, _, field = name.partition(".")
        fields = self.settings.get(section)
        if isinstance(fields, dict):
            return fields.get(field)
        return self.options.get(field)

    @property
    def is_own(self) -> bool:
        """Whether it worked on one's own repository, which has no hidden tests."""
        return bool(self.setting("project.repo"))

    @property
    def is_ours(self) -> bool:
        """Whether this harness made it, and not another one or a combination."""
        return "versions" in self.model_fields_set

    @property
    def is_combined(self) -> bool:
        return "combined" in self.model_fields_set

    @property
    def is_imported(self) -> bool:
        return self.imported is not None

    def as_json(self) -> Values:
        return self.model_dump(mode="json", exclude_unset=True)


class CombinedRun(Recorded, extra="allow"):
    """One of the runs of a combination."""

    name: Word = ""
    folder: Word = ""
    model_name_or_path: Word = ""
    described: Run = Field(default_factory=lambda: Run())


Run.model_rebuild()
