"""Members of the club."""

import csv
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """A member."""

    first: str
    last: str
    since: int


def read_members(path):
    """Return the members of a CSV file, in its order."""
    with open(path, encoding="utf-8", newline="") as lines:
        return [Member(row["first"], row["last"], int(row["since"])) for row in csv.DictReader(lines)]
