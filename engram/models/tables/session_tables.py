"""Tables of projects, sessions with sources and branches, turns with text and failed commands, and what was shown."""

from __future__ import annotations

from peewee import (
    SQL,
    AutoField,
    BlobField,
    BooleanField,
    ColumnBase,
    CompositeKey,
    FloatField,
    IntegerField,
    Query,
    Select,
    TextField,
    fn,
)
from playhouse.sqlite_ext import AutoIncrementField

from engram.enums import BranchState, Channel
from engram.models.tables.declaring import Table, View, one_of, reference
from engram.transcripts.agents import TitleRank
from engram.transcripts.turns import Role

# -- Projects, the folders that have been joined to them, and their previous names.


class Project(Table):
    """A project: a repository or a folder in which sessions took place."""

    id = AutoField()
    stable_id = TextField(unique=True)
    #: Path of its folder, or of its main checkout.
    identity = TextField(unique=True)
    #: For display.
    name = TextField(unique=True)
    root = TextField(default="")
    origin = TextField(default="")
    revision = IntegerField(default=1)
    updated_at_ms = IntegerField()
    #: Facts about its repository, by which a moved folder is recognised.
    remote = TextField(default="")
    first_commit = TextField(default="")
    hints_at_ms = IntegerField(default=0)


#: The order in which people look for a project: capital letters make no difference.
PROJECTS_BY_NAME = (Project.name.collate("NOCASE"), Project.name)


class ProjectFolder(Table):
    identity = TextField(primary_key=True)
    #: No foreign key, because two projects may be merged in either order.
    project_id = IntegerField()
    root = TextField()
    reason = TextField()
    added_at_ms = IntegerField()

    class Meta:
        without_rowid = True


class FormerName(Table):
    """A previous name of a project, with the identity of its folder. It is never given to another project."""

    name = TextField(primary_key=True)
    identity = TextField()

    class Meta:
        without_rowid = True


class ProjectNamed(View):
    """Every name that a project has or had."""

    name = TextField()
    project = reference(Project, "project_id", null=True)

    definition = """CREATE VIEW project_named AS SELECT name, id AS project_id FROM project
        UNION ALL SELECT f.name, coalesce((SELECT p.id FROM project p WHERE p.identity = f.identity),
            (SELECT l.project_id FROM project_folder l WHERE l.identity = f.identity)) FROM former_name f
        WHERE NOT EXISTS (SELECT 1 FROM project p WHERE p.name = f.name)"""


# -- Sessions of a coding agent, and the known facts about each.


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
    extracted_at_ms = IntegerField(default=0)
    #: Title given by the agent and its rank (``TitleRank``); "" for the first prompt.
    title = TextField(default="")
    title_rank = IntegerField(default=0)


#: The condition that a session is not a subagent's, whose ids contain the parent's id and a dot.
IS_MAIN = ~Session.session_id.contains(".")
#: Column values of a session with forgotten words: the agent's title may mention them, so it must not come back.
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
    """The time up to which the transcript of a forked session repeats another session."""

    session_id = TextField()
    from_session = TextField()
    until_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("session_id", "from_session")
        without_rowid = True


# -- Sources of sessions, and how far each has been read.


class Transcript(Table):
    """A source of a session (an agent's file, or part of one), and how far it has been read."""

    id = AutoField()
    path = BlobField()
    #: The session's key within a file that contains several; "" if the file is one session.
    part = TextField(default="")
    session = reference(Session, "session_ref", null=True)
    #: The position of the agent's reader, as a JSON object in the reader's own format; "" before the first read.
    cursor = TextField(default="")
    #: The part of the cursor that may contain words, such as a branch name; deleted when the project is forgotten.
    cursor_words = TextField(default="")
    #: Incremented when the source is truncated or rewritten, and when words from it are forgotten.
    generation = IntegerField(default=0)
    #: State of the source when it was last read to its end; "" if it never was.
    stamp = TextField(default="")
    #: Size of the source at the last read, in bytes; numbers of bytes and lines read.
    size = IntegerField(default=0)
    bytes_read = IntegerField(default=0)
    lines_read = IntegerField(default=0)
    is_gone = BooleanField(default=False)
    read_at_ms = IntegerField(default=0)
    last_error = TextField(default="")

    class Meta:
        indexes = ((("path", "part"), True), (("session",), False))


class BadLine(Table):
    """The position of a part of a source that could not be read."""

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
    #: Last commit on it according to git; "" if there is none.
    tip = TextField(default="")
    #: Last commit on it according to a transcript, possibly abbreviated; "" if there is none.
    reported_commit = TextField(default="")
    #: True if it is known to have had a commit of its own.
    has_commits = BooleanField(default=False)
    #: What the state was determined from: the name and commits of the default branch, and the state of the branch
    #: itself. As long as these are unchanged, git is not queried again.
    compared_with = TextField(default="")
    #: When a turn last took place on it.
    last_turn_ms = IntegerField(default=0)
    #: No longer used: earlier versions stored here when the state last changed.
    changed_at_ms = IntegerField(default=0)

    class Meta:
        primary_key = CompositeKey("project", "name")
        without_rowid = True
        constraints = (one_of("state", BranchState.values()),)


# -- Turns, their text, and the entries of the transcript that they came from.


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
    #: JSON, possibly compressed (``engram.models.engine.statement``).
    actions = TextField()
    #: JSON.
    extra = TextField()
    #: The revision from which memories were last made.
    extracted_revision = IntegerField(default=0)
    origin = TextField(default="")
    #: Incremented whenever the turn grows.
    revision = IntegerField(default=1)
    updated_at_ms = IntegerField()
    #: Uuids and locations of its entries (``engram.models.engine.statement``).
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
    """The turn that an entry of a transcript belongs to, by a hash of the entry's UUID."""

    key = IntegerField(primary_key=True)
    #: No foreign key, because rows of a deleted turn are deleted by key.
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


#: The condition that a text is a prompt, or a part of one.
IS_PROMPT = (TextBlock.role == Role.USER.value) & (TextBlock.message_id == "")

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


# -- What was shown to agents in sessions. No text is stored.


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
    prompt_key = TextField(default="")
    digest = TextField(default="")
    channel = TextField()
    #: Row id of the project; NULL if there is none.
    project_id = IntegerField(null=True)
    at_ms = IntegerField()
    #: A ``Verdict``. There is no constraint, so that a new value needs no migration.
    verdict = TextField()
    candidates = IntegerField(default=0)
    score = FloatField(null=True)
    floor = FloatField(null=True)
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


# -- Conditions that decide which sessions and projects are counted and listed, the same for all lists and figures.


def has_turns() -> ColumnBase:
    """Return the condition that a session has turns. Lists and counts leave out other sessions.

    Sessions without turns were forgotten, had no prompt, or came only with an imported memory.
    """
    turn: ColumnBase = fn.EXISTS(Turn.select(Turn.id).where(Turn.session == Session.id))
    return turn


def was_in_project(project_id: int | ColumnBase) -> ColumnBase:
    """Return the condition that a session began in a project or worked in it."""
    visits = Turn.select(Turn.session).where(Turn.project == project_id)
    was_in: ColumnBase = (Session.project == project_id) | Session.id.in_(visits)
    return was_in


def sessions_of_projects() -> Query:
    """Return each project with the number of its sessions with turns, including those with only some turns in it.

    Takes one pass over the tables; to ask for each project which sessions were in it takes projects × sessions.
    """
    owned = Session.select(Session.project.alias("project"), Session.id.alias("session")).where(has_turns())
    members = (owned | Turn.select(Turn.project, Turn.session)).alias("member")
    query = Select((members,), (members.c.project, fn.COUNT(SQL("*")).alias("number")))
    grouped: Query = query.group_by(members.c.project)
    return grouped


def has_sessions() -> ColumnBase:
    """Return the condition that a project has sessions with turns. Looks at each session once, not for each project."""
    began: ColumnBase = Project.id.in_(Session.select(Session.project).where(has_turns()))
    condition: ColumnBase = began | fn.EXISTS(Turn.select(Turn.id).where(Turn.project == Project.id))
    return condition
