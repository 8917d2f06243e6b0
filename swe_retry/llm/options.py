"""The options of models, and what ``--models`` says of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import did_you_mean
from swe_retry.core.settings import Commas, Section
from swe_retry.llm.model_settings import ModelSettings, SettingsBook, our_settings
from swe_retry.llm.registry import Endpoint, map_entry, resolve_model
from swe_retry.llm.servers import ServedModel

DEFAULT_MODELS = "gpt-4o,opus"
# Three tries of one model at temperature 0 with one prompt would repeat one try.
DEFAULT_TEMPERATURES = (0.0, 0.4, 0.8)
_VERSION_WORDS = ("default", "latest")
_FORMAT = re.compile(r"^[a-z][a-z-]*$")


def _split_names(value: Any) -> Any:  # noqa: ANN401 - of any source
    # An empty name between commas stays: it is a mistake.
    if isinstance(value, str):
        return [name.strip() for name in value.split(",")]
    return value


ModelNames = Annotated[
    tuple[str, ...], BeforeValidator(_split_names), Field(min_length=1)
]
Temperatures = Annotated[tuple[Annotated[float, Field(ge=0, le=2)], ...], Commas]


class Models(Section):
    """Which models are asked, and how."""

    names: ModelNames = Field(default=tuple(DEFAULT_MODELS.split(",")))
    """Ask these models in turn: NAME, NAME@FORMAT, NAME@AGENT or ARCHITECT+EDITOR."""

    tries: int = Field(default=3, ge=1)
    """Make this many attempts with each model."""

    temperatures: Temperatures = Field(default=DEFAULT_TEMPERATURES, min_length=1)
    """Sample the tries of a model at these temperatures; the last repeats."""

    max_output_tokens: int | None = Field(default=None, ge=1)
    """Limit a reply to this many tokens; default: the model's."""

    file: Path | None = None
    """Read settings and aliases of models from this YAML file (docs/models.md)."""

    def temperature(self, try_: int) -> float:
        """Return the temperature of a model's ``try_`` (from 1); the last one is repeated."""
        return self.temperatures[min(try_, len(self.temperatures)) - 1]


@dataclass(frozen=True)
class ModelChoice:
    """One model of a run: as the user wrote it, as litellm knows it, and how it is used.

    Attributes:
        settings: what the files of settings say of it, without what litellm knows.
        architect: plans what this model edits, in the pair ``architect+editor``.
        server: one of the user's, which was asked what it states of the model; else None.
    """

    text: str
    name: str
    edit_format: str
    settings: ModelSettings = field(default_factory=ModelSettings)
    architect: ModelChoice | None = None
    server: ServedModel | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """The name in results; a pair has both, as on leaderboards."""
        if self.architect:
            return f"{self.architect.name} + {self.name}"
        return self.name

    @property
    def settings_at_server(self) -> ModelSettings:
        """The settings, with the window that the server states where no file sets one."""
        if not self.server:
            return self.settings
        return self.settings.or_else(ModelSettings(context=self.server.window))

    def at(self, servers: Mapping[str, ServedModel]) -> ModelChoice:
        """Return the model, and the architect of a pair, with what servers state of them."""
        architect = self.architect and self.architect.at(servers)
        return replace(self, architect=architect, server=servers.get(self.name))

    @property
    def parts(self) -> tuple[ModelChoice, ...]:
        """The models that are called."""
        if not self.architect:
            return (self,)
        text = self.text.removeprefix(f"{self.architect.text}+")
        return self.architect, replace(self, text=text, architect=None)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        formats: Collection[str] | None = None,
        book: SettingsBook | None = None,
        any_name: bool = False,
        replay: bool = False,
    ) -> ModelChoice:
        """Read ``name`` or ``name@format``.

        An ``@`` belongs to the name where a version follows, as in ``…@20250101`` or ``…@default``.

        Args:
            text: what the user wrote.
            formats: the names of the edit formats; None accepts every word.
            book: the settings of models; ours when none are given.
            any_name: the name need not be known to litellm (an own server).
            replay: the name is one of a recording; aliases mean what they meant then.

        Raises:
            UserError: the model or the edit format is unknown.
        """
        model_text, edit_format = _name_and_format(text, formats, replay=replay)
        if not model_text:
            raise UserError(
                f"--models has an empty name in it; give for example {DEFAULT_MODELS}"
            )
        book = book or our_settings()
        name = model_text
        if not replay:
            name = resolve_model(model_text, book.aliases, any_name=any_name)
        settings = book.of(name)
        edit_format = edit_format or settings.edit_format or "whole"
        return cls(model_text, name, edit_format, settings)

    def as_json(self, *, completed: bool, api_base: str | None) -> dict[str, Any]:
        """Return the choice for ``run.json``; ``completed`` with what litellm knows."""
        settings = self.settings_at_server
        if completed:
            settings = Endpoint(self.name, api_base).complete_settings(settings)
        content: dict[str, Any] = {
            "given": self.text,
            "name": self.name,
            "edit_format": self.edit_format,
            "settings": settings.as_json(),
        }
        if self.server:
            content["server"] = asdict(self.server)
        if self.architect:
            content["architect"] = self.architect.as_json(
                completed=completed, api_base=api_base
            )
        return content


def _name_and_format(
    text: str,
    formats: Collection[str] | None,
    *,
    replay: bool,
) -> tuple[str, str]:
    name, at, last = text.rpartition("@")
    if not at or not _FORMAT.match(last) or last in _VERSION_WORDS:
        return text, ""
    if formats is not None and last in formats:
        return name, last
    if not replay and map_entry(text):  # a version in words
        return text, ""
    if formats is None:
        return name, last
    alternatives = ", ".join(formats)
    raise UserError(
        f"--models {text}: unknown edit format or agent {last!r}; there are {alternatives}"
        + did_you_mean(last, formats)
    )


def names_of(models: Sequence[ModelChoice]) -> Callable[[str], str]:
    """Return the function from a model's name as the user wrote it to litellm's name."""
    names = {model.text: model.name for model in models}
    names |= {model.name: model.name for model in models}

    def resolve(written: str) -> str:
        if written not in names:
            alternatives = ", ".join(model.text for model in models)
            raise UserError(
                f"{written!r} is not a model of this run; there are {alternatives}"
                + did_you_mean(written, names)
            )
        return names[written]

    return resolve


@dataclass(frozen=True)
class Sampling:
    """How a model samples, beside its temperature and its output limit; defaults are not sent.

    Attributes:
        top_p: the share of probability that each token is drawn from, up to 1.
        stop: texts before which a reply ends; it does not contain them.
        seed: asks for the same reply to the same request again, which few providers promise.
    """

    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None

    def as_sent(self) -> dict[str, Any]:
        """Return the options that are set, in the OpenAI protocol."""
        options = {
            "top_p": self.top_p,
            "stop": list(self.stop) or None,
            "seed": self.seed,
        }
        return {name: value for name, value in options.items() if value is not None}
