"""The one error tree.

    EngramError                 anything Engram raises on purpose; the message is one line for the user
    ├── SettingsError           a setting has a value that cannot be used
    ├── HomeError               ENGRAM_HOME is missing, foreign, or open to other users
    ├── StoreError              memory.db cannot be opened, read or written
    │   ├── ForeignDatabase     the file is a database, but not Engram's
    │   ├── NewerSchema         the file was written by a newer Engram
    │   ├── UnsupportedSchema   the file was written before Engram's first release
    │   ├── BrokenDatabase      SQLite says that the file is damaged
    │   └── Moved               a compare-and-set found that something moved meanwhile; try again
    ├── TranscriptError         a transcript cannot be read at all
    ├── EmbeddingError          the model is missing, damaged, or answered with unusable numbers
    ├── ExtractionError         an extractor failed; the turns stay due
    │   ├── RetryLater          a passing fault: try again after a while
    │   ├── ModelUnavailable    the language model can't be used until the user acts; the local extractor serves
    │   └── BudgetReached       a spending cap is reached: nothing was sent
    ├── NotFound                no memory, note, session or task has that name
    ├── BadRequest              an argument has a value that cannot be used
    └── AlreadyRunning          another process holds the lock

The class docstring is the default message.
"""

from __future__ import annotations


class EngramError(Exception):
    """Engram could not do that."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class SettingsError(EngramError):
    """A setting has a value that cannot be used."""


class HomeError(EngramError):
    """The memory folder cannot be used."""


class StoreError(EngramError):
    """The memory database cannot be used."""


class ForeignDatabase(StoreError):
    """The file is a database of another program."""


class NewerSchema(StoreError):
    """The memory database was written by a newer version of Engram; update Engram."""


class UnsupportedSchema(StoreError):
    """The memory database was written before Engram's first release and cannot be read; move it away."""


class BrokenDatabase(StoreError):
    """The memory database is damaged."""


class Moved(StoreError):
    """What was read has changed meanwhile; read again."""


class TranscriptError(EngramError):
    """The transcript cannot be read."""


class EmbeddingError(EngramError):
    """The embedding model cannot be used."""


class ExtractionError(EngramError):
    """The extractor failed; the turns stay due."""


class RetryLater(ExtractionError):
    """A passing fault: the extraction is tried again later."""


class ModelUnavailable(ExtractionError):
    """The language model can't be used until its settings or its login are mended."""


class BudgetReached(ExtractionError):
    """A spending cap is reached; nothing was sent."""


class NotFound(EngramError):
    """There is nothing of that name."""


class BadRequest(EngramError):
    """An argument has a value that cannot be used."""


class AlreadyRunning(EngramError):
    """Another process is already running."""
