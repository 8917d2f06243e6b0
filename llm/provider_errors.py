"""Translate the exceptions of litellm, and repeat calls after those that pass."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from core.address import without_logins
from core.errors import UserError
from llm.chat import WINDOW_WORDS, RequestRefusedError, WindowExceededError
from llm.gate import Failed
from llm.wire import Wire

if TYPE_CHECKING:
    import tenacity

# A plain rate limit also mentions billing pages, so only these words mean the account.
_ACCOUNT = re.compile(
    r"insufficient_quota|billing_hard_limit_reached|billing_not_active|credit balance is too low",
    re.IGNORECASE,
)
_CONTEXT = re.compile(r" ssl:(?:<[^>]*>|\S+)")
_MODERATED = re.compile(r"moderation|flagged|content policy|safety", re.IGNORECASE)

# What servers say of a request that is longer than the window; litellm knows some of these. "TPM"
# is a rate, and the limit of a reply is no window.
_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|size|window|limit)|exceed_context"
    r"|maximum (?:prompt|model|input|sequence) length"
    r"|(?:prompt|input|inputs|messages|conversation|request)\b[^.]{0,80}"
    r"(?:too long\b|too large for model|longer than|exceeds? the (?:model|maximum|limit))"
    r"|(?:token count|tokens)\b[^.]{0,60}exceeds?|too many (?:input )?tokens"
    r"|must have less than \d+ tokens|tokens` \+ `max_new_tokens` must be",
    re.IGNORECASE,
)
_RATE = re.compile(r"per min|\bTPM\b|rate.limit", re.IGNORECASE)


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of retries after transient errors; waits in seconds, doubling, with jitter."""

    attempts: int = 6
    first_wait: float = 2.0
    longest_wait: float = 60.0


class ProviderRefusalError(UserError):
    """The provider refuses every call: the key, the account, or the model is wrong."""


class TransientError(Exception):
    """A call that may be retried; it uses one of the tries unless the gate says otherwise."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.uses_try = True


def meaning(litellm: Any, name: str, error: Exception, wire: Wire) -> Exception:  # noqa: ANN401
    """Return the exception of the harness for one of litellm, after what ``wire`` saw."""
    # Before the text is cut, because half a password is not found.
    words = without_logins(str(error)).replace("\n", " ")
    if not wire.sent:
        # Credentials come over the network too.
        cause: BaseException | None = wire.unreached or error
        while cause and not (wire.unreached or isinstance(cause, OSError)):
            cause = cause.__cause__ or cause.__context__
        if cause:
            # litellm only says "Connection error.".
            words = _CONTEXT.sub("", without_logins(str(cause)).replace("\n", " "))[:500]
            known = words.lower().startswith("cannot connect")
            return TransientError(
                Failed(words if known else f"cannot connect: {words}", reached=False)
            )
        return ProviderRefusalError(
            f"{name}: litellm cannot make a request here ({words[:300]}); install or set what it "
            "names"
        )
    kinds, text = litellm.exceptions, words[:500]
    status = getattr(error, "status_code", None) if wire.billed else wire.status
    cost = None if wire.billed else Decimal()
    if status == 403 and _MODERATED.search(text):
        return RequestRefusedError(f"{name}: {text}", cost)
    if status in (401, 402, 403) or _ACCOUNT.search(text + str(getattr(error, "body", ""))):
        return ProviderRefusalError(
            f"{name}: the provider refused the key or the account ({text}); check the key"
        )
    if isinstance(error, kinds.NotFoundError):
        return ProviderRefusalError(f"{name}: the provider has no such model or address ({text})")
    # llama.cpp and Ollama have answered with 500.
    long = status in (400, 413, 422, 500) and _TOO_LONG.search(words) and not _RATE.search(words)
    if long or isinstance(error, kinds.ContextWindowExceededError):
        return WindowExceededError(f"{name}: {WINDOW_WORDS} ({text})", cost)
    if isinstance(error, kinds.BadRequestError) or status in (400, 413, 422):
        return RequestRefusedError(f"{name}: {text}", cost)
    # Without an answer it is unknown what the provider did, and whether it bills it.
    return TransientError(Failed(text, billed=wire.billed, retry_after=retry_after(wire.headers)))


def retrying(policy: RetryPolicy, pause: Callable[[float], None]) -> tenacity.Retrying:
    """Return the retries of a call after transient errors, as far as these use tries."""
    import tenacity

    used = 0
    backoff = tenacity.wait_exponential_jitter(
        multiplier=policy.first_wait, max=policy.longest_wait, jitter=policy.first_wait
    )

    def used_up(state: tenacity.RetryCallState) -> bool:
        nonlocal used
        error = state.outcome.exception() if state.outcome else None
        used += isinstance(error, TransientError) and error.uses_try
        return used >= policy.attempts

    def seconds(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.failure.retry_after if isinstance(error, TransientError) else None
        return backoff(state) if asked is None else min(asked, policy.longest_wait)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TransientError),
        stop=used_up,
        wait=seconds,
        sleep=pause,
        reraise=True,
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a provider asks to wait: in milliseconds, in seconds, or a date."""
    for header, read in (
        ("retry-after-ms", lambda text: float(text) / 1000),
        ("retry-after", float),
        ("retry-after", lambda text: parsedate_to_datetime(text).timestamp() - time.time()),
    ):
        try:
            seconds = read(headers.get(header, ""))
        except (ValueError, OverflowError):
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None
