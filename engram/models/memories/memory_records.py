"""The record of a memory and of its evidence, how to find memories, and which projects may see them."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import JOIN, SQL, ColumnBase, ModelSelect, Query, fn

from engram.enums import Importance, Kind, Scope, Source, Status, StoredEnum, Voice
from engram.models import tables
from engram.models.engine.statement import RecordReader, in_json_list, is_same, prepared, unpack_text, unpack_uuid
from engram.models.engine.transaction import Reader, asks_keyed, asks_record, asks_records
from engram.system.lazy_regex import lazy_regex
from engram.text.titles import headline, title_from

#: The id of a memory.
MEMORY_ID = lazy_regex(r"ep_[0-9a-f]{12}")
#: Maximum content length of a memory that Engram creates or merges, in characters. A saved memory may have more.
MAX_CONTENT_CHARACTERS = 4_000
#: Maximum length of any memory's summary, in characters.
MAX_SUMMARY_CHARACTERS = 500


#: Beginning of the names of the local extractor's versions, such as ``local-4``.
_LOCAL_PREFIX = "local-"
#: What people read instead of a project where a memory applies everywhere.
EVERY_PROJECT = "every project"


@dataclass(frozen=True, slots=True)
class Memory:
    #: ``ep_`` and 12 hex digits.
    episode_id: str
    kind: Kind
    #: One line, which bites show.
    summary: str
    #: The exact words that it rests on, redacted.
    content: str
    #: The agent's id of the session; "" if there is none.
    session_id: str = ""
    project_id: int | None = None
    #: Display name of the project; "" if there is none.
    project: str = ""
    scope: Scope = Scope.PROJECT
    facts: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    #: Questions that it answers, worded differently. Searches use them, but they are never shown in its place.
    questions: tuple[str, ...] = ()
    #: Title for lists, at most ten words; "" if none was written.
    title: str = ""
    importance: Importance = Importance.NORMAL
    source: Source = Source.AUTO
    voice: Voice = Voice.ASSISTANT
    status: Status = Status.ACTIVE
    confidence: float = 0.5
    quality: float = 0.0
    #: Why it is never injected; "" if it may be injected.
    suspect: str = ""
    is_pinned: bool = False
    #: True if ``engram feedback ID wrong`` lowered it.
    is_lowered: bool = False
    #: Factor for its score, which decreases with age.
    weight: float = 1.0
    #: Why it may no longer be valid; "" if there is no reason.
    stale_reason: str = ""
    valid_from_ms: int | None = None
    valid_to_ms: int | None = None
    superseded_by: str = ""
    #: What made it: an extractor, "manual", or the program it was imported from; "" if unknown.
    extractor: str = ""
    created_at_ms: int = 0
    accessed_at_ms: int | None = None
    access_count: int = 0
    confirmations: int = 0
    graduated_at_ms: int | None = None
    #: When Engram stored it; ``created_at_ms`` is when it was said.
    kept_at_ms: int = 0
    #: Identifies the proposal in its turn, so that a repetition is recognised; None for saved memories.
    slot: str | None = None
    stable_id: str = ""
    origin: str = ""
    revision: int = 1
    updated_at_ms: int = 0
    #: Row id; 0 if it is not stored yet.
    id: int = 0

    @property
    def is_current(self) -> bool:
        """True for a memory that is neither archived nor superseded."""
        return self.status.is_current

    @property
    def shown_title(self) -> str:
        """Its title, or the first clause of its summary."""
        return self.title or title_from(self.summary)

    @property
    def headline(self) -> tuple[str, str]:
        """Its line in a list: its title, and the text that follows."""
        return headline(self.summary, self.title)

    @property
    def place(self) -> str:
        """The name of its project, or where else it belongs, for people."""
        return self.project or (EVERY_PROJECT if self.scope is Scope.GLOBAL else "no project")

    @property
    def is_by_rules(self) -> bool:
        """True for a memory from any version of the local extractor; ``IS_BY_RULES`` is the same as SQL."""
        return self.source == Source.AUTO and is_local_extractor(self.extractor)

    @property
    def told_by(self) -> str:
        """Who said it, if it was somebody who took no part in the user's sessions; otherwise ""."""
        is_own = self.voice in (Voice.USER, Voice.CHOSEN, Voice.ASSISTANT)
        return self.origin or ("" if is_own else self.voice.label)

    @property
    def is_users_rule(self) -> bool:
        """True for a preference or decision in the user's own words."""
        return self.voice == Voice.USER and self.kind in (Kind.PREFERENCE, Kind.DECISION)

    @property
    def holds_from_ms(self) -> int:
        """When it became valid, in milliseconds since 1970; when it was said, unless another time was given."""
        return self.valid_from_ms or self.created_at_ms


@dataclass(frozen=True, slots=True)
class Evidence:
    """An entry that a memory rests on."""

    uuid: str
    session_id: str = ""
    #: Row id of the turn; None if unknown.
    turn_id: int | None = None


def new_memory_id() -> str:
    """Return a new id: ``ep_`` and 12 hex digits."""
    return f"ep_{secrets.token_hex(6)}"


def is_local_extractor(name: str) -> bool:
    """Return True for the name of any version of the local extractor, which works by rules."""
    return name.startswith(_LOCAL_PREFIX)


def is_memory_id(text: str) -> bool:
    return MEMORY_ID.fullmatch(text) is not None


#: What people and agents copy around an id: brackets, quotes and the sign after it.
_TYPED_ID = lazy_regex(r"""[\s\[(<`'"“‘«]*([\w-]+)[\s\])>`'"”’».,;:…]*""")
#: Ids of memories and quotations, and the digits of one alone, in any case; ids of sessions, which keep theirs.
_ID_SHAPES = lazy_regex(r"(?i)((?:ep|q)_[0-9a-f]*|[0-9a-f]{9,12})|[0-9a-f]{8}-[0-9a-f-]+")


def typed_id(text: str) -> str:
    """Return the id in a text that a person typed or copied, without brackets and quotes; any other text, stripped."""
    found = _TYPED_ID.fullmatch(text)
    shape = None if found is None else _ID_SHAPES.fullmatch(found[1])
    if shape is None:
        return text.strip()
    return shape[0] if shape[1] is None else shape[0].lower()


def slot_of(turn_key: str, kind: str, summary: str) -> str:
    """Return the slot of a proposal. The same proposal from the same turn always has the same slot."""
    plain = " ".join(summary.lower().split())
    return hashlib.sha256(f"{turn_key}\0{kind}\0{plain}".encode()).hexdigest()[:32]


#: Field of a memory → enum of its values.
ENUM_FIELDS: Mapping[str, type[StoredEnum]] = {
    "kind": Kind,
    "scope": Scope,
    "importance": Importance,
    "source": Source,
    "voice": Voice,
    "status": Status,
}


#: Fields of a memory that are lists of strings.
LIST_FIELDS = ("facts", "entities", "questions")


def read_texts(stored: object) -> tuple[str, ...]:
    """Read a stored JSON list of strings, leaving out malformed items, so that one bad row doesn't affect others."""
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
IS_GLOBAL = tables.Memory.scope == Scope.GLOBAL.value
IS_AUTO = tables.Memory.source == Source.AUTO.value
IS_BY_RULES = IS_AUTO & tables.Memory.extractor.startswith(_LOCAL_PREFIX)


def query_memories() -> ModelSelect[Any]:
    """Return a query for memories, to be narrowed by conditions on ``tables.Memory``, ``Session`` and ``Project``."""
    memory, session, project = tables.Memory, tables.Session, tables.Project
    return (
        MEMORIES.select()
        .join_from(memory, session, JOIN.LEFT_OUTER, on=memory.session == session.id)
        .join_from(memory, project, JOIN.LEFT_OUTER, on=memory.project == project.id)
    )


def select_memories(store: Reader, condition: ColumnBase, *order: ColumnBase, limit: int | None = None) -> list[Memory]:
    """Return the memories that match a condition, by default in the order of row ids. Only for ``engram.models``."""
    query = query_memories().where(condition).order_by(*(order or (tables.Memory.id,)))
    return store.fetch_records(MEMORIES, query if limit is None else query.limit(limit))


@asks_record(MEMORIES)
def find_memory(episode_id: str) -> Query:
    return query_memories().where(tables.Memory.episode_id == episode_id)


@asks_keyed(MEMORIES, "id")
def memories_by_row(row_ids: Sequence[int]) -> Query:
    """Return row id → memory, for those that exist."""
    return query_memories().where(in_json_list(tables.Memory.id, row_ids))


@asks_keyed(MEMORIES, "episode_id")
def memories_of_ids(episode_ids: Sequence[str]) -> Query:
    """Return id → memory, for those that exist."""
    return query_memories().where(in_json_list(tables.Memory.episode_id, episode_ids))


def memories_beginning_with(store: Reader, beginning: str, limit: int) -> list[Memory]:
    """Return at most ``limit`` memories whose ids begin with the given ``ep_`` and hexadecimal digits."""
    episode_id = tables.Memory.episode_id
    return select_memories(store, episode_id.between(beginning, beginning + "g"), episode_id, limit=limit)


def all_memories(store: Reader) -> list[Memory]:
    """Return every memory, oldest first."""
    return select_memories(store, SQL("1"))


@asks_records(MEMORIES)
def memories_of_session(session_id: str) -> Query:
    """Return the memories that came from a session, oldest first."""
    return query_memories().where(tables.Session.session_id == session_id).order_by(tables.Memory.id)


@asks_records(MEMORIES)
def memories_of_turns(turn_ids: Sequence[int]) -> Query:
    """Return the memories that rest on any of these turns, oldest first."""
    evidence = tables.Evidence
    resting = evidence.select(evidence.memory).where(in_json_list(evidence.turn_id, turn_ids))
    return query_memories().where(tables.Memory.id.in_(resting)).order_by(tables.Memory.id)


@asks_records(MEMORIES)
def memories_superseded_by(episode_id: str) -> Query:
    """Return the memories that were replaced by a memory or merged into it."""
    # The second condition lets SQLite use the partial index.
    memory = tables.Memory
    condition = (memory.superseded_by == episode_id) & (memory.superseded_by != SQL("''"))
    return query_memories().where(condition).order_by(memory.id)


@asks_records(MEMORIES)
def memories_of_summary(project_id: int | None, kind: str, summary: str) -> Query:
    """Return the memories of a kind in a project, or without a project, that have exactly this summary."""
    memory = tables.Memory
    # The first two conditions use an index, so that a save reads few memories while it holds the write lock.
    condition = is_same(memory.project, project_id) & (memory.kind == kind) & (memory.summary == summary)
    return query_memories().where(condition).order_by(memory.id)


@asks_record(MEMORIES)
def memory_by_slot(slot: str) -> Query:
    return query_memories().where(tables.Memory.slot == slot)


def evidence_by_row(store: Reader, row_ids: Sequence[int]) -> dict[int, list[Evidence]]:
    """Return row id → evidence in order, for the memories that have evidence."""
    return store.fetch_records_by(_EVIDENCE, _evidence_by_rows(row_ids))


@asks_records(_EVIDENCE)
def evidence_of(row_id: int) -> Query:
    """Return a memory's evidence in order."""
    return _EVIDENCE.select().where(tables.Evidence.memory == row_id).order_by(tables.Evidence.seq)


@prepared
def _evidence_by_rows(row_ids: Sequence[int]) -> Query:
    evidence = tables.Evidence
    query = _EVIDENCE.select_by(evidence.memory).where(in_json_list(evidence.memory, row_ids))
    return query.order_by(evidence.memory, evidence.seq)


# -- SQL conditions that several queries share, with values from the enums.

#: The conditions apply to ``e``, a row of the memory table.
GLOBAL_SQL = f"e.scope = '{Scope.GLOBAL}'"
IS_OF_PROJECT = f"e.scope = '{Scope.PROJECT}'"
IS_MANUAL = f"e.source = '{Source.MANUAL}'"


# -- Which projects may see a memory, and which parts of it.


def may_see(memory: Memory, project_id: int) -> bool:
    """Return True if a project may see a memory, which is then global or the project's own."""
    return memory.scope == Scope.GLOBAL or memory.project_id == project_id


def may_stand_for(newer: Memory, older: Memory) -> bool:
    """Return True if a memory may replace another, which requires that it is global or belongs to the same project."""
    return newer.scope == Scope.GLOBAL or older.project_id == newer.project_id


def may_see_context(memory: Memory, project_id: int) -> bool:
    """Return True if a project may also see what a memory rests on: its content, facts and evidence.

    In other projects, a global memory shows only its summary, and nothing about the project that it came from.
    """
    return memory.project_id in (None, project_id) or (memory.scope == Scope.GLOBAL and memory.source == Source.MANUAL)


def memories_resting_on_turns(store: Reader, turn_ids: Sequence[int]) -> list[tuple[Memory, frozenset[str]]]:
    """Return the memories that rest on entries of these turns, newest first, each with the ids of its entries."""
    memories = memories_of_turns(store, turn_ids)
    evidence = evidence_by_row(store, [memory.id for memory in memories])
    return [
        (memory, frozenset(entry.uuid for entry in evidence[memory.id]))
        for memory in sorted(memories, key=lambda memory: -memory.created_at_ms)
    ]
