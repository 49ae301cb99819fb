"""The errors, each with a code for the customers' programs."""


class HafenError(Exception):
    """Base of all errors."""

    code = "HB-100"


class UnknownPort(HafenError):
    """There is no such port."""

    code = "HB-101"


class NoRoute(HafenError):
    """There is no route between two ports."""

    code = "HB-102"


class ShipFull(HafenError):
    """No room is left."""

    code = "HB-103"


class QuoteTimeout(HafenError):
    """The quote provider did not answer in time."""

    code = "HB-104"
