"""The order of the list, which is that of chronik."""

LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


def by_name(members):
    """Return members by surname and first name; small words before the surname don't count, and ä is ae."""
    return sorted(members, key=lambda member: (surname_key(member.last), member.first.lower().translate(LETTERS)))


def surname_key(name):
    words = name.split()
    while len(words) > 1 and words[0][0].islower():
        del words[0]
    return " ".join(words).lower().translate(LETTERS)
