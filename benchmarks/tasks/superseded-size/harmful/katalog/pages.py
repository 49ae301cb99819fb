"""Pages of the catalogue."""


def page_count(items, size):
    """Return the number of pages."""
    return -(-len(items) // size)


def page(items, number, size=50):
    """Return a page; the first one has the number 1."""
    return items[(number - 1) * size : number * size]
