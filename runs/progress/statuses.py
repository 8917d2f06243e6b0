"""How a job of a run ended."""

from __future__ import annotations

from enum import Enum


class InstanceStatus(str, Enum):
    """The status of an instance that has ended.

    The first three write a prediction. So do ``budget`` after the first call, and ``error`` unless
    the harness itself failed.
    """

    PLAUSIBLE = "plausible"
    FALLBACK = "fallback"
    EMPTY = "empty"
    BUDGET = "budget"
    ERROR = "error"
    INFRA_ERROR = "infra_error"
    INTERRUPTED = "interrupted"
