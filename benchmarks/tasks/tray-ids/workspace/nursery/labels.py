"""Labels for the printer in the potting shed."""

from nursery.ids import parse_id


def label(text, plant):
    """Return the two lines of a label: the id, and what grows there."""
    parse_id(text)
    return [text, plant[:24]]
