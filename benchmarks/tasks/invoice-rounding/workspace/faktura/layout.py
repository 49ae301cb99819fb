"""The layout of the page."""

LOGO_WIDTH_MM = 42
MARGIN_MM = 20


def customer_label(number):
    """Return a customer's number as it is printed."""
    return f"{number:04}"
