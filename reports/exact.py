"""Dollars in what reports write: digits without an exponent, as everywhere else."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import PlainSerializer

from bench.standing import exact

Dollars = Annotated[Decimal, PlainSerializer(exact, return_type=str)]
"""A sum of dollars, a text in JSON."""
