"""The domain's case does not count, the case before the @ does, and a +tag is cut."""

import sys
from datetime import date

sys.path.insert(0, sys.argv[1])

from adressbuch.contacts import Contact, dedupe


def count(*mails):
    return len(dedupe([Contact(f"N{place}", mail, date(2026, 1, 1 + place)) for place, mail in enumerate(mails)]))


assert count("ann@example.org", "ann@EXAMPLE.org") == 1, "the case of the domain counts"
assert count("Ann@example.org", "ann@example.org") == 2, "people whose addresses differ in case were merged"
assert count("ann+news@example.org", "ann@example.org", "ann+2025@example.org") == 1, "a +tag counts"
assert count("ann@example.org", "bob@example.org") == 2
new, old = Contact("New", "ann+a@example.org", date(2026, 1, 1)), Contact("Old", "ann@example.org", date(2025, 1, 1))
latest = dedupe([new, old])
assert [contact.name for contact in latest] == ["New"], f"{latest}"
