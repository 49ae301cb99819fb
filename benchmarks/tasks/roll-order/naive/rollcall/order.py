"""The order of the list."""


def by_name(members):
    """Return members by surname and first name."""
    return sorted(members, key=lambda member: (member.last.casefold(), member.first.casefold()))
