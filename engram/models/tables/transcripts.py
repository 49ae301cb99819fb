"""Transcripts and how far each was read."""

from __future__ import annotations

from peewee import AutoField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from engram.models.tables.declaring import Table, reference
from engram.models.tables.sessions import Session


class Transcript(Table):
    """A file that an agent writes, and the place up to which it was read."""

    id = AutoField()
    path = BlobField(unique=True)
    session = reference(Session, "session_ref", null=True)
    #: Bytes read; always the end of a line.
    cursor = IntegerField(default=0)
    line_number = IntegerField(default=0)
    #: Raised when the file was cut or rewritten.
    generation = IntegerField(default=0)
    #: What the file began with.
    fingerprint = BlobField(default=b"")
    #: JSON.
    reader_state = TextField(default="{}")
    size = IntegerField(default=0)
    is_gone = BooleanField(default=False)
    read_at_ms = IntegerField(default=0)
    last_error = TextField(default="")

    class Meta:
        indexes = ((("session",), False),)


class BadLine(Table):
    """A line that could not be read, by its place."""

    transcript = reference(Transcript, "transcript_id")
    generation = IntegerField()
    offset = IntegerField()
    length = IntegerField()
    reason = TextField()

    class Meta:
        primary_key = CompositeKey("transcript", "generation", "offset")
        without_rowid = True
