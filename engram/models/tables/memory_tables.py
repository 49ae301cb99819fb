"""Tables of memories with their evidence, entities, history and contradictions, of runs, and of what was forgotten."""

from __future__ import annotations

from typing import ClassVar

from peewee import AutoField, BlobField, BooleanField, CompositeKey, FloatField, IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField, FTS5Model, SearchField

from engram.enums import Actor, Importance, Kind, Scope, Source, Status, Voice
from engram.models.tables.declaring import Table, one_of, reference
from engram.models.tables.passage_tables import TOKENIZER
from engram.models.tables.project_tables import Project
from engram.models.tables.session_tables import Session


class Memory(Table):
    id = AutoIncrementField()
    episode_id = TextField(unique=True)
    #: Recognises the same proposal of the same turn when it is made again; NULL for saved memories.
    slot = TextField(unique=True, null=True)
    kind = TextField()
    session = reference(Session, "session_ref", null=True)
    project = reference(Project, "project_id", null=True)
    scope = TextField()
    summary = TextField()
    #: The text, or the same compressed (``engram.models.engine.packed``); "" if ``packed_content`` holds it.
    content = TextField()
    #: The content of an old memory, compressed and no longer in the full-text index.
    packed_content = BlobField(null=True)
    #: JSON lists of texts.
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
    #: The ``episode_id`` of the memory that replaced it; "" for none.
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
    #: Kept, but not compared with the others yet: the comparison waits for what was said before it.
    is_unjoined = BooleanField(default=False)
    #: JSON list of the questions that it answers.
    questions = TextField(default="[]")
    #: What a list shows of it; "" for the first clause of its summary.
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


#: Holds everything by which lists of memories are narrowed, counted and ordered.
SORT_INDEX = "episode_sorts"
_SORTS = ("project", "kind", "status", "is_pinned", "is_lowered", "suspect", "created_at_ms")
Memory.add_index(Memory.index(*(getattr(Memory, name) for name in _SORTS), name=SORT_INDEX))
#: Finds what a deleted memory had replaced.
Memory.add_index(Memory.index(Memory.superseded_by, name="episode_superseded").where(Memory.superseded_by != ""))
Memory.add_index(Memory.index(Memory.created_at_ms, name="episode_suspect").where(Memory.suspect != ""))
Memory.add_index(Memory.index(Memory.created_at_ms, name="episode_unjoined").where(Memory.is_unjoined == 1))


class Evidence(Table):
    """An entry of a transcript that a memory rests on."""

    memory = reference(Memory, "episode_ref", cascade=True)
    seq = IntegerField()
    uuid = BlobField(null=True)
    #: No foreign key: the evidence of a saved memory outlives the turn.
    turn_id = IntegerField(null=True)
    session_id = TextField()

    class Meta:
        primary_key = CompositeKey("memory", "seq")
        without_rowid = True
        indexes = ((("turn_id",), False), (("session_id",), False))


class Entity(Table):
    """A name that memories speak of: a file, a tool, a person."""

    id = AutoField()
    kind = TextField()
    name = TextField()

    class Meta:
        indexes = ((("kind", "name"), True),)


class MemoryEntity(Table):
    """Which memory speaks of which name."""

    entity = reference(Entity, "entity_id")
    memory = reference(Memory, "episode_ref", cascade=True)

    class Meta:
        table_name = "episode_entity"
        primary_key = CompositeKey("entity", "memory")
        without_rowid = True
        indexes = ((("memory",), False),)


class MemoryIndex(FTS5Model):
    """The full-text index of memories. It holds no text: a memory is removed by the words it was indexed with."""

    summary = SearchField()
    content = SearchField()
    entities = SearchField()

    class Meta:
        table_name = "episode_fts"
        # Indexing beginnings of words makes the index larger by half; a word is found once two letters are typed.
        options: ClassVar = {"content": "", "prefix": "2", "tokenize": TOKENIZER}


class History(Table):
    """One change of a memory: what, when, why and by whom, with the fields as they were before and after."""

    id = AutoIncrementField()
    #: The text id, so that the history of a memory can be kept apart from its row.
    episode_id = TextField()
    at_ms = IntegerField()
    action = TextField()
    reason = TextField()
    #: No foreign key: a run that changed nothing in the end is deleted.
    run_id = IntegerField(null=True)
    #: JSON objects.
    before = TextField()
    after = TextField()
    actor = TextField(default=Actor.TIDYING.value)
    #: The step that this one undid; for a redo, the undo that it took back.
    undoes = IntegerField(null=True)

    class Meta:
        indexes = ((("episode_id",), False), (("run_id",), False))
        constraints = (one_of("actor", Actor.values()),)


class Contradiction(Table):
    """Two current memories that cannot both hold, at least one of them a person's; a person decides."""

    id = AutoIncrementField()
    older_id = TextField()
    newer_id = TextField()
    reason = TextField()
    #: "" while it is open, the id of the memory that was kept, or "both".
    decision = TextField(default="")
    made_at_ms = IntegerField()
    decided_at_ms = IntegerField(null=True)
    run_id = IntegerField(null=True)

    class Meta:
        indexes = ((("older_id", "newer_id"), True),)


# -- Tombstones: what was forgotten or purged. They hold ids and hashes, never text.


class Tombstone(Table):
    """Something that was forgotten, so that nothing brings it back
    (``engram.models.memories.tombstones.TombstoneKind``)."""

    kind = TextField()
    key = BlobField()
    at_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("kind", "key")
        without_rowid = True


# -- Runs: consolidations, and what one extraction, save, decision or purge changed in older memories.


class Run(Table):
    """A run, so that what it changed can be shown and undone, and a consolidation resumed."""

    id = AutoIncrementField()
    kind = TextField()
    started_at_ms = IntegerField()
    ended_at_ms = IntegerField(null=True)
    state = TextField()
    #: Name of the step that comes next; "" at the start.
    position = TextField(default="")
    #: JSON.
    report = TextField(default="{}")

    class Meta:
        constraints = (one_of("state", ("running", "done", "undone")),)
