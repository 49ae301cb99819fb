"""Sessions of a coding agent, and what is known of each."""

from __future__ import annotations

from peewee import AutoField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from engram.models.tables.declaring import Table, reference
from engram.models.tables.projects import Project
from engram.transcripts.source import TitleRank


class Session(Table):
    """A session of an agent."""

    id = AutoField()
    #: The agent's own id of it.
    session_id = TextField(unique=True)
    agent = TextField()
    project = reference(Project, "project_id", null=True)
    is_global = BooleanField(default=False)
    cwd = TextField(default="")
    branch = TextField(default="")
    first_at_ms = IntegerField()
    last_at_ms = IntegerField()
    ended_at_ms = IntegerField(null=True)
    message_count = IntegerField(default=0)
    extracted_messages = IntegerField(default=0)
    extractions = IntegerField(default=0)
    rolling_summary = TextField(default="")
    #: When it was last extracted; 0 for never.
    extracted_at_ms = IntegerField(default=0)
    #: What the agent calls it, and how much that counts (``TitleRank``); "" for its first prompt.
    title = TextField(default="")
    title_rank = IntegerField(default=0)


#: Columns of a session whose words were forgotten: the agent's title may tell of them, and does not come back.
NO_TITLE = {"title": "", "title_rank": TitleRank.FORGOTTEN.value}


class PullRequest(Table):
    """A pull request that a session's transcript names."""

    session = reference(Session, "session_ref", cascade=True)
    #: Its web address.
    url = TextField()
    #: When it was named first; 0 if that is unknown.
    at_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("session", "url")
        without_rowid = True


class KnownValue(Table):
    """The salted hash of a value of an ``.env`` file that a session has shown: it is masked wherever it stands."""

    session = reference(Session, "session_ref")
    hash = BlobField()

    class Meta:
        primary_key = CompositeKey("session", "hash")
        without_rowid = True


class Context(Table):
    """When a session was last compacted or cleared: what was said before is no longer in its context."""

    session_id = TextField(primary_key=True)
    began_at_ms = IntegerField()

    class Meta:
        without_rowid = True


class CopiedHistory(Table):
    """Up to when the transcript of a session (a fork) repeats what was said in another one."""

    session_id = TextField()
    from_session = TextField()
    until_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("session_id", "from_session")
        without_rowid = True
