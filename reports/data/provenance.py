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
from reports.data.predictions import IMPORTED
from reports.data.rundata import InstanceData, RunData
from runs.description import Run

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
    returned: Counter[str] = Counter()
    for instance in instances:
        for attempt in instance.attempts:
            returned.update(call.model or "no name" for call in attempt.calls or ())
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
    for source in run.described.combined:
        for group, facts in _described(source.described, of).items():
            ordered[f"{group} of the run {source.name}"] = facts
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


def _described(run: Run, of: InstanceData | None) -> dict[str, NamedValues]:
    dataset = run.dataset.model_dump(exclude_unset=True)
    named = {key: run.versions.get(key) or UNKNOWN for key in _ALWAYS_SHOWN}
    identity = {
        key: dataset.get(key) or UNKNOWN for key in ("name", "revision", "sha256")
    }
    hashes = {}
    for key, value in (run.deciding or {}).items():
        if key.endswith("_sha256") and key != "dataset_sha256":
            hashes[key] = value
    facts = tuple(flat({**dataset, **identity}))
    # A combined run has no versions or parameters of its own, only those of its source runs.
    if run.is_combined:
        return {"times": (), "dataset": facts}
    return {
        "times": tuple(_times(run)),
        IMPORTED: tuple(flat(run.imported or {})),
        "versions": tuple(flat({**named, **run.versions})),
        "dataset": facts,
        "prices": tuple(_prices(run)),
        "images": _images(run, of),
        "parameters": (*flat(run.config), *flat(hashes)),
    }


def _times(run: Run) -> Iterator[tuple[str, str]]:
    yield "started", run.started or UNKNOWN
    if not run.starts:
        yield "ended", UNKNOWN
        return
    yield "ended", run.starts[-1].ended or f"{UNKNOWN}: still working, or killed"
    if len(run.starts) > 1:
        unended = sum(not start.ended for start in run.starts)
        yield "starts", f"{len(run.starts)}, of which {unended} have no end"
        # A start records versions and prices only if they differ from those of the first start.
        starts = [start.model_dump(exclude_unset=True) for start in run.starts]
        yield from flat({"start": starts})


def _prices(run: Run) -> Iterator[tuple[str, str]]:
    if not run.has("prices"):
        yield "prices", UNKNOWN
    elif not run.prices:
        yield "prices", "none needed: no model was called"
    for model, price in run.prices.items():
        if not isinstance(price, dict) or not price.keys() - {"source"}:
            yield model, "unknown"
            continue
        words = [f"{key} {price[key]}" for key in price if key != "source"]
        yield model, f"{', '.join(words)} (from {price.get('source') or ''})"


def _images(run: Run, of: InstanceData | None) -> NamedValues:
    if not run.images:
        none = run.configuration.environment in _NO_IMAGES
        words = "none: attempts were not tested in images" if none else UNKNOWN
        return (("images", words),)
    if of is None:
        return _facts(run.images)
    return ((of.image, run.images.get(of.image) or UNKNOWN),)


def _facts(values: Mapping[str, Any]) -> NamedValues:
    return tuple((name, value or UNKNOWN) for name, value in sorted(values.items()))


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
