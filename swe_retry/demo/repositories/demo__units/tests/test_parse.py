import pytest

from units import parse_length


def test_length_with_space():
    assert parse_length("12 m") == 12


def test_unknown_unit():
    with pytest.raises(KeyError):
        parse_length("12 parsec")


def test_no_unit_is_an_error():
    with pytest.raises(ValueError):
        parse_length("12")
