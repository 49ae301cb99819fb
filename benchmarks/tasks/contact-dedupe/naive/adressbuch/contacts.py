"""Contacts."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class Contact:
    """A contact; ``changed`` is the day of the last change."""

    name: str
    mail: str
    changed: date


def mail_key(mail):
    """Return what two addresses of the same contact have in common."""
    return mail.strip().lower()


def dedupe(contacts):
    """Return the contacts with one for each mail address, the one that was changed last, in the order of names."""
    latest = {}
    for contact in contacts:
        known = latest.get(mail_key(contact.mail))
        if known is None or contact.changed > known.changed:
            latest[mail_key(contact.mail)] = contact
    return sorted(latest.values(), key=lambda contact: contact.name)
