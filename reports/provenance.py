"""Pure: how a run and its verdicts came about, as pairs of words for pages and packages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from reports.jsonvalues import mapping, objects, text
from reports.rundata import InstanceData, RunData

# What a reader must know to repeat the run; the rest of the configuration is in run.json.
_PARAMETERS = (
    "tries", "temperatures", "environment", "tests", "require_tests", "all_attempts",
    "max_reflections", "matching", "on_failed_edit", "map_tokens", "max_output_tokens",
    "test_timeout", "baseline_timeout", "agent", "api_base",
)  # fmt: skip


def provenance(run: RunData) -> Mapping[str, str]:
    """Return what is known of a run's making by name; what nobody noted is left out.

    Names are ``harness``, ``versions``, ``dataset``, ``models``, ``models as returned``,
    ``parameters``, ``prices``, ``started``, ``ended``, ``images``, ``evaluated``, ``evaluator`` and
    ``evaluation images``; a combined run also names the runs that it is ``combined from``.
    """
    pairs = {
        "run": run.name,
        "model_name_or_path": run.model_name_or_path,
        **_versions(mapping(run.described.get("versions"))),
        **_dataset(mapping(run.described.get("dataset"))),
        **_models(run),
        **_times(run.described),
        "images": _named(mapping(run.described.get("images"))),
        **_evaluation(run.instances),
        "combined from": ", ".join(
            text(one.get("name")) for one in objects(run.described.get("combined"))
        ),
    }
    return {name: words for name, words in pairs.items() if words}


def _versions(versions: Mapping[str, Any]) -> dict[str, str]:
    harness, commit = text(versions.get("harness")), text(versions.get("harness_commit"))
    others = [
        f"{name} {version}"
        for name, version in versions.items()
        if name not in ("harness", "harness_commit") and text(version)
    ]
    words = " ".join(filter(None, [harness, f"(commit {commit})" if commit else ""]))
    return {"harness": words, "versions": ", ".join(others)}


def _dataset(dataset: Mapping[str, Any]) -> dict[str, str]:
    name, split = text(dataset.get("name")), text(dataset.get("split"))
    return {
        "dataset": f"{name} ({split})" if split else name,
        "dataset revision": text(dataset.get("revision")),
        "dataset sha256": text(dataset.get("sha256")),
    }


def _models(run: RunData) -> dict[str, str]:
    config = mapping(run.described.get("config"))
    prices = mapping(run.described.get("prices"))
    given = (f"{key}={_plain(config[key])}" for key in _PARAMETERS if config.get(key) is not None)
    return {
        "models": ", ".join(run.models),
        "models as returned": ", ".join(_returned(run)),
        "parameters": ", ".join(given),
        "prices": "; ".join(f"{model}: {_price(mapping(prices[model]))}" for model in prices),
    }


def _returned(run: RunData) -> Iterator[str]:
    """Yield the names that providers gave, with the number of replies under each."""
    counts = Counter(
        call.model or "no name"
        for instance in run.instances
        for attempt in instance.attempts
        for call in attempt.calls
    )
    for name, count in sorted(counts.items()):
        yield f"{name} ({count} replies)"


def _price(price: Mapping[str, Any]) -> str:
    words = [f"{key} {value}" for key, value in price.items() if key != "source"]
    source = text(price.get("source"))
    return f"{', '.join(words)} (from {source})" if words else "unknown"


def _times(described: Mapping[str, Any]) -> dict[str, str]:
    starts = objects(described.get("starts"))
    ended = text(starts[-1].get("ended")) if starts else ""
    unended = sum(not start.get("ended") for start in starts)
    words = ended or ("not noted: still working, or killed" if starts else "")
    return {
        "started": text(described.get("started")),
        "ended": words,
        "starts": f"{len(starts)}, of which {unended} have no end" if len(starts) > 1 else "",
    }


def _evaluation(instances: tuple[InstanceData, ...]) -> dict[str, str]:
    verdicts = [one.verdict for one in instances if one.verdict and one.verdict.settled]
    by = Counter(
        f"{v.evaluator}, swebench {v.swebench}" if v.swebench else v.evaluator for v in verdicts
    )
    times = sorted(v.evaluated for v in verdicts if v.evaluated)
    images = sorted({v.image for v in verdicts if v.image})
    return {
        "evaluator": ", ".join(f"{name}: {count}" for name, count in sorted(by.items())),
        "evaluated": " to ".join(dict.fromkeys([times[0], times[-1]])) if times else "",
        "evaluation images": ", ".join(images),
    }


def _named(images: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}@{text(digest)}" for name, digest in sorted(images.items()))


def _plain(value: Any) -> str:  # noqa: ANN401 - whatever json has
    if isinstance(value, list):
        return "/".join(map(str, value))
    return str(value)
