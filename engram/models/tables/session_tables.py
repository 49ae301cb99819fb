"""Tables of sessions, of the sources they are read from, and of branches."""

from __future__ import annotations

from peewee import AutoField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from engram.enums import BranchState
from engram.models.tables.declaring import Table, one_of, reference
from engram.models.tables.project_tables import Project
from engram.transcripts.agents import TitleRank

# -- Sessions of a coding agent, and what is known about each.


class Session(Table):
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


#: Values for a session whose words were forgotten: the agent's title may mention them, and must not come back.
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
    """The salted hash of a value of an ``.env`` file that appeared in a session: the value is masked everywhere."""

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


# -- The sources of sessions and how far each was read.


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
    #: What the reader needs that may contain words, such as a branch name; deleted when the project is forgotten.
    cursor_words = TextField(default="")
    #: Increased when the source was cut or rewritten, and when words of it were forgotten.
    generation = IntegerField(default=0)
    #: What shows that the source is unchanged since it was read to its end; "" if it was not.
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


# -- Branches of repositories, as far as git says whether they were merged.


class Branch(Table):
    """A branch on which turns took place. The default branch counts as merged."""

    project = reference(Project, "project_id", cascade=True)
    name = TextField()
    state = TextField(default=BranchState.UNKNOWN.value)
    #: The last commit that git showed on it; "" for none.
    tip = TextField(default="")
    #: The last commit that a transcript reports on it, maybe abbreviated; "" for none.
    reported_commit = TextField(default="")
    #: True if it is known to have had a commit of its own.
    has_commits = BooleanField(default=False)
    #: What the state was determined from: name and commits of the default branch, and the state of the branch. If these
    #: are unchanged, git is not asked again.
    compared_with = TextField(default="")
    #: When a turn last took place on it.
    last_turn_ms = IntegerField(default=0)
    #: When its state last changed.
    changed_at_ms = IntegerField(default=0)

    class Meta:
        primary_key = CompositeKey("project", "name")
        without_rowid = True
        constraints = (one_of("state", BranchState.values()),)
