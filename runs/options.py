"""The options of a run: its scale, spending, folders, and actions on it."""

from __future__ import annotations

import hashlib
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from agent.formats import format_names
from agent.prompts import prompts_hash
from core.address import Address, parse_address, recorded_address
from core.errors import UserError
from core.options import Folder, option, option_group, plain_values
from environments.options import EnvironmentChoice
from llm.options import LIMITS, MODELS, ModelChoice, ModelOptions
from llm.prices import Price
from llm.provider_errors import RetryPolicy
from llm.settings import SettingsBook, our_settings, settings_sha256
from runs.calls.budget import MONEY, BudgetLimits, parse_prices
from runs.calls.rate_limiter import SCALE, Rates
from runs.keys import is_safe_name
from runs.storage.versions import CHECKOUT, HARNESS_VERSION

TOP = CHECKOUT or Path()
RUN = "The run"


class EngineKind(str, Enum):
    LOCAL = "local"
    RAY = "ray"


def workers_option(
    default: int | None,
    help: str,
    panel: str | None = None,
    factory: Callable[[], int] | None = None,
) -> Any:  # noqa: ANN401 - as of option
    """Declare ``--workers`` of a command."""
    return option(
        default, help, "--workers", "-w", panel=panel, least=1, factory=factory
    )


FORMAT = "--format"
JsonFormat = Annotated[
    Literal["text", "json"], typer.Option(help="Print the result as text or json.")
]
"""The option ``--format`` of a command that declares its options as parameters."""


def json_format(panel: str | None = None) -> Any:  # noqa: ANN401 - as of option
    """Declare ``--format`` of a command; its field is true for json."""
    return option(
        False,
        "Print the result as text or json.",
        FORMAT,
        panel=panel,
        given=Literal["text", "json"],
        shown="text",
        read=lambda _, text, __: text == "json",
        recorded=False,
    )


@option_group
class Scale:
    """How much at once; nothing here decides a result."""

    workers: int = workers_option(
        4, "Number of instances that are worked on at the same time.", SCALE
    )
    jobs: int = option(
        None,
        "Number of checkouts, maps, lints and tests at the same time; default: cores.",
        "--jobs",
        panel=SCALE,
        least=1,
        factory=lambda: os.cpu_count() or 1,
    )
    engine: EngineKind = option(
        EngineKind.LOCAL,
        "Threads of one process, or Ray's processes.",
        "--engine",
        panel=SCALE,
    )
    ray_address: str = option(
        "",
        "auto, or the address of a running cluster (docs/scale.md); default: a Ray of this run's "
        "own on this machine.",
        "--ray-address",
        panel=SCALE,
    )
    cpus_per_instance: float | None = option(
        None,
        "CPUs that Ray reserves for an instance; default: 1 with tests, else 0.25.",
        "--cpus-per-instance",
        panel=SCALE,
    )
    rates: Rates = field(default_factory=Rates)
    give_up_after: float = option(
        1800.0,
        "End the run when no model has answered for this many seconds.",
        "--give-up-after",
        panel=SCALE,
        least=1,
    )


@option_group
class Spending:
    """Limits of what a run spends; ``prices`` are the user's, by litellm's names of models."""

    limits: BudgetLimits = field(default_factory=BudgetLimits)
    prices: Mapping[str, Price] = option(
        None,
        "MODEL=IN,OUT in dollars per million tokens; repeatable.",
        "--price",
        panel=MONEY,
        factory=dict,
        given=list[str],
        read=lambda name, texts, resolve: parse_prices(texts, resolve, name),
    )
    allow_unpriced: bool = option(
        False, "Run models without a known price.", "--allow-unpriced", panel=MONEY
    )

    @property
    def in_dollars(self) -> bool:
        """Whether a limit is one of dollars."""
        limits = self.limits
        return bool(limits.usd or limits.usd_per_instance or limits.usd_per_model)


@option_group
class RunBasics(EnvironmentChoice, ModelOptions):
    """What the configuration of every run holds: models, environment, name.

    Attributes:
        replay: folder of trajectories or a run that replies come from, None to call models.
    """

    replay: Path | None = option(
        None,
        "Call no model: serve the replies of these trajectories.",
        "--replay",
        panel=MODELS,
    )
    max_seconds_per_attempt: float | None = option(
        None,
        "Stop calling the model this many seconds after an attempt started.",
        "--max-seconds-per-attempt",
        panel=MONEY,
        least=1,
    )
    run: str = option(
        "",
        "Folder under predictions/; default: the models' names.",
        "--run",
        "-r",
        panel=RUN,
        recorded=False,
    )

    @property
    @abstractmethod
    def run_name(self) -> str:
        """The folder under ``predictions/``: ``--run``, or made of the models' names."""

    def as_json(self) -> dict[str, Any]:
        """Return the configuration as ``run.json`` and trajectories hold it."""
        # A replay calls no model, and needs no litellm to say what it would know.
        known, base = self.replay is None, self.api_base
        models = [model.as_json(known=known, api_base=base) for model in self.models]
        return plain_values(self) | {
            "models": models,
            "api_base": recorded_address(base),
        }

    def deciding(self) -> dict[str, Any]:
        """Return what a continued run must repeat, because it decides results."""
        return {
            "models": [f"{model.label}@{model.edit_format}" for model in self.models],
            "model_settings_sha256": settings_sha256(
                {model.name: model.settings for model in self.called_models}
            ),
            "harness": HARNESS_VERSION,
            "prompts_sha256": prompts_hash(),
            "replay_sha256": folder_sha256(self.replay) if self.replay else None,
            **plain_values(self, deciding=True),
        }

    def check_name(self) -> None:
        if not is_safe_name(self.run_name):
            raise UserError(f"--run {self.run_name!r}: letters, digits and ._+- only")

    @property
    def called_models(self) -> tuple[ModelChoice, ...]:
        """The models one by one, those of pairs too."""
        return tuple(part for model in self.models for part in model.parts)

    @property
    def calls_models(self) -> bool:
        """Whether calls of models pass through the harness."""
        return self.replay is None


def folder_sha256(folder: Path) -> str:
    """Return the hash over the trajectories in ``folder``, a run or a folder of them."""
    digest = hashlib.sha256()
    place = folder / "trajectories" if (folder / "trajectories").is_dir() else folder
    for path in sorted(place.glob("*.json")):
        digest.update(
            path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest()
        )
    return digest.hexdigest()


def model_slug(models: Iterable[ModelChoice]) -> str:
    """Return a folder name made of the models' names: ``gpt-4o--claude-opus-4``."""
    names = (
        re.sub(r"[^\w.+-]+", "-", model.name.rsplit("/", 1)[-1]) for model in models
    )
    return "--".join(names)


def address_given(text: str | None) -> Address | None:
    """Return the address of ``--api-base``; its secret is redacted from here on."""
    address = parse_address("--api-base", text) if text else None
    if address is not None and address.secret:
        # As a secret of the environment it is redacted everywhere, also in worker processes.
        os.environ["SWE_RETRY_HARNESS_API_PASSWORD"] = address.given
    return address


def models_given(
    names: Iterable[str],
    book: SettingsBook,
    *,
    any_name: bool,
    replay: bool,
    agents: Sequence[str] = (),
) -> tuple[ModelChoice, ...]:
    """Return the models of ``--models``; see ``ModelChoice.parse``.

    ``agents`` are names that may stand in the place of an edit format.
    """
    known = (*format_names(), *agents)
    return tuple(
        ModelChoice.parse(
            name.strip(), formats=known, book=book, any_name=any_name, replay=replay
        )
        for name in names
    )


@option_group
class CallRetries:
    """How often a call is made again."""

    retries: RetryPolicy = option(
        None,
        "How often a call is repeated after a transient error.",
        "--call-retries",
        panel=LIMITS,
        factory=RetryPolicy,
        shown=RetryPolicy().attempts - 1,
        least=0,
        given=int,
        read=lambda _, again, __: RetryPolicy(attempts=1 + again),
    )


def user_folder(variable: str, default: str) -> Path:
    """Return the harness's folder in one of the user's, which ``variable`` may name.

    A relative name does not count, as the XDG specification says: it would lie in the current
    folder, which may be a stranger's repository.
    """
    root = Path(os.environ.get(variable, ""))
    if not root.is_absolute():
        root = Path(default).expanduser()
    return root / "swe-retry-harness"


def default_cache() -> Path:
    """Return the user's cache folder for mirrors, snapshots, environments and baselines."""
    return user_folder("XDG_CACHE_HOME", "~/.cache")


def cache_option(help: str, panel: str | None = None) -> Any:  # noqa: ANN401 - as of option
    """Declare ``--cache`` of a command."""
    return option(None, help, "--cache", panel=panel, factory=default_cache)


def out_option(help: str, panel: str | None = None, default: Path | None = TOP) -> Any:  # noqa: ANN401
    """Declare ``--out`` of a command."""
    given = None if default else Path
    return option(default, help, "--out", "-o", panel=panel, given=given)


Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="The folder that predictions/ and logs/ lie in."),
]
"""The option ``--out`` of a command that declares its options as parameters."""


@option_group
class RunFolders:
    """Where a run lies, and what it shares with other runs."""

    out: Folder = out_option("Where predictions/ and logs/ lie.", RUN)
    cache: Folder = cache_option("Folder for mirrors, environments and baselines.", RUN)


@option_group
class RunResources(RunFolders, CallRetries):
    """What the options of every benchmark hold that decide no result."""

    scale: Scale = field(default_factory=Scale)
    money: Spending = field(default_factory=Spending)
    book: SettingsBook = field(default_factory=our_settings)
    redo: str = ""
    as_json: bool = json_format(RUN)


@option_group
class RunActions:
    """What of a run is done again."""

    redo: str = option(
        "",
        "Redo exactly these: statuses (not_plausible, empty, error, infra_error, budget, …) "
        "or ids.",
        "--redo",
        panel=RUN,
        recorded=False,
    )


@option_group
class Start(RunActions):
    """What is asked of one start of a run, and not recorded with the run."""

    config: Path | None = option(
        None,
        "YAML file with option names as keys; the command line takes precedence.",
        "--config",
        panel=RUN,
        recorded=False,
    )
    continue_: str | None = option(
        None,
        "Continue this run, by name or folder, with the options it was started with.",
        "--continue",
        panel=RUN,
        recorded=False,
    )
    dry_run: bool = option(
        False,
        "Say what would run and what is missing; start nothing.",
        "--dry-run",
        panel=RUN,
        recorded=False,
    )
