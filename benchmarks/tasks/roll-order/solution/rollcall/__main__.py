"""Command line: ``python -m rollcall FILE``."""

import sys

from rollcall.members import read_members
from rollcall.order import by_name


def lines(members):
    """Return the lines of the list."""
    return [f"{member.last}, {member.first} ({member.since})" for member in by_name(members)]


def main():
    print("\n".join(lines(read_members(sys.argv[1]))))


if __name__ == "__main__":
    main()
