"""The tables of memory.db as peewee models, with all their columns, indexes and constraints.

Use them qualified (``tables.Memory``), because the records used elsewhere have the same names. These records explain
the columns that have no comment.
"""

from __future__ import annotations

from peewee import Model

from engram.models.tables.declaring import Table, View, add_column_constraints, column_names
from engram.models.tables.hub_tables import HubMember, HubMemory, HubRule, HubServer, HubSetAside, HubSpace
from engram.models.tables.memory_tables import (
    Contradiction,
    Entity,
    Evidence,
    History,
    Memory,
    MemoryEntity,
    MemoryIndex,
    Run,
    Tombstone,
)
from engram.models.tables.search_tables import (
    CONTEXT_CHARS,
    Note,
    NoteChunk,
    NoteChunkProject,
    NoteIndex,
    NoteWords,
    Passage,
    PassageBeside,
    PassageContext,
    PassageIndex,
    PassageText,
    StandingFile,
    Vector,
    VectorModel,
)
from engram.models.tables.session_tables import (
    BadLine,
    Branch,
    Context,
    CopiedHistory,
    Entry,
    FailedCall,
    FormerName,
    Injection,
    KnownValue,
    ModelReading,
    Outcome,
    OutcomeCandidate,
    Project,
    ProjectFolder,
    ProjectNamed,
    PullRequest,
    Session,
    Shown,
    TextBlock,
    Transcript,
    Turn,
)
from engram.models.tables.work_tables import Lease, MetaValue, Pause, Spend, Stage, TaskRun, Work

#: Every table in the order of its declaration, so after those that it refers to.
ALL_TABLES: tuple[type[Table], ...] = tuple(table for table in Table.__subclasses__() if table is not View)
#: Every view; a view comes after those that it selects from.
ALL_VIEWS: tuple[type[View], ...] = tuple(View.__subclasses__())
#: Every full-text index.
ALL_TEXT_INDEXES: tuple[type[Model], ...] = (PassageIndex, MemoryIndex, NoteIndex)

for _table in ALL_TABLES:
    add_column_constraints(_table)
