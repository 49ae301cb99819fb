"""Command line: ``python -m rollcall FILE``."""

import sys

from rollcall.members import read_members


def lines(members):
    """Return the lines of the list."""
    return [f"{member.last}, {member.first} ({member.since})" for member in members]


def main():
    print("\n".join(lines(read_members(sys.argv[1]))))


if __name__ == "__main__":
    main()
