"""What agents were shown."""

from __future__ import annotations

from peewee import BooleanField, CompositeKey, FloatField, IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField

from engram.enums import Channel
from engram.models.tables.declaring import Table, one_of


class Injection(Table):
    """A memory that a session was shown, or that waits to be shown to it."""

    id = AutoIncrementField()
    session_id = TextField()
    #: Tells the prompt: its id, else a hash of its text.
    prompt_key = TextField()
    channel = TextField()
    episode_id = TextField()
    score = FloatField()
    tokens = IntegerField()
    state = TextField()
    #: The session's context was cleared since: the memory may be shown again.
    is_cleared = BooleanField(default=False)
    at_ms = IntegerField()
    #: When the session used the memory after it was shown: expanded it, or named its id in a reply.
    used_at_ms = IntegerField(null=True)

    class Meta:
        indexes = ((("session_id", "id"), False), (("episode_id",), False))
        constraints = (one_of("channel", Channel.values()), one_of("state", ("pending", "shown")))


class Shown(Table):
    """What a session was shown once beside memories, such as its briefing."""

    session_id = TextField()
    what = TextField()
    at_ms = IntegerField()
    tokens = IntegerField()

    class Meta:
        primary_key = CompositeKey("session_id", "what")
        without_rowid = True
