"""Memories with their evidence, text index and entities: the record, and who may see it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import JOIN, SQL, ColumnBase, ModelSelect, Query, fn

from engram.enums import CURRENT_STATUSES, Importance, Kind, Scope, Source, Status, StoredEnum, Voice
from engram.models import tables
from engram.models.engine.packed import unpack_text, unpack_uuid
from engram.models.engine.statement import RecordReader, in_json_list, prepared
from engram.models.engine.transaction import Reader, asks_record, asks_records
from engram.text.titles import title_from

# -- Memories: kept memories with their evidence, text index, entities and history.

#: Longest content of a memory that Engram makes or merges, in characters. What somebody saves may be longer.
MAX_CONTENT_CHARACTERS = 4_000
#: Longest summary, in characters, also of a merged or saved memory.
MAX_SUMMARY_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Memory:
    """A kept memory."""

    #: ``ep_`` and 12 hex digits.
    episode_id: str
    kind: Kind
    #: One line; what a bite shows.
    summary: str
    #: Word for word what it rests on, redacted.
    content: str
    #: Claude Code's session; "" for one without.
    session_id: str = ""
    project_id: int | None = None
    #: Display name of the project; "" for none.
    project: str = ""
    scope: Scope = Scope.PROJECT
    facts: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    #: Questions that it answers, in other words than its own: it is found by them, and they are never shown for it.
    questions: tuple[str, ...] = ()
    #: What a list shows of it, in at most ten words; "" if nobody wrote one.
    title: str = ""
    importance: Importance = Importance.NORMAL
    source: Source = Source.AUTO
    voice: Voice = Voice.ASSISTANT
    status: Status = Status.ACTIVE
    confidence: float = 0.5
    quality: float = 0.0
    #: Why it is never injected; "" where it may be.
    suspect: str = ""
    is_pinned: bool = False
    #: Lowered by ``engram feedback ID wrong``.
    is_lowered: bool = False
    #: Multiplies its score; falls with age.
    weight: float = 1.0
    #: Why it may no longer hold; "" where nothing says so.
    stale_reason: str = ""
    valid_from_ms: int | None = None
    valid_to_ms: int | None = None
    superseded_by: str = ""
    extractor: str = "local"
    created_at_ms: int = 0
    accessed_at_ms: int | None = None
    access_count: int = 0
    confirmations: int = 0
    graduated_at_ms: int | None = None
    #: When Engram kept it; ``created_at_ms`` is when it was said.
    kept_at_ms: int = 0
    #: Tells the same proposal of the same turn again; None for saved ones.
    slot: str | None = None
    stable_id: str = ""
    origin: str = ""
    revision: int = 1
    updated_at_ms: int = 0
    #: Row id; 0 where it is not stored yet.
    id: int = 0

    @property
    def is_current(self) -> bool:
        """True for a memory that was neither archived nor superseded."""
        return self.status.is_current

    @property
    def shown_title(self) -> str:
        """Its title, or the first clause of its summary."""
        return self.title or title_from(self.summary)

    @property
    def is_by_rules(self) -> bool:
        """True for a memory of the local extractor, whose name ends with its version: ``local-2``."""
        return self.source == Source.AUTO and self.extractor.startswith("local-")

    @property
    def is_users_rule(self) -> bool:
        """True for a preference or decision in the user's own words."""
        return self.voice == Voice.USER and self.kind in (Kind.PREFERENCE, Kind.DECISION)

    @property
    def holds_from_ms(self) -> int:
        """Since when it holds: since it was said, unless another time was given, in milliseconds since 1970."""
        return self.valid_from_ms or self.created_at_ms


@dataclass(frozen=True, slots=True)
class Evidence:
    """An entry that a memory rests on."""

    uuid: str
    session_id: str = ""
    #: Row id of the turn; None where it is not known.
    turn_id: int | None = None


def new_memory_id() -> str:
    """A new id, ``ep_`` and 12 hex digits."""
    return f"ep_{secrets.token_hex(6)}"


def is_memory_id(text: str) -> bool:
    """True for a text of the form of a memory id."""
    return len(text) == 15 and text.startswith("ep_") and all(c in "0123456789abcdef" for c in text[3:])


def slot_of(turn_key: str, kind: str, summary: str) -> str:
    """The slot of a proposal: the same proposal of the same turn has the same slot."""
    plain = " ".join(summary.lower().split())
    return hashlib.sha256(f"{turn_key}\0{kind}\0{plain}".encode()).hexdigest()[:32]


#: Field of a memory → its enum.
ENUM_FIELDS: Mapping[str, type[StoredEnum]] = {
    "kind": Kind,
    "scope": Scope,
    "importance": Importance,
    "source": Source,
    "voice": Voice,
    "status": Status,
}


#: Fields of a memory that are lists of texts.
LIST_FIELDS = ("facts", "entities", "questions")


def read_texts(stored: object) -> tuple[str, ...]:
    """Read a stored JSON list of texts; what is malformed is left out, so that one bad row costs no other."""
    try:
        values = json.loads(stored) if isinstance(stored, str | bytes) else None
    except (ValueError, RecursionError):
        return ()
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()


MEMORIES = RecordReader(
    Memory,
    tables.Memory,
    expressions={
        "session_id": fn.coalesce(tables.Session.session_id, ""),
        "project": fn.coalesce(tables.Project.name, ""),
        "content": fn.coalesce(tables.Memory.packed_content, tables.Memory.content),
    },
    readers={
        "content": unpack_text,
        **dict.fromkeys(LIST_FIELDS, read_texts),
        **{name: enum.from_stored for name, enum in ENUM_FIELDS.items()},
    },
    left_out=("session_ref", "packed_content", "is_unjoined"),
)
_EVIDENCE = RecordReader(Evidence, tables.Evidence, readers={"uuid": unpack_uuid}, left_out=("episode_ref", "seq"))
#: Holds for memories that are current.
IS_CURRENT = tables.Memory.status.in_([status.value for status in CURRENT_STATUSES])
#: Holds for memories of all projects.
IS_GLOBAL = tables.Memory.scope == Scope.GLOBAL.value


def query_memories() -> ModelSelect[Any]:
    """Return a query for memories, to be narrowed by conditions over ``tables.Memory``, ``Session`` and
    ``Project``.
    """
    memory, session, project = tables.Memory, tables.Session, tables.Project
    return (
        MEMORIES.select()
        .join_from(memory, session, JOIN.LEFT_OUTER, on=memory.session == session.id)
        .join_from(memory, project, JOIN.LEFT_OUTER, on=memory.project == project.id)
    )


def select_memories(store: Reader, condition: ColumnBase, *order: ColumnBase, limit: int | None = None) -> list[Memory]:
    """Return the memories of a condition, by row id where no order is given. For use inside ``engram.models``."""
    query = query_memories().where(condition).order_by(*(order or (tables.Memory.id,)))
    return store.fetch_records(MEMORIES, query if limit is None else query.limit(limit))


@asks_record(MEMORIES)
def find_memory(episode_id: str) -> Query:
    """Return the memory of an id."""
    return query_memories().where(tables.Memory.episode_id == episode_id)


def memories_by_row(store: Reader, row_ids: Sequence[int]) -> dict[int, Memory]:
    """Return row id → memory, for those that exist."""
    found = store.fetch_records(MEMORIES, _by_rows(json.dumps([int(row_id) for row_id in row_ids])))
    return {memory.id: memory for memory in found}


@prepared
def _by_rows(row_ids: str) -> Query:
    return query_memories().where(in_json_list(tables.Memory.id, row_ids))


def memories_of_ids(store: Reader, episode_ids: Sequence[str]) -> dict[str, Memory]:
    """Return id → memory, for those that exist."""
    found = store.fetch_records(MEMORIES, _by_ids(json.dumps(list(episode_ids))))
    return {memory.episode_id: memory for memory in found}


@prepared
def _by_ids(episode_ids: str) -> Query:
    return query_memories().where(in_json_list(tables.Memory.episode_id, episode_ids))


def memories_beginning_with(store: Reader, beginning: str, limit: int) -> list[Memory]:
    """Return the memories whose id begins with a text of the form ``ep_`` and hexadecimal digits, at most ``limit``."""
    episode_id = tables.Memory.episode_id
    return select_memories(store, episode_id.between(beginning, beginning + "g"), episode_id, limit=limit)


def all_memories(store: Reader) -> list[Memory]:
    """Return every memory, the oldest first."""
    return store.fetch_records(MEMORIES, query_memories().order_by(tables.Memory.id))


@asks_records(MEMORIES)
def memories_of_session(session_id: str) -> Query:
    """Return the memories that came from a session, the oldest first."""
    return query_memories().where(tables.Session.session_id == session_id).order_by(tables.Memory.id)


@asks_records(MEMORIES)
def memories_of_turn(turn_id: int) -> Query:
    """Return the memories that rest on a turn."""
    resting = tables.Evidence.select(tables.Evidence.memory).where(tables.Evidence.turn_id == turn_id)
    return query_memories().where(tables.Memory.id.in_(resting)).order_by(tables.Memory.id)


@asks_records(MEMORIES)
def memories_superseded_by(episode_id: str) -> Query:
    """Return the memories that name this one as what replaced them, or took them up."""
    # The second condition lets SQLite use the partial index.
    memory = tables.Memory
    condition = (memory.superseded_by == episode_id) & (memory.superseded_by != SQL("''"))
    return query_memories().where(condition).order_by(memory.id)


@asks_record(MEMORIES)
def memory_by_slot(slot: str) -> Query:
    """Return the memory of a slot."""
    return query_memories().where(tables.Memory.slot == slot)


def evidence_by_row(store: Reader, row_ids: Sequence[int]) -> dict[int, list[Evidence]]:
    """Return row id → what the memory rests on, in order; for those that rest on anything."""
    evidence: dict[int, list[Evidence]] = {}
    for row in store.fetch(_evidence_by_rows(json.dumps(list(row_ids)))):
        entry = Evidence(uuid=unpack_uuid(row.uuid), session_id=row.session_id, turn_id=row.turn_id)
        evidence.setdefault(row.episode_ref, []).append(entry)
    return evidence


@asks_records(_EVIDENCE)
def evidence_of(row_id: int) -> Query:
    """Return what a memory rests on, in order."""
    return _EVIDENCE.select().where(tables.Evidence.memory == row_id).order_by(tables.Evidence.seq)


@prepared
def _evidence_by_rows(row_ids: str) -> Query:
    evidence = tables.Evidence
    query = evidence.select(evidence.memory, evidence.uuid, evidence.session_id, evidence.turn_id)
    return query.where(in_json_list(evidence.memory, row_ids)).order_by(evidence.memory, evidence.seq)


# -- SQL conditions on memories that several queries share; their values come from the enums.

#: All conditions are over ``e``, a row of the table memory.
GLOBAL_SQL = f"e.scope = '{Scope.GLOBAL}'"
IS_OF_PROJECT = f"e.scope = '{Scope.PROJECT}'"
IS_MANUAL = f"e.source = '{Source.MANUAL}'"


# -- Which project may see a memory, and what of it.


def may_see(memory: Memory, project_id: int) -> bool:
    """True where a project may see a memory: it is global, or the project's own."""
    return memory.scope == Scope.GLOBAL or memory.project_id == project_id


def may_stand_for(newer: Memory, older: Memory) -> bool:
    """True where a memory may replace another: it holds everywhere, or was made in the same project."""
    return newer.scope == Scope.GLOBAL or older.project_id == newer.project_id


def may_see_context(memory: Memory, project_id: int) -> bool:
    """True where a project may also see what a memory was made from: its content, facts and evidence.

    A global memory that was made in another project tells its one line there, and nothing of that project.
    """
    return memory.project_id in (None, project_id) or (memory.scope == Scope.GLOBAL and memory.source == Source.MANUAL)
