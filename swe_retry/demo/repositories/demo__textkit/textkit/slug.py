"""Names for addresses."""


def slugify(text):
    """Return ``text`` in lower case with dashes for everything that is not a letter or digit."""
    letters = []
    for character in text.lower():
        if character.isalnum():
            letters.append(character)
        else:
            letters.append("-")
    return "".join(letters)
