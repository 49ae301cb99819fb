"""Tables of what was shown to agents, and of the outcomes of prompts. No text is stored."""

from __future__ import annotations

from peewee import BooleanField, CompositeKey, FloatField, IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField

from engram.enums import Channel
from engram.models.tables.declaring import Table, one_of, reference


class Injection(Table):
    """A memory that has been or will be shown in a session."""

    id = AutoIncrementField()
    session_id = TextField()
    #: The prompt's id, else a hash of its text.
    prompt_key = TextField()
    channel = TextField()
    episode_id = TextField()
    score = FloatField()
    tokens = IntegerField()
    state = TextField()
    #: True if the session's context has been cleared since, so the memory may be shown again.
    is_cleared = BooleanField(default=False)
    at_ms = IntegerField()
    #: When the session later used the memory, by expanding it or mentioning its id in a reply.
    used_at_ms = IntegerField(null=True)

    class Meta:
        indexes = ((("session_id", "id"), False), (("episode_id",), False))
        constraints = (one_of("channel", Channel.values()), one_of("state", ("pending", "shown")))


class Shown(Table):
    """Something other than a memory that was shown once in a session, such as the briefing."""

    session_id = TextField()
    what = TextField()
    at_ms = IntegerField()
    tokens = IntegerField()

    class Meta:
        primary_key = CompositeKey("session_id", "what")
        without_rowid = True


# -- Outcomes of prompts, and of the memories considered for them. No text is stored.


class Outcome(Table):
    """The outcome of a prompt, or of another event at which memories may be shown."""

    id = AutoIncrementField()
    session_id = TextField()
    #: As in ``Injection``; "" for an event without a prompt.
    prompt_key = TextField(default="")
    #: Hash of the query text, by which the turn is found; "" if there is none.
    digest = TextField(default="")
    channel = TextField()
    #: Row id of the project; NULL if there is none.
    project_id = IntegerField(null=True)
    at_ms = IntegerField()
    #: A ``Verdict``. There is no constraint, so that a new value needs no migration.
    verdict = TextField()
    #: How many memories were considered.
    candidates = IntegerField(default=0)
    #: Relevance of the deciding memory, and the relevance that it needed; NULL if no memory was considered.
    score = FloatField(null=True)
    floor = FloatField(null=True)
    #: True if the search had no embedding model.
    is_text_only = BooleanField(default=False)
    #: How long the answer took, in milliseconds.
    duration_ms = IntegerField(default=0)

    class Meta:
        indexes = ((("session_id", "id"), False), (("channel", "id"), False))
        constraints = (one_of("channel", Channel.values()),)


class OutcomeCandidate(Table):
    """A memory that was considered. There is a row for each memory that was shown, and for the best of the others."""

    outcome = reference(Outcome, "outcome_id", cascade=True)
    #: Its rank among the hits of the search, from 0.
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
