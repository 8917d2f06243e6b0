"""A run while it lives, and how its models are read."""

from __future__ import annotations

import hashlib
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

from swe_retry.agent.formats import format_names
from swe_retry.agent.prompts import prompts_hash
from swe_retry.core.address import recorded_address
from swe_retry.core.errors import UserError
from swe_retry.core.hashing import LONGEST_NAME, fitting_name
from swe_retry.core.jsontypes import JsonObject
from swe_retry.environments.base import EnvironmentKind
from swe_retry.llm.model_settings import (
    SettingsBook,
    load_settings,
    our_settings,
    settings_sha256,
)
from swe_retry.llm.options import ModelChoice, names_of
from swe_retry.llm.prices import FREE
from swe_retry.llm.provider_errors import RetryPolicy
from swe_retry.llm.registry import Endpoint
from swe_retry.llm.servers import ask_server, ollama_address
from swe_retry.record.keys import is_safe_name
from swe_retry.record.versions import HARNESS_VERSION
from swe_retry.runner.calls.rate_limiter import Calls, Rates
from swe_retry.runner.settings import CommonSettings, Spending, make_rates

_WORKERS = 4
_PAIR = re.compile(r"(.+?)\+([^@+].*)")


@dataclass(frozen=True)
class CommonConfig:
    """A run while it lives: its settings, and what they mean here.

    Attributes:
        environment: runs the tests.
        run: the folder under ``predictions/``; made of the models' names when empty.
        money: what the run may spend.
        book: the settings of models.
        redo: ids and statuses of what is done again.
        prints_json: the result is printed as JSON.
    """

    settings: CommonSettings = field(default_factory=CommonSettings)
    models: tuple[ModelChoice, ...] = ()
    environment: EnvironmentKind = EnvironmentKind.NONE
    run: str = ""
    money: Spending = field(default_factory=Spending)
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    rates: Rates = field(default_factory=Rates)
    book: SettingsBook = field(default_factory=our_settings)
    redo: str = ""
    prints_json: bool = False

    @classmethod
    def of(
        cls,
        settings: CommonSettings,
        models: tuple[ModelChoice, ...],
        book: SettingsBook,
        environment: EnvironmentKind = EnvironmentKind.NONE,
    ) -> Self:
        """Return the run that the settings mean for these models."""
        config = cls(settings, models, environment, settings.folders.run, book=book)
        resolve = names_of(config.called_models)
        money = Spending.of(settings.budget, resolve)
        free = {}
        for model in config.called_models:
            if model.server and model.server.is_free:
                free[model.name] = FREE
        return replace(
            config,
            money=replace(money, prices=free | dict(money.prices)),
            retries=RetryPolicy(attempts=1 + settings.calls.retries),
            rates=make_rates(settings.calls, resolve),
        )

    @property
    @abstractmethod
    def run_name(self) -> str:
        """The folder under ``predictions/``."""

    def as_json(self) -> JsonObject:
        """Return the configuration as ``run.json`` and trajectories hold it."""
        calls = self.settings.calls
        # A replay calls no model, and needs no litellm to say what it would know.
        is_live = calls.replay is None
        models = []
        for model in self.models:
            models.append(model.as_json(completed=is_live, api_base=calls.api_base))
        return {
            "environment": self.environment.value,
            "models": models,
            "api_base": recorded_address(calls.api_base),
            "max_output_tokens": self.settings.models.max_output_tokens,
            "call_timeout": calls.timeout,
            "replay": calls.replay and str(calls.replay),
            "max_seconds_per_attempt": self.settings.budget.seconds_per_attempt,
            "run": self.run,
        }

    def deciding(self) -> JsonObject:
        """Return what a continued run must repeat, because it decides results."""
        replay = self.settings.calls.replay
        return {
            "models": [f"{model.label}@{model.edit_format}" for model in self.models],
            "model_settings_sha256": settings_sha256(
                {model.name: model.settings for model in self.called_models}
            ),
            "harness": HARNESS_VERSION,
            "prompts_sha256": prompts_hash(),
            "replay_sha256": folder_sha256(replay) if replay else None,
            "environment": self.environment.value,
        }

    def check_name(self) -> None:
        if not is_safe_name(self.run_name):
            raise UserError(
                f"--run {self.run_name!r}: letters, digits and ._+- only, at most "
                f"{LONGEST_NAME} bytes"
            )

    @property
    def called_models(self) -> tuple[ModelChoice, ...]:
        """The models one by one, those of pairs too."""
        return tuple(part for model in self.models for part in model.parts)

    @property
    def live_models(self) -> tuple[ModelChoice, ...]:
        """The same, and none where no call of them passes through the harness."""
        return self.called_models if self.calls_models else ()

    @property
    def calls_models(self) -> bool:
        """Whether calls of models pass through the harness."""
        return self.settings.calls.replay is None

    @property
    def default_workers(self) -> int:
        """How many jobs are worked on at once where no setting says it."""
        slots = []
        for model in self.called_models:
            if model.server and model.server.kind:
                slots.append(model.server.slots or 1)
        return min(slots, default=_WORKERS)

    @property
    def workers(self) -> int:
        """How many jobs are worked on at once."""
        return self.settings.scale.workers or self.default_workers

    @property
    def out(self) -> Path:
        """The folder that ``predictions/`` and ``logs/`` lie in."""
        return self.settings.folders.out

    @property
    def cache(self) -> Path:
        """The folder of what runs share: mirrors, environments and baselines."""
        return self.settings.folders.cache

    def with_cache(self, cache: Path) -> Self:
        """Return the run on a worker whose machine has another cache folder."""
        folders = self.settings.folders.model_copy(update={"cache": cache})
        settings = self.settings.model_copy(update={"folders": folders})
        return replace(self, settings=settings)


def folder_sha256(folder: Path) -> str:
    """Return the hash over the trajectories in ``folder``, a run or a folder of them."""
    digest = hashlib.sha256()
    trajectories = folder
    if (folder / "trajectories").is_dir():
        trajectories = folder / "trajectories"
    for path in sorted(trajectories.glob("*.json")):
        digest.update(
            path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest()
        )
    return digest.hexdigest()


def model_slug(models: Iterable[ModelChoice]) -> str:
    """Return a folder name made of the models' names: ``gpt-4o--claude-opus-4``."""
    names = [model.name.rsplit("/", 1)[-1] for model in models]
    return fitting_name("--".join(map(name_slug, names)))


def name_slug(name: str) -> str:
    """Return a name with hyphens for what the name of a folder may not hold."""
    return fitting_name(re.sub(r"[^\w.+-]+", "-", name))


def read_models(
    settings: CommonSettings,
    *,
    agents: Sequence[str] = (),
    any_name: bool = False,
    pairs: bool = True,
) -> tuple[tuple[ModelChoice, ...], SettingsBook]:
    """Return the models of ``--models``, and the settings of models by which they were read.

    Args:
        settings: of the run.
        agents: names that may stand in the place of an edit format.
        any_name: a model need not be known; on a server of the user's none need.
        pairs: ``architect+editor`` is a pair; if not, the name of a model.
    """
    address = settings.calls.api_base
    if recorded_address(address) != address:
        # As a secret of the environment it is redacted everywhere, also in worker processes.
        os.environ["SWE_RETRY_HARNESS_API_PASSWORD"] = str(address)
    book = load_settings(settings.models.file, format_names())
    parse = partial(
        ModelChoice.parse,
        formats=(*format_names(), *agents),
        book=book,
        any_name=any_name or bool(address),
        replay=settings.calls.replay is not None,
    )
    read = parse
    if pairs:
        read = partial(model_or_pair, parse=parse)
    return tuple(read(name.strip()) for name in settings.models.names), book


def ask_servers(
    models: Sequence[ModelChoice], calls: Calls, *, wait: bool
) -> tuple[ModelChoice, ...]:
    """Return the models with what the user's server states of them; a replay asks none.

    ``wait`` for a server that says that it is loading, at most ``calls.give_up_after``.
    """
    address = calls.api_base
    names = {}
    for model in models:
        for part in model.parts:
            endpoint = Endpoint(part.name, address)
            if address or endpoint.is_ollama:
                names[part.name] = endpoint.bare_name
    if calls.replay is not None or not names:
        return tuple(models)
    stated = ask_server(
        address or ollama_address(),
        names.values(),
        native=not address,
        patience=calls.give_up_after if wait else 0.0,
    )
    servers = {name: stated[bare] for name, bare in names.items()}
    return tuple(model.at(servers) for model in models)


def model_or_pair(text: str, parse: Callable[[str], ModelChoice]) -> ModelChoice:
    """Return the model ``text``, or the pair ``architect+editor``; ``parse`` reads a model."""
    pair = _PAIR.fullmatch(text)
    if pair is None:
        return parse(text)
    architect = parse(pair[1].strip())
    editor = parse(pair[2].strip())
    pair_text = f"{architect.text}+{editor.text}"
    return replace(editor, text=pair_text, architect=architect)
