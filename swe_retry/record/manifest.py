"""The manifest of a run, ``run.json``: starts and ends, prices, versions, images, differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.jsontypes import JsonMapping, JsonObject
from swe_retry.core.money import as_number
from swe_retry.core.plaintext import abbreviate, quantity
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.images import digest
from swe_retry.llm.prices import Price
from swe_retry.llm.registry import price_entry, price_map_version
from swe_retry.record.description import Run, RunStart
from swe_retry.record.records import Values
from swe_retry.record.runlock import run_lock
from swe_retry.record.store import RunStore
from swe_retry.record.versions import versions as package_versions


def all_versions() -> dict[str, str]:
    """Return the versions that a run records, litellm's price map among them."""
    return {**package_versions(), "price_map_sha256": price_map_version()}


def prices_used(
    models: Iterable[str], user_prices: Mapping[str, Price]
) -> dict[str, JsonObject]:
    """Return by model the prices of its calls, in dollars per token.

    The keys are litellm's; ``source`` is ``litellm`` for its map, and for ``user_prices``
    ``--price`` or ``local: free``. A model without a known price has an empty entry.
    """
    return {name: _price(name, user_prices.get(name)) for name in models}


def _price(name: str, user_price: Price | None) -> JsonObject:
    if user_price is not None:
        return {
            "source": user_price.source,
            "input_cost_per_token": as_number(user_price.input),
            "output_cost_per_token": as_number(user_price.output),
        }
    entry = price_entry(name)
    if entry is None:
        return {}
    numbers = {}
    for k, v in entry.items():
        if k == "tiered_pricing" or ("cost" in k and isinstance(v, (int, float))):
            numbers[k] = v
    return {"source": "litellm", **numbers}


def note_start(
    store: RunStore,
    prices: Mapping[str, JsonMapping],
    api_base: str | None = None,
    versions: Mapping[str, str] | None = None,
) -> None:
    """Add the start of this process to ``run.json``.

    Versions and prices are at the top level, and again in each later start where they differ.
    """
    run = store.read_run()
    values: Values = {
        "versions": dict(versions or all_versions()),
        "prices": dict(prices),
    }
    first = {
        "versions": run.versions or values["versions"],
        "prices": run.prices or values["prices"],
    }
    start: Values = {"started": timestamp(), "ended": None}
    for name, value in values.items():
        if value != first[name]:
            start[name] = value
    if api_base is not None:
        start["api_base"] = api_base
    store.update_run(**first, starts=[*run.starts, RunStart(**start)])


def note_end(store: RunStore) -> None:
    """Add the end of this process; the start of a killed process stays without one."""
    run = store.read_run()
    *earlier, last = run.starts or [RunStart()]
    store.update_run(starts=[*earlier, last.but(ended=timestamp())])


def note_returned(store: RunStore, returned: Iterable[tuple[str, str]]) -> None:
    """Add the model names in providers' answers, by the model that was asked."""
    run = store.read_run()
    names = {model: set(noted) for model, noted in run.models_returned.items()}
    for model, name in returned:
        names.setdefault(model, set()).add(name)
    store.update_run(
        models_returned={model: sorted(names[model]) for model in sorted(names)}
    )


def note_left_out(store: RunStore, file: str, states: Mapping[str, str]) -> None:
    """Add the states of the instances that a validity file kept out of the run, by id."""
    run = store.read_run()
    before = run.only_valid.get("left_out")
    every = {**(before if isinstance(before, dict) else {}), **states}
    selected = set(run.selected or ())
    left_out = {name: every[name] for name in sorted({*every} - selected)}
    store.update_run(only_valid={"file": file, "left_out": left_out})


def note_evaluation(store: RunStore, evaluation: JsonMapping) -> None:
    """Add the evaluators of a run and their images; nothing without a ``run.json``.

    While a process works on the run, it alone writes ``run.json``, and a later report adds them.
    """
    if not store.run_file.exists():
        return
    with suppress(UserError), run_lock(store.folder):
        store.update_run(evaluation=dict(evaluation))


def note_images(
    store: RunStore,
    images: Iterable[str],
    public_names: Mapping[str, str] | None = None,
) -> None:
    """Add the digests of the ``images`` that the engine has: a tag may be moved later.

    ``public_names`` has the names of images under which they are noted, if these are not their
    own. A failure of the engine or the disk is ignored: the work is done.
    """
    names = public_names or {}
    client = connect()
    if client is None:
        return
    with closing(client), suppress(OSError, InfrastructureError):
        digests = {
            names.get(image, image): digest(client, image)
            for image in sorted({*images})
        }
        known_digests = {image: value for image, value in digests.items() if value}
        before = store.read_run()
        store.update_run(images={**before.images, **known_digests})


def open_run(
    store: RunStore,
    description: Run,
    selected: Iterable[str],
    settings: JsonMapping,
) -> None:
    """Write ``run.json``, or compare with the one that is there; note what is selected.

    Args:
        description: of a new run; its ``deciding`` must not change.
        selected: keys of jobs, added to those of earlier starts.
        settings: those that any source gave, for ``--continue``; empty keeps those of before.
    """
    recorded = store.read_run()
    check_differences(store, description.deciding or {})
    if not (store.run_file.exists() and store.has_results()):
        starts = recorded.starts
        recorded = description.but(selected=[])
        if starts:
            recorded = recorded.but(starts=starts)
    every = sorted({*(recorded.selected or ()), *selected})
    recorded = recorded.but(selected=every)
    if settings:
        recorded = recorded.but(settings=dict(settings))
    store.save_run(recorded)


def check_remains(store: RunStore) -> None:
    """Refuse predictions or journals without a ``run.json``: they are of another run."""
    if store.run_file.exists():
        return
    if store.has_results():
        raise UserError(
            f"{store.folder} has predictions but no run.json: they were not made by this "
            "harness; choose another --run"
        )
    paid = sum(1 for _ in store.journals.glob("*.jsonl"))
    if paid:
        verb = "are"
        if paid == 1:
            verb = "is"
        raise UserError(
            f"{store.folder} is gone, but {quantity(paid, 'journal')} of an earlier run "
            f"{store.run} {verb} left in {store.journals}: restore the folder, remove them with "
            "`harness.py clean --all`, or choose another --run"
        )


def changed_address(store: RunStore, address: str | None) -> str:
    """Return in words how ``--api-base`` differs from the last start's; empty where it does not."""
    run = store.read_run()
    if not run.starts:
        return ""
    before = run.starts[-1].api_base
    if before is None:
        before = run.configuration.api_base
    if before == address:
        return ""
    return (
        f"--api-base was {before or 'not given'} at the last start, and is "
        f"{address or 'not given'}"
    )


def check_differences(store: RunStore, deciding: JsonMapping) -> None:
    """Refuse to continue a started run with other settings than it was started with."""
    differ = recorded_differences(store, deciding)
    if differ:
        raise UserError(
            f"run {store.run} was started with different settings: {'; '.join(differ)}; go back to "
            "what it was started with or choose another --run"
        )


def recorded_differences(store: RunStore, deciding: JsonMapping) -> list[str]:
    """Return in words how a started run differs in what decides results."""
    if not (store.run_file.exists() and store.has_results()):
        return []
    return differences(store.read_run().deciding, deciding)


_NAMES = {
    "agent_home": "agent.home (its files)",
    "candidates_sha256": "the runs that are given",
    "dataset_sha256": "--dataset (its rows)",
    "exercises_sha256": "--exercises (its files)",
    "harness": "version of the harness",
    "model_settings_sha256": "models.file (what it says of these models)",
    "models": "--models",
    "problems_sha256": "problems.source (its rows)",
    "prompts_sha256": "prompts",
    "replay_sha256": "--replay (its trajectories)",
    "temperatures": "--temperature",
}
_SHOWN = 60


def differences(recorded: object, present: JsonMapping) -> list[str]:
    """Return in words, by setting, how the recorded and the present ones of a run differ.

    Another version of the harness has other settings, so of its run only the version is named.
    """
    if not isinstance(recorded, dict):
        return ["run.json does not say how the run was started"]
    keys = []
    for k in sorted({*recorded, *present}):
        if recorded.get(k) != present.get(k):
            keys.append(k)
    return [
        f"{_name(key)} was {_value(recorded.get(key))}, is {_value(present.get(key))}"
        for key in (["harness"] if "harness" in keys else keys)
    ]


def _name(key: str) -> str:
    """Return a setting as it is given: dotted, or as an option."""
    if key in _NAMES or "." in key:
        return _NAMES.get(key, key)
    return "--" + key.replace("_", "-")


def _value(value: object) -> str:
    if isinstance(value, list):
        return (
            ",".join(f"{v:g}" if isinstance(v, float) else str(v) for v in value)
            or "none"
        )
    if value is None:
        return "none"
    return abbreviate(str(value), _SHOWN)


def timestamp() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
