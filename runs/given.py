"""Read ``--models`` and ``--api-base`` in the same way for each benchmark."""

from __future__ import annotations

import os

from agent.formats import format_names
from core.address import Address, parse_address
from llm.options import DEFAULT_MODELS, ModelChoice
from llm.settings import SettingsBook


def address_given(text: str | None) -> Address | None:
    """Return the address of ``--api-base``; its secret is redacted from here on."""
    address = parse_address("--api-base", text) if text else None
    if address is not None and address.secret:
        # As a secret of the environment it is redacted everywhere, also in worker processes.
        os.environ["SWE_RETRY_HARNESS_API_PASSWORD"] = address.given
    return address


def models_given(
    text: str | None, book: SettingsBook, *, any_name: bool, replay: bool
) -> tuple[ModelChoice, ...]:
    """Return the models of ``--models``, by default ours; see ``ModelChoice.parse``."""
    given = DEFAULT_MODELS if text is None else text
    return tuple(
        ModelChoice.parse(
            name.strip(), formats=format_names(), book=book, any_name=any_name, replay=replay
        )
        for name in given.split(",")
    )
