"""The sources of sessions and how far each was read."""

from __future__ import annotations

from peewee import AutoField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from engram.models.tables.declaring import Table, reference
from engram.models.tables.sessions import Session


class Transcript(Table):
    """A source of a session that an agent writes (a file, or a part of one), and how far it was read."""

    id = AutoField()
    path = BlobField()
    #: The session's key within a file that holds several; "" if the file is one session.
    part = TextField(default="")
    session = reference(Session, "session_ref", null=True)
    #: Position up to which it was read: a JSON object that only the agent's reader understands; "" before the first
    #: read.
    cursor = TextField(default="")
    #: What the reader needs and may hold words, such as a branch name; deleted when the project is forgotten.
    cursor_words = TextField(default="")
    #: Raised when the source was cut or rewritten, and when words of it were forgotten.
    generation = IntegerField(default=0)
    #: What the source was recognised as unchanged by when it was read to its end; "" if it was not.
    stamp = TextField(default="")
    #: Bytes of the source at the last read, and how many of them were read; lines read.
    size = IntegerField(default=0)
    bytes_read = IntegerField(default=0)
    lines_read = IntegerField(default=0)
    is_gone = BooleanField(default=False)
    read_at_ms = IntegerField(default=0)
    last_error = TextField(default="")

    class Meta:
        indexes = ((("path", "part"), True), (("session",), False))


class BadLine(Table):
    """A part of a source that could not be read, by its position."""

    transcript = reference(Transcript, "transcript_id")
    generation = IntegerField()
    offset = IntegerField()
    length = IntegerField()
    reason = TextField()

    class Meta:
        primary_key = CompositeKey("transcript", "generation", "offset")
        without_rowid = True
