"""Tables for search: passages with their vectors, and notes, which are Markdown files cut into chunks."""

from __future__ import annotations

from typing import ClassVar

from peewee import AutoField, BlobField, IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField, FTS5Model, SearchField

from engram.models.tables.declaring import Table, View, in_pairs_sql, one_of, reference
from engram.models.tables.session_tables import Project, TextBlock

# -- Passages: parts of text blocks. Their text is not stored again.

#: How many characters of the neighbouring passages are indexed with a passage: about twenty words.
CONTEXT_CHARS = 120
#: Tokenizer of all full-text indexes.
TOKENIZER = "porter unicode61 remove_diacritics 2 tokenchars '_'"


class Passage(Table):
    """A part of a text block, from the character ``start`` up to but not including ``stop``."""

    id = AutoIncrementField()
    text_block = reference(TextBlock, "said_id", cascade=True)
    #: Copied from the turn, for searches in one project. Not foreign keys, because each would be checked for every
    #: passage.
    turn_id = IntegerField()
    session_ref = IntegerField()
    project_id = IntegerField(null=True)
    role = TextField()
    start = IntegerField()
    stop = IntegerField()

    class Meta:
        indexes = ((("session_ref", "id"), False), (("turn_id",), False), (("text_block",), False))


class PassageText(View):
    id = IntegerField()
    turn_id = IntegerField()
    session_ref = IntegerField()
    project_id = IntegerField(null=True)
    role = TextField()
    said_id = IntegerField()
    text = TextField()

    definition = """CREATE VIEW passage_text AS SELECT p.id AS id, p.turn_id, p.session_ref, p.project_id, p.role,
        p.said_id, substr(s.text, p.start + 1, p.stop - p.start) AS text FROM passage p
        JOIN said s ON s.id = p.said_id"""


class PassageBeside(View):
    """A passage's text, and its neighbours in the same session."""

    id = IntegerField()
    own = TextField()
    before = TextField()
    after = TextField()

    definition = f"""CREATE VIEW passage_beside AS SELECT p.id AS id,
        substr(s.text, p.start + 1, p.stop - p.start) AS own,
        coalesce((SELECT substr(t.text, -{CONTEXT_CHARS}) FROM passage_text t WHERE t.id =
            (SELECT b.id FROM passage b WHERE b.session_ref = p.session_ref AND b.id < p.id
             ORDER BY b.id DESC LIMIT 1)), '') AS before,
        coalesce((SELECT substr(t.text, 1, {CONTEXT_CHARS}) FROM passage_text t WHERE t.id =
            (SELECT a.id FROM passage a WHERE a.session_ref = p.session_ref AND a.id > p.id
             ORDER BY a.id LIMIT 1)), '') AS after
        FROM passage p JOIN said s ON s.id = p.said_id"""


class PassageContext(View):
    """A passage's text for the full-text index: ``PassageBeside`` with letters of scripts without spaces in pairs.

    Preparing this query takes longer than reading a passage, so use it only for checks and for many passages at once.
    """

    id = IntegerField()
    own = TextField()
    before = TextField()
    after = TextField()

    definition = f"""CREATE VIEW passage_context AS SELECT id,
        {in_pairs_sql("own")} AS own,
        {in_pairs_sql("before")} AS before,
        {in_pairs_sql("after")} AS after
        FROM passage_beside"""


class PassageIndex(FTS5Model):
    """The full-text index of passages, with ``PassageContext`` as its content."""

    own = SearchField()
    before = SearchField()
    after = SearchField()

    class Meta:
        table_name = "passage_fts"
        options: ClassVar = {"content": "passage_context", "content_rowid": "id", "tokenize": TOKENIZER}


# -- Vectors of memories (e), note chunks (n) and passages (p), packed (``engram.embedding.packed_vectors``).


class VectorModel(Table):
    id = AutoField()
    name = TextField(unique=True)


class Vector(Table):
    """A vector. ``seq`` increases with every vector written, so an in-memory index has to read only the new ones."""

    seq = AutoIncrementField()
    #: ``e``, ``n`` or ``p``: the table that ``owner_id`` refers to.
    owner = TextField()
    owner_id = IntegerField()
    piece = IntegerField(default=0)
    model = reference(VectorModel, "model_id")
    data = BlobField()

    class Meta:
        indexes = ((("owner", "owner_id", "piece"), True),)
        constraints = (one_of("owner", ("e", "n", "p")),)


#: The second and later vectors of long texts; used to count the owners that have a vector.
Vector.add_index(Vector.index(Vector.piece, name="vector_further").where(Vector.piece > 0))


# -- Notes, and the user's own files that an agent reads.


class Note(Table):
    """A note file, as of when it was indexed."""

    id = AutoField()
    stable_id = TextField(unique=True)
    source = TextField(unique=True)
    path = TextField(unique=True)
    size = IntegerField()
    changed_at_ns = IntegerField()
    digest = BlobField()
    origin = TextField(default="")
    revision = IntegerField(default=1)
    updated_at_ms = IntegerField()


class StandingFile(Table):
    """One of the user's files that an agent reads at startup (CLAUDE.md, rules, auto memory), as last read."""

    id = AutoField()
    path = TextField(unique=True)
    #: The project that it belongs to; NULL if it applies everywhere.
    project = reference(Project, "project_id", null=True, cascade=True)
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
    #: Whom the chunk belongs to: "" for everyone, a session, a project (by one of its names), a memory, or ``unknown``.
    owner_kind = TextField(default="unknown")
    owner = TextField(default="")

    class Meta:
        indexes = ((("note",), False),)
        constraints = (one_of("owner_kind", ("", "session", "project", "memory", "unknown")),)


class NoteChunkProject(View):
    """The project that a chunk belongs to: NULL if it is visible everywhere, 0 if its project is unknown."""

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
    """A chunk's text for the full-text index, with letters of scripts without spaces in pairs."""

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
