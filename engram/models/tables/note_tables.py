"""Tables of notes: Markdown files, split into chunks that are searched."""

from __future__ import annotations

from typing import ClassVar

from peewee import AutoField, BlobField, IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField, FTS5Model, SearchField

from engram.models.tables.declaring import Table, View, in_pairs_sql, one_of, reference
from engram.models.tables.passage_tables import TOKENIZER
from engram.models.tables.project_tables import Project


class Note(Table):
    """A note file as it was indexed."""

    id = AutoField()
    stable_id = TextField(unique=True)
    #: Name that search prints and ``memory_get`` accepts.
    source = TextField(unique=True)
    path = TextField(unique=True)
    size = IntegerField()
    changed_at_ns = IntegerField()
    digest = BlobField()
    origin = TextField(default="")
    revision = IntegerField(default=1)
    updated_at_ms = IntegerField()


class StandingFile(Table):
    """A file of the user's that an agent reads at its start (CLAUDE.md, rules, auto memory), as last read."""

    id = AutoField()
    path = TextField(unique=True)
    #: The project that it belongs to; NULL if it applies everywhere.
    project = reference(Project, "project_id", null=True, cascade=True)
    #: Name by which memories refer to it, such as ``CLAUDE.md``.
    name = TextField()
    size = IntegerField()
    changed_at_ns = IntegerField()
    #: Redacted.
    text = TextField()
    #: JSON list of hashes of forgotten lines, which are never stored although the file contains them.
    forgotten = TextField(default="[]")
    read_at_ms = IntegerField()

    class Meta:
        indexes = ((("project",), False),)


class NoteChunk(Table):
    """A part of a note, from one heading to the next."""

    id = AutoIncrementField()
    note = reference(Note, "note_id", cascade=True)
    heading = TextField()
    text = TextField()
    start_line = IntegerField()
    stop_line = IntegerField()
    #: Owner: "" for everyone, else a session, a project (by one of its names) or a memory; ``unknown`` for none.
    owner_kind = TextField(default="unknown")
    owner = TextField(default="")

    class Meta:
        indexes = ((("note",), False),)
        constraints = (one_of("owner_kind", ("", "session", "project", "memory", "unknown")),)


class NoteChunkProject(View):
    """Which project a chunk belongs to: NULL if everyone may see it, 0 if it belongs to no known project."""

    id = IntegerField()
    project = reference(Project, "project_id", null=True)

    definition = """CREATE VIEW note_chunk_project AS SELECT c.id AS id, CASE c.owner_kind
        WHEN '' THEN NULL
        WHEN 'session' THEN coalesce((SELECT s.project_id FROM session s WHERE s.session_id = c.owner), 0)
        WHEN 'project' THEN coalesce((SELECT n.project_id FROM project_named n WHERE n.name = c.owner), 0)
        WHEN 'memory' THEN CASE (SELECT e.scope FROM episode e WHERE e.episode_id = c.owner) WHEN 'global' THEN NULL
            ELSE coalesce((SELECT e.project_id FROM episode e WHERE e.episode_id = c.owner), 0) END
        ELSE 0 END AS project_id FROM note_chunk c"""


class NoteWords(View):
    """A chunk's texts for the full-text index, with letters of scripts without spaces in pairs."""

    id = IntegerField()
    heading = TextField()
    text = TextField()

    definition = f"""CREATE VIEW note_words AS SELECT id, {in_pairs_sql("heading")} AS heading,
        {in_pairs_sql("text")} AS text FROM note_chunk"""


class NoteIndex(FTS5Model):
    """The full-text index of note chunks."""

    heading = SearchField()
    text = SearchField()

    class Meta:
        table_name = "note_fts"
        options: ClassVar = {"content": "note_words", "content_rowid": "id", "tokenize": TOKENIZER}
