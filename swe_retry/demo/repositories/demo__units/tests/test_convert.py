from units import celsius_to_fahrenheit, to_metres


def test_centimetres():
    assert to_metres(250, "cm") == 2.5


def test_zero_metres():
    assert to_metres(0, "km") == 0


def test_conversion_is_a_number():
    assert isinstance(celsius_to_fahrenheit(20), float)
