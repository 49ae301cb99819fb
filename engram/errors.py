"""The hierarchy of Engram's exceptions.

    EngramError                 every error that Engram raises on purpose; the message is one line for the user
    ├── SettingsError           a setting has an invalid value
    ├── HomeError               ENGRAM_HOME is missing, belongs to another user, or is open to other users
    ├── StoreError              memory.db can't be opened, read or written
    │   ├── ForeignDatabase     the file is another program's database
    │   ├── NewerSchema         a newer Engram wrote the file
    │   ├── MissingDatabase     memory.db is missing, but there are backups of it
    │   ├── OlderSchema         an earlier version wrote the file, and this process must not migrate it
    │   ├── DiskFull            there is no room to write the file
    │   ├── BrokenDatabase      SQLite reports that the file is damaged
    │   └── Conflict            a compare-and-set found a change; try again
    ├── TranscriptError         a transcript can't be read at all
    ├── EmbeddingError          the model is missing, damaged, or returned unusable numbers
    ├── ExtractionError         an extractor failed; the turns remain due
    │   ├── RetryLater          extraction failed temporarily; try again later
    │   ├── ModelUnavailable    the language model needs the user's action; until then, the local extractor is used
    │   └── BudgetReached       a spending cap has been reached; nothing was sent
    ├── HubError                a hub can't be reached, or refuses a request
    │   ├── HubUnreachable      no response (offline, or the hub is down); Engram will try again
    │   └── HubRefused          the hub refused the request; the message says why
    ├── ServiceError            launchd, systemd or the supervisor could not start or stop the processes
    ├── InstallError            the installation was refused or undone; nothing outside the memory folder was changed
    ├── NotFound                there is no such memory, note, session or task
    ├── BadRequest              an argument has an invalid value
    └── AlreadyRunning          another process holds the lock

The class docstring is the default message.
"""

from __future__ import annotations


class EngramError(Exception):
    """Engram could not do that."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class SettingsError(EngramError):
    """A setting has an invalid value."""


class HomeError(EngramError):
    """The memory folder can't be used."""


class MissingHome(HomeError):
    """There is no memory in this folder. Its name may be mistyped."""


class StoreError(EngramError):
    """The memory database can't be used."""


class ForeignDatabase(StoreError):
    """The file is another program's database."""


class NewerSchema(StoreError):
    """A newer version of Engram wrote the memory database. Update Engram."""


class OlderSchema(StoreError):
    """An earlier version of Engram wrote the memory database. Run `engram install` or `engram up`."""

    def __init__(self, message: str = "", version: int = 0) -> None:
        super().__init__(message)
        #: Version of the tables in the file.
        self.version = version


class MissingDatabase(StoreError):
    """memory.db is gone, but there are backups of it. Run `engram restore`, or `engram restore --new` to start over."""


class DiskFull(StoreError):
    """There is no room to write to the memory database."""


class BrokenDatabase(StoreError):
    """The memory database is damaged."""


class Conflict(StoreError):
    """The data has changed in the meantime. Read it again."""


class TranscriptError(EngramError):
    """The transcript can't be read."""


class EmbeddingError(EngramError):
    """The embedding model can't be used."""


class ExtractionError(EngramError):
    """The extractor failed. The turns will be processed later."""


class RetryLater(ExtractionError):
    """Extraction failed temporarily and will be retried later."""


class ModelUnavailable(ExtractionError):
    """The language model can't be used until its settings or its login are fixed."""


class BudgetReached(ExtractionError):
    """A spending cap has been reached; nothing was sent."""


class HubError(EngramError):
    """The hub can't be used."""


class HubUnreachable(HubError):
    """The hub can't be reached. Engram will try again."""


class HubRefused(HubError):
    """The hub refused the request."""

    def __init__(self, message: str = "", status: int = 0) -> None:
        super().__init__(message)
        #: HTTP status of the response.
        self.status = status


class ServiceError(EngramError):
    """The worker and the watcher could not be started or stopped."""


class InstallError(EngramError):
    """The installation failed. Its changes were undone."""


class NotFound(EngramError):
    """There is no such item."""


class BadRequest(EngramError):
    """An argument has an invalid value."""


class AlreadyRunning(EngramError):
    """Another process is already running."""


#: Appended to a message about a damaged memory.db.
SEE_DOCTOR = ". Run `engram doctor` to see what to do"


def told_with_advice(error: EngramError) -> str:
    """Return an error's message, with the command that says what to do about a damaged memory.db."""
    is_damaged = isinstance(error, BrokenDatabase) and "memory.db" in str(error)
    return f"{error}{SEE_DOCTOR if is_damaged else ''}"
