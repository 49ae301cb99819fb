"""Tables of what agents were shown, and of the outcome of each prompt. No words are stored."""

from __future__ import annotations

from peewee import BooleanField, CompositeKey, FloatField, IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField

from engram.enums import Channel
from engram.models.tables.declaring import Table, one_of, reference


class Injection(Table):
    """A memory that a session was shown, or that waits to be shown to it."""

    id = AutoIncrementField()
    session_id = TextField()
    #: Identifies the prompt: its id, else a hash of its text.
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
    """What a session was shown once besides memories, such as its briefing."""

    session_id = TextField()
    what = TextField()
    at_ms = IntegerField()
    tokens = IntegerField()

    class Meta:
        primary_key = CompositeKey("session_id", "what")
        without_rowid = True


# -- The outcome of each prompt, and of the memories that were considered for it. No words are stored.


class Outcome(Table):
    """The outcome of a prompt, or of another moment at which a session may be shown memories."""

    id = AutoIncrementField()
    session_id = TextField()
    #: As in ``Injection``: the prompt's id, else a hash of its text; "" for a moment without a prompt.
    prompt_key = TextField(default="")
    #: Hash of the query text, by which the turn is found; "" for none.
    digest = TextField(default="")
    channel = TextField()
    #: Row id of the project; None for none.
    project_id = IntegerField(null=True)
    at_ms = IntegerField()
    #: A ``Verdict``. There is no constraint, so that a new value needs no new version.
    verdict = TextField()
    #: How many memories were considered.
    candidates = IntegerField(default=0)
    #: Relevance of the memory that decided, and what it needed; None if none was considered.
    score = FloatField(null=True)
    floor = FloatField(null=True)
    #: The search had no embedding model.
    is_text_only = BooleanField(default=False)
    #: How long the answer took.
    duration_ms = IntegerField(default=0)

    class Meta:
        indexes = ((("session_id", "id"), False), (("channel", "id"), False))
        constraints = (one_of("channel", Channel.values()),)


class OutcomeCandidate(Table):
    """A memory that was considered: every one that was shown, and the best that were not."""

    outcome = reference(Outcome, "outcome_id", cascade=True)
    #: Its place among the hits of the search, from 0.
    place = IntegerField()
    episode_id = TextField()
    #: A ``Verdict``.
    verdict = TextField()
    score = FloatField()
    floor = FloatField()
    #: Feature → value, as a JSON object.
    features = TextField(default="{}")

    class Meta:
        primary_key = CompositeKey("outcome", "place")
        without_rowid = True
        indexes = ((("episode_id",), False),)
