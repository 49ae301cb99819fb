"""Client of the ledger service."""

#: Entries that the ledger really stores of a call; it accepts 100 and drops the rest silently.
MAX_STORED = 40


class LedgerError(Exception):
    """The ledger refused a call."""


class LedgerClient:
    """Sends entries. ``transport(path, body)`` returns the status and the decoded answer."""

    def __init__(self, transport):
        self._transport = transport

    def push(self, entries):
        """Send entries in one call; returns how many the ledger accepted."""
        status, answer = self._transport("/v3/entries", list(entries))
        if status != 200:
            raise LedgerError(f"status {status}")
        return answer["accepted"]

    def push_all(self, entries):
        """Send any number of entries; returns how many were sent."""
        entries = list(entries)
        return sum(self.push(entries[at : at + MAX_STORED]) for at in range(0, len(entries), MAX_STORED))
