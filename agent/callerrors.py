"""What the exceptions of litellm mean for a run."""

from __future__ import annotations

import re
from typing import Any

from agent.chat import RequestRefusedError
from agent.errors import UserError
from agent.gate import Failed

# A plain rate limit mentions billing pages too, so only these words mean the account.
_ACCOUNT = re.compile(
    r"insufficient_quota|billing_hard_limit_reached|billing_not_active|credit balance is too low",
    re.IGNORECASE,
)
_MODERATED = re.compile(r"moderation|flagged|content policy|safety", re.IGNORECASE)


class TransientError(Exception):
    """Worth another try, which costs one of the tries unless the gate says otherwise."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.uses_try = True


def meaning(litellm: Any, name: str, error: Exception) -> Exception:  # noqa: ANN401
    """Return what an exception of litellm means for the run."""
    kinds = litellm.exceptions
    status = getattr(error, "status_code", None)
    text = str(error).replace("\n", " ")[:500]
    if status == 403 and _MODERATED.search(text):
        return RequestRefusedError(f"{name}: {text}")
    if status in (401, 402, 403) or _ACCOUNT.search(text + str(getattr(error, "body", ""))):
        return UserError(f"{name}: the provider refused the key or the account ({text}); mend it")
    if isinstance(error, kinds.NotFoundError):
        return UserError(f"{name}: the provider has no such model or address ({text})")
    if isinstance(error, kinds.BadRequestError) or status in (400, 413, 422):
        return RequestRefusedError(f"{name}: {text}")
    if status is None:
        return error
    # Without an answer nobody knows what the provider did, and whether it bills it.
    unknown = isinstance(error, kinds.Timeout) or (
        isinstance(error, (kinds.APIConnectionError, kinds.InternalServerError))
        and "Connection error" in text
    )
    return TransientError(Failed(text, billed=unknown, retry_after=_retry_after(error)))


def _retry_after(error: Exception) -> float | None:
    headers = getattr(error, "litellm_response_headers", None) or {}
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None
