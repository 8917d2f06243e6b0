"""Compare ``run.json`` with what follows from its own parts and from the other files of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent.conversation.reflections import Reflections
from bench.config import RunConfig
from reports.data.jsonvalues import mapping, objects
from reports.data.provenance import evaluation
from reports.data.rundata import RunData
from reports.verification.difference import Spot, all_differences, first_difference
from runs.storage.versions import versions

Described = Mapping[str, Any]
_CONFIG = TypeAdapter(RunConfig)


def run_differences(described: Described, run: RunData, rows_sha256: str) -> Iterator[Spot]:
    """Yield what differs in ``run.json``; ``rows_sha256`` is that of the dataset, if at hand."""
    if selected := described.get("selected"):
        for name in sorted({i.instance_id for i in run.instances}.difference(selected)):
            yield Spot(("selected",), f"lacks {name}, which is predicted")
    if "evaluation" in described:
        now = evaluation(run.instances)
        yield from all_differences(described["evaluation"], now, ("evaluation",))
    if "deciding" not in described:  # imported, or combined
        return
    dataset = mapping(described.get("dataset")).get("sha256")
    if rows_sha256 and dataset != rows_sha256:
        yield Spot(("dataset", "sha256"), f"is not that of the rows, which is {rows_sha256}")
    if not described.get("starts"):
        yield Spot(("starts",), "is empty, but the run was started")
    try:
        yield from _from_config(described)
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        yield Spot(("config",), f"is not what a run records: {error}")
    returned = mapping(described.get("models_returned"))
    for attempt in (a for i in run.instances for a in i.attempts):
        for name in sorted({c.model for c in attempt.calls if c.model}):
            if name not in returned.get(attempt.model, ()):
                keys = ("models_returned", attempt.model)
                yield Spot(keys, f"lacks {name!a}, which a reply names")


def _from_config(described: Described) -> Iterator[Spot]:
    recorded = described["config"]
    reflections = Reflections.parse(recorded["max_reflections"])
    config = _CONFIG.validate_python({**recorded, "max_reflections": reflections})
    deciding, own = described["deciding"], mapping(described.get("versions"))
    unknown = {key: deciding.get(key) for key in _unknown(config, own)}
    sha256 = str(mapping(described.get("dataset")).get("sha256"))
    expected = {
        "run": config.run_name,
        "model_name_or_path": config.model_name_or_path,
        "deciding": {**config.deciding(sha256), **unknown, "harness": own.get("harness")},
    }
    yield from all_differences({key: described.get(key) for key in expected}, expected)
    for option, value in mapping(described.get("options")).items():
        keys, name = ("options", option), option.replace("-", "_")
        if name == "models":
            given = [model.partition("@")[0].strip() for model in str(value).split(",")]
            models = [model.given.partition("@")[0] for model in config.models]
            yield from all_differences(given, models, keys)
        elif name in deciding and isinstance(recorded.get(name), (bool, int, float, str)):
            yield from all_differences(str(value), str(recorded[name]), keys)


def _unknown(config: RunConfig, own: Mapping[str, Any]) -> Iterator[str]:
    yield "replay_sha256"
    if config.replay is None:  # the settings are recorded with what litellm knew of the model
        yield "model_settings_sha256"
    if not own.get("harness_commit") or own["harness_commit"] != versions()["harness_commit"]:
        yield "prompts_sha256"


def wrong_origin(described: Described, trajectory: Mapping[str, Any]) -> Iterator[Spot]:
    """Yield where versions and configuration of a trajectory are not those of its run.

    A later start may have other versions, and other values of options that decide no results.
    """
    starts = objects(described.get("starts"))
    known = [described.get("versions"), *(start.get("versions") for start in starts)]
    if trajectory["versions"] not in known:
        yield from all_differences(trajectory["versions"], known[0], ("versions",))
    recorded = mapping(described.get("config"))
    free = {"models"} | recorded.keys() - mapping(described.get("deciding"))
    kept = recorded.keys() - (free if len(starts) > 1 else set())
    found, expected = (
        {key: part.get(key) for key in kept} for part in (trajectory["config"], recorded)
    )
    if spot := first_difference(found, expected, ("config",)):
        yield spot
