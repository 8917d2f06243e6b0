"""Translate the exceptions of litellm, and repeat calls after those that pass."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from email.utils import parsedate_to_datetime
from random import uniform
from typing import Any

from swe_retry.core.address import without_logins
from swe_retry.core.errors import UserError
from swe_retry.llm.chat import WINDOW_WORDS, RequestRefusedError, WindowExceededError
from swe_retry.llm.gate import Failed, Refused
from swe_retry.llm.wire import Wire

# A plain rate limit also mentions billing pages, so only these words mean the account.
_ACCOUNT = re.compile(
    r"insufficient_quota|billing_hard_limit_reached|billing_not_active|credit balance is too low",
    re.IGNORECASE,
)
_CLASSES = re.compile(r"\A(?:(?:litellm\.\w+|[\w-]+(?:Error|Exception))(?:: | - ))*")
_CONTEXT = re.compile(r" ssl:(?:<[^>]*>|\S+)")
_MODERATED = re.compile(r"moderation|flagged|content policy|safety", re.IGNORECASE)

# What servers say of a request that is longer than the window; litellm knows some of these. "TPM"
# is a rate, and the limit of a reply is not a window.
_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|size|window|limit)|exceed_context"
    r"|maximum (?:prompt|model|input|sequence) length"
    r"|(?:prompt|input|inputs|messages|conversation|request)\b[^.]{0,80}"
    r"(?:too long\b|too large for model|longer than|exceeds? the (?:model|maximum|limit))"
    r"|(?:token count|tokens)\b[^.]{0,60}exceeds?|too many (?:input )?tokens"
    r"|must have less than \d+ tokens|tokens`? \+ `max_new_tokens` must be|\bn_ctx\b",
    re.IGNORECASE,
)
# Of servers that compare the prompt and the limit of the reply with their window.
_WINDOW = re.compile(
    r"(?:context (?:length|window|size|limit)|maximum (?:prompt|model|input) length"
    r"|must be <=|less than|\bn_ctx)\D{0,30}(\d+)",
    re.IGNORECASE,
)
# vLLM counts no more of a long prompt than it has to: at least so many.
_PROMPT = re.compile(
    r"(?<!at least )\b(\d+)(?: tokens)? "
    r"(?:in the messages|in your prompt|from the input|input tokens|`inputs`)"
    r"|(?:request|input|tokens|n_keep) \((?:length )?(\d+)|resulted in (\d+)"
    r"|first (\d+) tokens|n_prompt_tokens\D{1,4}(\d+)"
)
_RATE = re.compile(r"per min|\bTPM\b|rate.limit", re.IGNORECASE)

_MAX_DOUBLINGS = 60


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of retries after transient errors; waits in seconds, doubling, with jitter."""

    attempts: int = 6
    first_wait: float = 2.0
    longest_wait: float = 60.0

    def wait(self, failures: int, requested: float | None) -> float:
        """Return the seconds after so many failures; ``requested`` ones are the provider's."""
        seconds = requested
        if seconds is None:
            jitter = uniform(0, self.first_wait)
            seconds = self.first_wait * 2.0 ** min(failures, _MAX_DOUBLINGS) + jitter
        return min(seconds, self.longest_wait)


class ProviderRefusalError(UserError):
    """The provider refuses every call: the key, the account, or the model is wrong."""


class TransientError(Exception):
    """A call that may be retried; it uses one of the tries unless the gate says otherwise."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.error)
        self.failure = failure


def translate_error(
    litellm: Any,  # noqa: ANN401 - it has no types
    name: str,
    error: Exception,
    wire: Wire,
) -> Exception:
    """Return the exception of the harness for one of litellm, after what ``wire`` saw."""
    if isinstance(error, TimeoutError):
        return TransientError(failure_of(str(error), wire))
    # Before the text is cut, because half a password is not found.
    message = without_logins(wire.problem or _text_of(error)).replace("\n", " ")
    if wire.redirection:
        return ProviderRefusalError(
            f"{name}: {wire.redirection}: give the address of the provider itself"
        )
    if not wire.sent:
        return _translate_unsent(name, error, message, wire)
    kinds = litellm.exceptions
    text = message[:500]
    status = wire.status
    cost: Decimal | None = Decimal()
    if wire.may_be_billed:
        status = 500 if wire.problem else getattr(error, "status_code", None)
        cost = None
    if status == 403 and _MODERATED.search(text):
        return RequestRefusedError(f"{name}: {text}", cost)
    body = str(getattr(error, "body", ""))
    if status in (401, 402, 403) or _ACCOUNT.search(text + body):
        return ProviderRefusalError(
            f"{name}: the provider refused the key or the account ({text}); check the key"
        )
    if isinstance(error, kinds.NotFoundError) or status == 404:
        return ProviderRefusalError(
            f"{name}: the provider has no such model or address ({text})"
        )
    # llama.cpp and Ollama have answered with 500.
    may_be_too_long = status in (400, 413, 422, 500) and not _RATE.search(message)
    is_too_long = may_be_too_long and _TOO_LONG.search(message)
    if is_too_long or isinstance(error, kinds.ContextWindowExceededError):
        return WindowExceededError(f"{name}: {WINDOW_WORDS} ({text})", cost)
    if isinstance(error, kinds.BadRequestError) or status in (400, 413, 422):
        return RequestRefusedError(f"{name}: {text}", cost)
    # Without an answer it is unknown what the provider did, and whether it bills it.
    return TransientError(failure_of(text, wire))


def outcome_of(error: BaseException, wire: Wire) -> Refused | Failed:
    """Return how a request ended that raised ``error``."""
    if isinstance(error, TransientError):
        return error.failure
    if isinstance(error, RequestRefusedError):
        return Refused(str(error), error.cost)
    return Failed(
        str(error),
        transient=False,
        billed=wire.may_be_billed,
        reached=wire.status is not None,
        cost=wire.cost,
        usage=wire.usage,
    )


def failure_of(problem: str, wire: Wire) -> Failed:
    """Return the failure of a call that may have been answered in part."""
    return Failed(
        problem,
        billed=wire.may_be_billed,
        retry_after=retry_after(wire.headers),
        cost=wire.cost,
        usage=wire.usage,
    )


def room_for_reply(
    problem: str,
    limit: int,
    window: int | None,
    prompt: int,
) -> int | None:
    """Return the tokens that a refused request leaves for its reply.

    None if that is unknown, nothing, or not less than was asked for.

    Args:
        problem: what the provider says.
        limit: the tokens that were asked for.
        window: of the model, as far as it is known here.
        prompt: the tokens of the request as counted here.
    """
    stated_window, stated_prompt = stated_sizes(problem)
    # Another tokenizer may count more.
    room = (stated_window or window or 0) - (stated_prompt or prompt + prompt // 4)
    if 0 < room < limit:
        return room
    return None


def stated_sizes(problem: str) -> tuple[int | None, int | None]:
    """Return the tokens of the window and of the prompt in what a provider says; or None."""
    sizes = []
    for pattern in (_WINDOW, _PROMPT):
        match = pattern.search(problem)
        sizes.append(match and int(match[match.lastindex or 0]))
    return sizes[0], sizes[1]


def _translate_unsent(
    name: str,
    error: Exception,
    message: str,
    wire: Wire,
) -> Exception:
    """Return the exception for a request that did not reach the provider."""
    # Credentials come over the network too.
    cause: BaseException | None = wire.unreached or error
    while cause and not (wire.unreached or isinstance(cause, OSError)):
        cause = cause.__cause__ or cause.__context__
    if not cause:
        return ProviderRefusalError(
            f"{name}: litellm cannot make a request here ({message[:300]}); install or set what it "
            "names"
        )
    # litellm only says "Connection error.".
    text = without_logins(str(cause)).replace("\n", " ")
    text = _CONTEXT.sub("", text)[:500]
    if not text.lower().startswith("cannot connect"):
        text = f"cannot connect: {text}"
    return TransientError(Failed(text, reached=False))


def _text_of(error: Exception) -> str:
    """Return what an error says, with the server's reply where it is left out.

    Names of classes at its beginning are left out, such as ``litellm.Timeout: APITimeoutError - ``.
    openai 3 repeats only ``error.message`` of a reply; some servers answer with other fields.
    """
    text = _CLASSES.sub("", str(error)) or str(error)
    body = getattr(error, "body", None)
    message = body
    if isinstance(body, Mapping):
        message = body.get("message")
    if isinstance(body, Mapping) and "n_ctx" in body:
        # llama.cpp has stated the numbers only here.
        sizes = {key: body.get(key) for key in ("n_ctx", "n_prompt_tokens")}
        return f"{text} - {sizes}"
    if not body or (message and str(message) in text):
        return text
    return f"{text} - {body}"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a provider asks to wait: in milliseconds, in seconds, or a date."""
    for header, read in (
        ("retry-after-ms", lambda text: float(text) / 1000),
        ("retry-after", float),
        (
            "retry-after",
            lambda text: parsedate_to_datetime(text).timestamp() - time.time(),
        ),
    ):
        try:
            seconds = read(headers.get(header, ""))
        except (ValueError, OverflowError):
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None
