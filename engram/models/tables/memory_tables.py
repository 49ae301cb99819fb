"""Tables of memories with their evidence, entities, history and contradictions, of tombstones, and of runs."""

from __future__ import annotations

from typing import ClassVar

from peewee import (
    SQL,
    AutoField,
    BlobField,
    BooleanField,
    ColumnBase,
    CompositeKey,
    FloatField,
    IntegerField,
    TextField,
    fn,
)
from playhouse.sqlite_ext import AutoIncrementField, FTS5Model, SearchField

from engram.enums import CURRENT_STATUSES, Actor, Importance, Kind, Scope, Source, Status, Voice
from engram.models.tables.declaring import Table, one_of, reference
from engram.models.tables.search_tables import TOKENIZER
from engram.models.tables.session_tables import Project, Session, Turn


class Memory(Table):
    id = AutoIncrementField()
    episode_id = TextField(unique=True)
    #: Identifies a proposal, so that one that is repeated for the same turn is recognised; NULL for saved memories.
    slot = TextField(unique=True, null=True)
    kind = TextField()
    session = reference(Session, "session_ref", null=True)
    project = reference(Project, "project_id", null=True)
    scope = TextField()
    summary = TextField()
    #: Text, possibly compressed (``engram.models.engine.statement``); "" if ``packed_content`` contains it.
    content = TextField()
    #: The content of an old memory, compressed and no longer in the full-text index.
    packed_content = BlobField(null=True)
    #: JSON lists of strings.
    facts = TextField(default="[]")
    entities = TextField(default="[]")
    importance = TextField()
    source = TextField()
    voice = TextField(default="assistant")
    status = TextField()
    confidence = FloatField()
    quality = FloatField(default=0)
    suspect = TextField(default="")
    is_pinned = BooleanField(default=False)
    is_lowered = BooleanField(default=False)
    weight = FloatField(default=1)
    stale_reason = TextField(default="")
    valid_from_ms = IntegerField(null=True)
    valid_to_ms = IntegerField(null=True)
    #: The ``episode_id`` of the memory that replaced it; "" if there is none.
    superseded_by = TextField(default="")
    extractor = TextField()
    created_at_ms = IntegerField()
    accessed_at_ms = IntegerField(null=True)
    access_count = IntegerField(default=0)
    confirmations = IntegerField(default=0)
    graduated_at_ms = IntegerField(null=True)
    kept_at_ms = IntegerField()
    stable_id = TextField(unique=True)
    origin = TextField(default="")
    revision = IntegerField(default=1)
    updated_at_ms = IntegerField()
    #: Not yet compared with the other memories, because earlier turns must be read first.
    is_unjoined = BooleanField(default=False)
    #: JSON list of the questions that it answers.
    questions = TextField(default="[]")
    title = TextField(default="")

    class Meta:
        # The stored table and its columns keep the original word for a memory.
        table_name = "episode"
        indexes = (
            (("project", "status", "created_at_ms"), False),
            (("session",), False),
            (("updated_at_ms",), False),
            (("created_at_ms", "id"), False),
        )
        constraints = (
            one_of("kind", Kind.values()),
            one_of("scope", Scope.values()),
            one_of("importance", Importance.values()),
            one_of("source", Source.values()),
            one_of("voice", Voice.values()),
            one_of("status", Status.values()),
        )


#: The condition that a memory is neither archived nor superseded.
IS_CURRENT = Memory.status.in_([status.value for status in CURRENT_STATUSES])
#: The condition for suspect memories on which the user has to decide. The literal lets SQLite use the partial index.
WAITS_AS_SUSPECT = (Memory.suspect != SQL("''")) & IS_CURRENT & (Memory.is_lowered == 0)

#: Covers every column by which lists of memories are filtered, counted and ordered.
SORT_INDEX = "episode_sorts"
_SORTS = ("project", "kind", "status", "is_pinned", "is_lowered", "suspect", "created_at_ms")
Memory.add_index(Memory.index(*(getattr(Memory, name) for name in _SORTS), name=SORT_INDEX))
#: Finds the memories that a deleted memory had replaced.
Memory.add_index(Memory.index(Memory.superseded_by, name="episode_superseded").where(Memory.superseded_by != ""))
Memory.add_index(Memory.index(Memory.created_at_ms, name="episode_suspect").where(Memory.suspect != ""))
Memory.add_index(Memory.index(Memory.created_at_ms, name="episode_unjoined").where(Memory.is_unjoined == 1))


class Evidence(Table):
    """An entry of a transcript that a memory rests on."""

    memory = reference(Memory, "episode_ref", cascade=True)
    seq = IntegerField()
    uuid = BlobField(null=True)
    #: No foreign key, because evidence may be stored before its turn; it is linked once the turn is stored.
    turn_id = IntegerField(null=True)
    session_id = TextField()

    class Meta:
        primary_key = CompositeKey("memory", "seq")
        without_rowid = True
        indexes = ((("turn_id",), False), (("session_id",), False))


class Entity(Table):
    """A name that memories mention, such as a file, a tool or a person."""

    id = AutoField()
    kind = TextField()
    name = TextField()

    class Meta:
        indexes = ((("kind", "name"), True),)


class MemoryEntity(Table):
    """A mention of a name in a memory."""

    entity = reference(Entity, "entity_id")
    memory = reference(Memory, "episode_ref", cascade=True)

    class Meta:
        table_name = "episode_entity"
        primary_key = CompositeKey("entity", "memory")
        without_rowid = True
        indexes = ((("memory",), False),)


class MemoryIndex(FTS5Model):
    """The full-text index of memories. It stores no text, so removing a memory requires the words that were indexed."""

    summary = SearchField()
    content = SearchField()
    entities = SearchField()

    class Meta:
        table_name = "episode_fts"
        # Indexing prefixes makes the index 50 % larger, but finds a word as soon as two letters are typed.
        options: ClassVar = {"content": "", "prefix": "2", "tokenize": TOKENIZER}


class History(Table):
    """A change of a memory: what, when, why and by whom, with the fields before and after."""

    id = AutoIncrementField()
    #: The text id rather than the row id, because the history can outlive the row.
    episode_id = TextField()
    at_ms = IntegerField()
    action = TextField()
    reason = TextField()
    #: No foreign key, because a run that changed nothing is deleted.
    run_id = IntegerField(null=True)
    #: JSON objects.
    before = TextField()
    after = TextField()
    actor = TextField(default=Actor.TIDYING.value)
    #: The step that this one undid; for a redo, the undo that it reversed.
    undoes = IntegerField(null=True)

    class Meta:
        indexes = ((("episode_id",), False), (("run_id",), False))
        constraints = (one_of("actor", Actor.values()),)


class Contradiction(Table):
    """Two current memories that contradict each other. At least one is the user's, so the user has to decide."""

    id = AutoIncrementField()
    older_id = TextField()
    newer_id = TextField()
    reason = TextField()
    decision = TextField(default="")
    made_at_ms = IntegerField()
    decided_at_ms = IntegerField(null=True)
    run_id = IntegerField(null=True)

    class Meta:
        indexes = ((("older_id", "newer_id"), True),)


# -- Tombstones: ids and hashes, never text, of forgotten and purged items.


class Tombstone(Table):
    """Something forgotten that must not come back; for the kinds, see ``engram.models.memories.tombstones``."""

    kind = TextField()
    key = BlobField()
    at_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("kind", "key")
        without_rowid = True


# -- Runs: consolidations, and extractions, saves, decisions and purges that changed older memories.


class Run(Table):
    """A run. Its changes can be shown and undone; a consolidation can also be resumed."""

    id = AutoIncrementField()
    kind = TextField()
    started_at_ms = IntegerField()
    ended_at_ms = IntegerField(null=True)
    state = TextField()
    position = TextField(default="")
    #: JSON.
    report = TextField(default="{}")

    class Meta:
        constraints = (one_of("state", ("running", "done", "undone")),)


def holds_anything() -> ColumnBase:
    """Return the condition that a project contains a turn or a memory. Lists leave out other projects.

    Projects that contain nothing were forgotten, or are folders in which a session only began.
    """
    held = (table.select(table.id).where(table.project == Project.id) for table in (Turn, Memory))
    turns, memories = map(fn.EXISTS, held)
    condition: ColumnBase = turns | memories
    return condition
