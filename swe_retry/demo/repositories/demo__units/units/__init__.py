"""Lengths and temperatures."""

from units.convert import celsius_to_fahrenheit, to_metres
from units.parse import parse_length

__all__ = ["celsius_to_fahrenheit", "parse_length", "to_metres"]
