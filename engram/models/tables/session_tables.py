"""Tables of sessions, their sources, and branches."""

from __future__ import annotations

from peewee import AutoField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from engram.enums import BranchState
from engram.models.tables.declaring import Table, one_of, reference
from engram.models.tables.project_tables import Project
from engram.transcripts.agents import TitleRank

# -- Sessions of a coding agent, and what is known about each.


class Session(Table):
    id = AutoField()
    #: The agent's id for it.
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
    #: Title given by the agent and its rank (``TitleRank``); "" for the first prompt.
    title = TextField(default="")
    title_rank = IntegerField(default=0)


#: Values for a session with forgotten words, since the agent's title may mention them and must not come back.
NO_TITLE = {"title": "", "title_rank": TitleRank.FORGOTTEN.value}


class PullRequest(Table):
    """A pull request that a session's transcript mentions."""

    session = reference(Session, "session_ref", cascade=True)
    #: Its web address.
    url = TextField()
    #: When it was first mentioned; 0 if unknown.
    at_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("session", "url")
        without_rowid = True


class KnownValue(Table):
    """The salted hash of a value from an ``.env`` file that appeared in a session and is masked everywhere."""

    session = reference(Session, "session_ref")
    hash = BlobField()

    class Meta:
        primary_key = CompositeKey("session", "hash")
        without_rowid = True


class Context(Table):
    """When a session was last compacted or cleared; earlier turns are no longer in its context."""

    session_id = TextField(primary_key=True)
    began_at_ms = IntegerField()

    class Meta:
        without_rowid = True


class CopiedHistory(Table):
    """Until when the transcript of a forked session repeats another session."""

    session_id = TextField()
    from_session = TextField()
    until_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("session_id", "from_session")
        without_rowid = True


# -- Sources of sessions and how far each was read.


class Transcript(Table):
    """A source of a session (a file of an agent, or part of one), and how far it was read."""

    id = AutoField()
    path = BlobField()
    #: The session's key within a file that holds several; "" if the file is one session.
    part = TextField(default="")
    session = reference(Session, "session_ref", null=True)
    #: Position of the agent's reader, as a JSON object that only it understands; "" before the first read.
    cursor = TextField(default="")
    #: The part of the cursor that may contain words, such as a branch name; deleted when the project is forgotten.
    cursor_words = TextField(default="")
    #: Raised when the source is truncated or rewritten, and when words of it are forgotten.
    generation = IntegerField(default=0)
    #: State of the source when it was last read to its end; "" if it has not been.
    stamp = TextField(default="")
    #: Size of the source at the last read, bytes read and lines read.
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


# -- Branches of repositories, and whether they were merged.


class Branch(Table):
    """A branch on which turns took place. The default branch counts as merged."""

    project = reference(Project, "project_id", cascade=True)
    name = TextField()
    state = TextField(default=BranchState.UNKNOWN.value)
    #: Last commit on it according to git; "" for none.
    tip = TextField(default="")
    #: Last commit on it according to a transcript, maybe abbreviated; "" for none.
    reported_commit = TextField(default="")
    #: True if it is known to have had its own commit.
    has_commits = BooleanField(default=False)
    #: What the state was determined from: name and commits of the default branch, and the branch's own state. While
    #: these are unchanged, git is not asked again.
    compared_with = TextField(default="")
    #: When a turn last took place on it.
    last_turn_ms = IntegerField(default=0)
    #: When its state last changed.
    changed_at_ms = IntegerField(default=0)

    class Meta:
        primary_key = CompositeKey("project", "name")
        without_rowid = True
        constraints = (one_of("state", BranchState.values()),)
