"""The tables of memory.db as peewee models: their columns, indexes and constraints are declared here and nowhere else.

Use them qualified (``tables.Episode``): the records that the rest of the program gets have the same names.
"""

from __future__ import annotations

from peewee import Model

from engram.models.tables.branches import Branch
from engram.models.tables.declaring import Table, View, add_column_constraints, column_names
from engram.models.tables.episodes import (
    Contradiction,
    Entity,
    Episode,
    EpisodeEntity,
    EpisodeIndex,
    Evidence,
    History,
)
from engram.models.tables.failures import FailedCall
from engram.models.tables.hub import HubMember, HubMemory, HubRule, HubServer, HubSetAside, HubSpace
from engram.models.tables.injections import Injection, Shown
from engram.models.tables.meta import MetaValue
from engram.models.tables.notes import Note, NoteChunk, NoteChunkProject, NoteIndex, NoteWords, StandingFile
from engram.models.tables.outcomes import Outcome, OutcomeCandidate
from engram.models.tables.passages import (
    CONTEXT_CHARS,
    Passage,
    PassageBeside,
    PassageContext,
    PassageIndex,
    PassageText,
)
from engram.models.tables.projects import FormerName, Project, ProjectFolder, ProjectNamed
from engram.models.tables.runs import Run
from engram.models.tables.sessions import Context, CopiedHistory, KnownValue, PullRequest, Session
from engram.models.tables.spend import Spend
from engram.models.tables.tombstones import Tombstone
from engram.models.tables.transcripts import BadLine, Transcript
from engram.models.tables.turns import Entry, ModelReading, TextBlock, Turn
from engram.models.tables.vectors import Vector, VectorModel
from engram.models.tables.work import Lease, Pause, Stage, TaskRun, Work

__all__ = [
    "ALL_TABLES",
    "ALL_TEXT_INDEXES",
    "ALL_VIEWS",
    "CONTEXT_CHARS",
    "BadLine",
    "Branch",
    "Context",
    "Contradiction",
    "CopiedHistory",
    "Entity",
    "Entry",
    "Episode",
    "EpisodeEntity",
    "EpisodeIndex",
    "Evidence",
    "FailedCall",
    "FormerName",
    "History",
    "HubMember",
    "HubMemory",
    "HubRule",
    "HubServer",
    "HubSetAside",
    "HubSpace",
    "Injection",
    "KnownValue",
    "Lease",
    "MetaValue",
    "ModelReading",
    "Note",
    "NoteChunk",
    "NoteChunkProject",
    "NoteIndex",
    "NoteWords",
    "Outcome",
    "OutcomeCandidate",
    "Passage",
    "PassageBeside",
    "PassageContext",
    "PassageIndex",
    "PassageText",
    "Pause",
    "Project",
    "ProjectFolder",
    "ProjectNamed",
    "PullRequest",
    "Run",
    "Session",
    "Shown",
    "Spend",
    "Stage",
    "StandingFile",
    "Table",
    "TaskRun",
    "TextBlock",
    "Tombstone",
    "Transcript",
    "Turn",
    "Vector",
    "VectorModel",
    "View",
    "Work",
    "column_names",
]

#: Every table with rows of its own, those that others refer to first.
ALL_TABLES: tuple[type[Table], ...] = (
    MetaValue,
    Project,
    ProjectFolder,
    FormerName,
    Branch,
    Session,
    PullRequest,
    KnownValue,
    Context,
    CopiedHistory,
    Transcript,
    BadLine,
    Turn,
    Entry,
    TextBlock,
    FailedCall,
    ModelReading,
    Passage,
    Episode,
    Evidence,
    Entity,
    EpisodeEntity,
    History,
    Contradiction,
    VectorModel,
    Vector,
    Note,
    NoteChunk,
    StandingFile,
    Injection,
    Shown,
    Outcome,
    OutcomeCandidate,
    Work,
    TaskRun,
    Lease,
    Stage,
    Pause,
    Tombstone,
    Run,
    Spend,
    HubServer,
    HubSpace,
    HubMemory,
    HubSetAside,
    HubMember,
    HubRule,
)
#: Every view, those that others select from first.
ALL_VIEWS: tuple[type[View], ...] = (
    PassageText,
    PassageBeside,
    PassageContext,
    ProjectNamed,
    NoteChunkProject,
    NoteWords,
)
#: Every full-text index.
ALL_TEXT_INDEXES: tuple[type[Model], ...] = (PassageIndex, EpisodeIndex, NoteIndex)

for _table in ALL_TABLES:
    add_column_constraints(_table)
