"""From one unit to another."""

FACTORS = {"m": 1.0, "cm": 0.01, "km": 1000.0}


def to_metres(value, unit):
    """Return ``value`` of ``unit`` in metres."""
    return value * FACTORS[unit]


def celsius_to_fahrenheit(degrees):
    """Return ``degrees`` Celsius in Fahrenheit."""
    return degrees * 9 / 5
