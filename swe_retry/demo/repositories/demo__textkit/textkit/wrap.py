"""Lines of a given width."""


def wrap(text, width):
    """Return the lines of ``text``, broken between words, none longer than ``width``."""
    lines = []
    line = ""
    for word in text.split():
        if line and len(line) + len(word) > width:
            lines.append(line)
            line = word
        elif line:
            line = line + " " + word
        else:
            line = word
    if line:
        lines.append(line)
    return lines
