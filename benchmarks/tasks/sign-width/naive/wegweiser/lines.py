"""Lines and pages of a sign."""

WIDTH = 24
HEIGHT = 4


def cut(text):
    """Return the beginning of a text that fits on a line."""
    return text[:WIDTH]


def page(texts):
    """Return the bytes of a page with at most four texts, one a line."""
    if len(texts) > HEIGHT:
        raise ValueError(f"{len(texts)} texts don't fit on a sign")
    return b"\x02" + "\n".join(cut(text) for text in texts).encode() + b"\x03"
