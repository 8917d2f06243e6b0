"""Say what a run would do and what is missing for it; start nothing."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.agents import load_agent
from agent.errors import UserError
from agent.registry import missing_key
from bench.config import EnvironmentKind, RunConfig
from bench.environments.engine import engine_answers
from bench.environments.images import missing_images
from bench.instances import Instance
from bench.mirrors import Mirrors, has_commit

_GB = 1e9


def preflight(
    config: RunConfig, todo: Sequence[Instance], mirrors: Mirrors, out: Path, cache: Path
) -> Iterator[str]:
    """Yield lines: the plan, the upper bound of calls, and what is missing."""
    attempts = len(config.models) * config.tries
    calls = len(todo) * attempts * (1 + config.max_reflections.most) if config.calls_models else 0
    names = ", ".join(f"{m.name} ({m.edit_format})" for m in config.models)
    yield f"models: {names}; up to {attempts} attempts on each of {len(todo)} instances"
    if config.outside_agent:
        yield f"calls: those of the outside agent, {config.agent_timeout:.0f} s for an attempt"
    else:
        yield f"calls: at most {calls}, those after transient errors aside"
    yield f"environment: {config.environment.value}; tests: {config.tests.value}"
    yield f"output: {out / 'predictions' / config.run_name}"
    yield from _missing_mirrors(todo, mirrors)
    yield from _missing_keys(config)
    yield from _missing_agent(config)
    yield from _missing_engine(config, todo)
    place = next(p for p in (cache, *cache.parents) if p.exists())
    yield f"disk: {shutil.disk_usage(place).free / _GB:.0f} GB free at {place}"


def _missing_mirrors(todo: Sequence[Instance], mirrors: Mirrors) -> Iterator[str]:
    for repo, count in sorted(Counter(i.repo for i in todo).items()):
        mirror = mirrors.find(repo)
        if mirror is None:
            yield f"missing: a mirror of {repo} ({count} instances); it would be cloned"
            continue
        absent = [i for i in todo if i.repo == repo and not has_commit(mirror, i.base_commit)]
        if absent:
            yield f"missing: {len(absent)} base commits in {mirror}, as {absent[0].base_commit}"


def _missing_keys(config: RunConfig) -> Iterator[str]:
    for model in config.models if config.calls_models else ():
        if missing := missing_key(model.name, config.api_base):
            yield f"missing: a key for {model.given} in the environment variable {missing}"


def _missing_agent(config: RunConfig) -> Iterator[str]:
    try:
        load_agent(config.agent, config.agent_env, config.agent_timeout)
    except UserError as error:
        yield f"missing: {error}"


def _missing_engine(config: RunConfig, todo: Sequence[Instance]) -> Iterator[str]:
    if config.environment is not EnvironmentKind.DOCKER:
        return
    if not engine_answers():
        yield "missing: no Docker engine answers; start one or choose --environment local"
        return
    absent = missing_images({i.image for i in todo})
    if absent:
        yield f"missing: {len(absent)} images to be pulled, as {absent[0]}"
