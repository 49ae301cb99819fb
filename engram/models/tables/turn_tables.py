"""Tables of turns, their texts, entries and failed commands."""

from __future__ import annotations

from peewee import AutoField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from engram.models.tables.declaring import Table, one_of, reference
from engram.models.tables.project_tables import Project
from engram.models.tables.session_tables import Session, Transcript
from engram.transcripts.turns import Role

# -- Turns, their texts, and the entries of the transcript that they came from.


class Turn(Table):
    """A prompt with its answer. Its entries and tool calls are packed into the row."""

    id = AutoField()
    stable_id = TextField(unique=True)
    #: Uuid of its prompt, or a substitute.
    key = TextField(unique=True)
    session = reference(Session, "session_ref")
    project = reference(Project, "project_id", null=True)
    transcript = reference(Transcript, "transcript_id")
    opening = TextField()
    agent = TextField()
    cwd = TextField()
    branch = TextField()
    started_at_ms = IntegerField(null=True)
    ended_at_ms = IntegerField(null=True)
    start_offset = IntegerField()
    end_offset = IntegerField()
    is_closed = BooleanField()
    is_interrupted = BooleanField()
    message_count = IntegerField()
    #: JSON, possibly compressed (``engram.models.engine.packed``).
    actions = TextField()
    #: JSON.
    extra = TextField()
    #: Revision from which memories were last made.
    extracted_revision = IntegerField(default=0)
    origin = TextField(default="")
    #: Raised whenever the turn grows.
    revision = IntegerField(default=1)
    updated_at_ms = IntegerField()
    #: Uuids and locations of its entries (``engram.models.engine.packed``).
    entries = BlobField(default=b"")

    class Meta:
        indexes = ((("session", "id"), False), (("project", "started_at_ms"), False))
        constraints = (one_of("opening", ("prompt", "queued", "continuation")),)


#: Turns that have grown since memories were made from them.
Turn.add_index(Turn.index(Turn.session, name="turn_due").where(Turn.extracted_revision < Turn.revision))


class ModelReading(Table):
    """The revision of a turn that a language model has read or was asked to read."""

    turn = reference(Turn, "turn_id", cascade=True)
    revision = IntegerField()
    #: True if it was read a second time, after the local extractor.
    is_second = BooleanField(default=False)

    class Meta:
        primary_key = CompositeKey("turn")
        without_rowid = True


class Entry(Table):
    """Which turn an entry of a transcript belongs to, by a hash of the entry's uuid."""

    key = IntegerField(primary_key=True)
    #: No foreign key, since rows of a deleted turn are deleted by key.
    turn_id = IntegerField()


class TextBlock(Table):
    """A text of a turn: a prompt, or a text block of the assistant."""

    id = AutoField()
    turn = reference(Turn, "turn_id", cascade=True)
    #: Its position in the turn.
    seq = IntegerField()
    uuid = BlobField(null=True)
    role = TextField()
    text = TextField()
    message_id = TextField()
    offset = IntegerField()
    length = IntegerField()
    line = IntegerField()
    at_ms = IntegerField(null=True)

    class Meta:
        table_name = "said"
        indexes = ((("turn", "seq"), True),)
        constraints = (one_of("role", tuple(role.value for role in Role)),)


# -- Failed commands, by hashes of their errors.


class FailedCall(Table):
    """A significant line of a failed command's error, stored only as a hash."""

    turn = reference(Turn, "turn_id", cascade=True)
    #: Position of the call among the turn's tool calls.
    seq = IntegerField()
    #: Hash of the line without the parts that differ between runs (``engram.text.shell``).
    error_key = IntegerField()
    #: Programs that the command runs, one per line.
    programs = TextField()

    class Meta:
        primary_key = CompositeKey("turn", "seq", "error_key")
        without_rowid = True
        indexes = ((("error_key",), False),)
