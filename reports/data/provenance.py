"""Pure: the provenance of a run and its verdicts, in groups of names and values.

A value that is needed to repeat a run is shown even if it was not recorded. Other missing values
are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.plaintext import counted
from reports.data.jsonvalues import mapping, objects, text
from reports.data.predictions import IMPORTED
from reports.data.rundata import InstanceData, RunData

NamedValues = tuple[tuple[str, str], ...]
Groups = Mapping[str, NamedValues]

UNKNOWN = "not recorded"
_ALWAYS_SHOWN = ("harness", "harness_commit", "litellm", "swebench")
_NO_IMAGES = ("local", "none")


def provenance(run: RunData, of: InstanceData | None = None) -> Groups:
    """Return the provenance of ``run``, or of the one instance ``of`` in it.

    The groups are ``run``, ``versions``, ``dataset``, ``prices``, ``images``, ``parameters``,
    ``models``, ``evaluation`` and ``evaluation images``. In a combined run the groups of its source
    runs follow, named ``GROUP of the run NAME``, with ``times`` instead of ``run``.
    """
    instances = run.instances if of is None else (of,)
    attempts = (attempt for instance in instances for attempt in instance.attempts)
    returned = Counter(
        call.model or "no name" for attempt in attempts for call in attempt.calls
    )
    names = [
        f"{name} ({counted(n, 'reply', 'replies')})"
        for name, n in sorted(returned.items())
    ]
    verdicts = evaluation(instances)
    by = [
        f"{name} ({counted(n, 'verdict')})"
        for name, n in verdicts["evaluators"].items()
    ]
    times = filter(None, dict.fromkeys((verdicts["first"], verdicts["last"])))
    groups = {
        **_described(run.described, of),
        "models": (
            ("models", ", ".join(run.models) or UNKNOWN),
            ("as returned", ", ".join(names) or UNKNOWN),
        ),
        "evaluation": (
            ("evaluator", ", ".join(by) or "none"),
            *([("evaluated", " to ".join(times) or UNKNOWN)] if by else []),
        ),
        "evaluation images": _facts(verdicts["images"])
        or ((("images", "none"),) if verdicts["evaluators"] else ()),
    }
    top = (("name", run.name), ("model_name_or_path", run.model_name_or_path))
    ordered = {"run": (*top, *groups.pop("times")), **groups}
    for source in objects(run.described.get("combined")):
        name = text(source.get("name"))
        own = _described(mapping(source.get("described")), of)
        ordered |= {f"{group} of the run {name}": facts for group, facts in own.items()}
    return {group: facts for group, facts in ordered.items() if facts}


def evaluation(instances: Sequence[InstanceData]) -> dict[str, Any]:
    """Return how ``instances`` were evaluated, as ``run.json`` records it.

    The keys are ``evaluators`` (verdicts by evaluator and its version), ``first`` and ``last``
    (times; empty if unknown) and ``images`` (digests by name).
    """
    given = (i.verdict for i in instances if i.may_resolve and i.verdict)
    verdicts = [verdict for verdict in given if verdict.conclusive]
    by: Counter[str] = Counter()
    for verdict in verdicts:
        version = verdict.tool or (
            f"swebench {verdict.swebench}" if verdict.swebench else ""
        )
        by[f"{verdict.evaluator}, {version}" if version else verdict.evaluator] += 1
    times = sorted(v.evaluated for v in verdicts if v.evaluated) or [""]
    images = (v.image.partition("@") for v in verdicts if v.image)
    return {
        "evaluators": dict(sorted(by.items())),
        "first": times[0],
        "last": times[-1],
        "images": {name: digest for name, _, digest in sorted(images)},
    }


def _described(
    described: Mapping[str, Any], of: InstanceData | None
) -> dict[str, NamedValues]:
    versions, dataset = (
        mapping(described.get("versions")),
        mapping(described.get("dataset")),
    )
    named = {key: versions.get(key) or UNKNOWN for key in _ALWAYS_SHOWN}
    identity = {
        key: dataset.get(key) or UNKNOWN for key in ("name", "revision", "sha256")
    }
    deciding = mapping(described.get("deciding"))
    hashes = {key: value for key, value in deciding.items() if key.endswith("_sha256")}
    hashes.pop("dataset_sha256", None)
    groups = {
        "times": tuple(_times(described)),
        IMPORTED: tuple(flat(mapping(described.get(IMPORTED)))),
        "versions": tuple(flat({**named, **versions})),
        "dataset": tuple(flat({**dataset, **identity})),
        "prices": tuple(_prices(described)),
        "images": _images(described, of),
        "parameters": (*flat(mapping(described.get("config"))), *flat(hashes)),
    }
    # A combined run has no versions or parameters of its own, only those of its source runs.
    combined = "combined" in described
    return {"times": (), "dataset": groups["dataset"]} if combined else groups


def _times(described: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    starts = objects(described.get("starts"))
    yield "started", text(described.get("started")) or UNKNOWN
    noted = text(starts[-1].get("ended")) if starts else ""
    yield (
        "ended",
        noted or (f"{UNKNOWN}: still working, or killed" if starts else UNKNOWN),
    )
    if len(starts) > 1:
        unended = sum(not start.get("ended") for start in starts)
        yield "starts", f"{len(starts)}, of which {unended} have no end"
        # A start records versions and prices only if they differ from those of the first start.
        yield from flat({"start": starts})


def _prices(described: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    prices = described.get("prices")
    if not isinstance(prices, dict):
        yield "prices", UNKNOWN
    elif not prices:
        yield "prices", "none needed: no model was called"
    else:
        for model, price in ((model, mapping(prices[model])) for model in prices):
            words = ", ".join(
                f"{key} {value}" for key, value in price.items() if key != "source"
            )
            yield (
                model,
                f"{words} (from {text(price.get('source'))})" if words else "unknown",
            )


def _images(described: Mapping[str, Any], of: InstanceData | None) -> NamedValues:
    config, images = mapping(described.get("config")), mapping(described.get("images"))
    if not images:
        none = config.get("environment") in _NO_IMAGES
        return (
            ("images", "none: attempts were not tested in images" if none else UNKNOWN),
        )
    if of is None:
        return _facts(images)
    return ((of.image, text(images.get(of.image)) or UNKNOWN),)


def _facts(values: Mapping[str, Any]) -> NamedValues:
    return tuple(
        (name, text(value) or UNKNOWN) for name, value in sorted(values.items())
    )


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the text of each value in ``value`` that is not empty."""
    for key, part in value.items():
        name = f"{prefix}{key}"
        if part is None or part in ("", [], {}):
            continue
        if isinstance(part, Mapping):
            yield from flat(part, f"{name}.")
        elif isinstance(part, list) and any(isinstance(one, Mapping) for one in part):
            numbered = {str(number): one for number, one in enumerate(part, 1)}
            yield from flat(numbered, f"{name}.")
        else:
            yield name, _text(part)


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return json.dumps(value)
