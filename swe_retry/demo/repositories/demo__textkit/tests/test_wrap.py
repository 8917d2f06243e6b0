from textkit import wrap


def test_short_text_is_one_line():
    assert wrap("one two", 20) == ["one two"]


def test_breaks_between_words():
    assert wrap("alpha beta gamma", 6) == ["alpha", "beta", "gamma"]


def test_empty_text_has_no_lines():
    assert wrap("", 10) == []
