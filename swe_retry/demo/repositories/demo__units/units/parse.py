"""Read lengths as people write them."""

from units.convert import to_metres


def parse_length(text):
    """Return the length ``text``, such as ``12 cm``, in metres."""
    value, unit = text.split()
    return to_metres(float(value), unit)
