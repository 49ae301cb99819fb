"""Pages of the catalogue."""


def page_count(items, size):
    """Return the number of pages."""
    return -(-len(items) // size)
