from textkit import slugify


def test_lower_case():
    assert slugify("Hello") == "hello"


def test_space_becomes_dash():
    assert slugify("a b") == "a-b"
