"""The tables of memory.db by version. What a version says stays as it is; later versions are further migrations."""

from __future__ import annotations

#: SQLite application_id of Engram's databases ("ENGR").
APPLICATION_ID = 0x454E4752

#: Tables that every version has; no other program's database has all of them.
OWN_TABLES = frozenset({"meta", "project", "session", "transcript", "turn", "said", "episode", "evidence", "tombstone"})

#: Version 1, statement by statement.
VERSION_1 = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # -- projects and sessions
    """CREATE TABLE project (
        id INTEGER PRIMARY KEY, stable_id TEXT NOT NULL UNIQUE, identity TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL UNIQUE, root TEXT NOT NULL DEFAULT '',
        origin TEXT NOT NULL DEFAULT '', revision INTEGER NOT NULL DEFAULT 1, updated_at_ms INTEGER NOT NULL)""",
    """CREATE TABLE session (
        id INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL,
        project_id INTEGER REFERENCES project(id), is_global INTEGER NOT NULL DEFAULT 0,
        cwd TEXT NOT NULL DEFAULT '', branch TEXT NOT NULL DEFAULT '',
        first_at_ms INTEGER NOT NULL, last_at_ms INTEGER NOT NULL, ended_at_ms INTEGER,
        message_count INTEGER NOT NULL DEFAULT 0, extracted_messages INTEGER NOT NULL DEFAULT 0,
        extractions INTEGER NOT NULL DEFAULT 0, rolling_summary TEXT NOT NULL DEFAULT '')""",
    """CREATE TABLE known_value (
        session_ref INTEGER NOT NULL REFERENCES session(id), hash BLOB NOT NULL, PRIMARY KEY (session_ref, hash))
        WITHOUT ROWID""",
    # -- transcripts and how far each was read
    """CREATE TABLE transcript (
        id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, session_ref INTEGER REFERENCES session(id),
        cursor INTEGER NOT NULL DEFAULT 0, line_number INTEGER NOT NULL DEFAULT 0,
        generation INTEGER NOT NULL DEFAULT 0, fingerprint BLOB NOT NULL DEFAULT x'',
        reader_state TEXT NOT NULL DEFAULT '{}', size INTEGER NOT NULL DEFAULT 0,
        is_gone INTEGER NOT NULL DEFAULT 0, read_at_ms INTEGER NOT NULL DEFAULT 0, last_error TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX transcript_session ON transcript(session_ref)",
    """CREATE TABLE bad_line (
        transcript_id INTEGER NOT NULL REFERENCES transcript(id), generation INTEGER NOT NULL, offset INTEGER NOT NULL,
        length INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (transcript_id, generation, offset)) WITHOUT ROWID""",
    # -- turns
    """CREATE TABLE turn (
        id INTEGER PRIMARY KEY, stable_id TEXT NOT NULL UNIQUE, key TEXT NOT NULL UNIQUE,
        session_ref INTEGER NOT NULL REFERENCES session(id), project_id INTEGER REFERENCES project(id),
        transcript_id INTEGER NOT NULL REFERENCES transcript(id), opening TEXT NOT NULL, agent TEXT NOT NULL,
        cwd TEXT NOT NULL, branch TEXT NOT NULL, started_at_ms INTEGER, ended_at_ms INTEGER,
        start_offset INTEGER NOT NULL, end_offset INTEGER NOT NULL,
        is_closed INTEGER NOT NULL, is_interrupted INTEGER NOT NULL, message_count INTEGER NOT NULL,
        actions TEXT NOT NULL, extra TEXT NOT NULL,
        extracted_revision INTEGER NOT NULL DEFAULT 0,
        origin TEXT NOT NULL DEFAULT '', revision INTEGER NOT NULL DEFAULT 1, updated_at_ms INTEGER NOT NULL)""",
    "CREATE INDEX turn_session ON turn(session_ref, id)",
    "CREATE INDEX turn_project ON turn(project_id, started_at_ms)",
    "CREATE INDEX turn_due ON turn(session_ref) WHERE extracted_revision < revision",
    """CREATE TABLE entry (
        uuid BLOB PRIMARY KEY, turn_id INTEGER NOT NULL REFERENCES turn(id) ON DELETE CASCADE,
        offset INTEGER NOT NULL, length INTEGER NOT NULL, line INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX entry_turn ON entry(turn_id)",
    """CREATE TABLE said (
        id INTEGER PRIMARY KEY, turn_id INTEGER NOT NULL REFERENCES turn(id) ON DELETE CASCADE, seq INTEGER NOT NULL,
        uuid BLOB, role TEXT NOT NULL, text TEXT NOT NULL, message_id TEXT NOT NULL,
        offset INTEGER NOT NULL, length INTEGER NOT NULL, line INTEGER NOT NULL, at_ms INTEGER,
        UNIQUE (turn_id, seq))""",
    # -- passages: the unit that is searched; their text is a part of said.text and stands nowhere else
    """CREATE TABLE passage (
        id INTEGER PRIMARY KEY AUTOINCREMENT, said_id INTEGER NOT NULL REFERENCES said(id) ON DELETE CASCADE,
        turn_id INTEGER NOT NULL, session_ref INTEGER NOT NULL, project_id INTEGER, role TEXT NOT NULL,
        start INTEGER NOT NULL, stop INTEGER NOT NULL)""",
    "CREATE INDEX passage_session ON passage(session_ref, id)",
    "CREATE INDEX passage_turn ON passage(turn_id)",
    "CREATE INDEX passage_said ON passage(said_id)",
    "CREATE VIEW passage_text AS SELECT p.id AS id, p.turn_id, p.session_ref, p.project_id, p.role, p.said_id, "
    "substr(s.text, p.start + 1, p.stop - p.start) AS text FROM passage p JOIN said s ON s.id = p.said_id",
    """CREATE VIEW passage_context AS SELECT p.id AS id,
        substr(s.text, p.start + 1, p.stop - p.start) AS own,
        coalesce((SELECT t.text FROM passage_text t WHERE t.id =
            (SELECT b.id FROM passage b WHERE b.session_ref = p.session_ref AND b.id < p.id
             ORDER BY b.id DESC LIMIT 1)), '') AS before,
        coalesce((SELECT t.text FROM passage_text t WHERE t.id =
            (SELECT a.id FROM passage a WHERE a.session_ref = p.session_ref AND a.id > p.id
             ORDER BY a.id LIMIT 1)), '') AS after
        FROM passage p JOIN said s ON s.id = p.said_id""",
    """CREATE VIRTUAL TABLE passage_fts USING fts5(own, before, after, content='passage_context', content_rowid='id',
        tokenize="porter unicode61 remove_diacritics 2 tokenchars '_'")""",
    # -- episodes
    """CREATE TABLE episode (
        id INTEGER PRIMARY KEY AUTOINCREMENT, episode_id TEXT NOT NULL UNIQUE, slot TEXT UNIQUE,
        kind TEXT NOT NULL, session_ref INTEGER REFERENCES session(id), project_id INTEGER REFERENCES project(id),
        scope TEXT NOT NULL, summary TEXT NOT NULL, content TEXT NOT NULL, packed_content BLOB,
        facts TEXT NOT NULL DEFAULT '[]', entities TEXT NOT NULL DEFAULT '[]',
        importance TEXT NOT NULL, source TEXT NOT NULL, voice TEXT NOT NULL DEFAULT 'assistant',
        status TEXT NOT NULL, confidence REAL NOT NULL, quality REAL NOT NULL DEFAULT 0, suspect TEXT NOT NULL DEFAULT '',
        is_pinned INTEGER NOT NULL DEFAULT 0, is_lowered INTEGER NOT NULL DEFAULT 0, weight REAL NOT NULL DEFAULT 1,
        stale_reason TEXT NOT NULL DEFAULT '',
        valid_from_ms INTEGER, valid_to_ms INTEGER, superseded_by TEXT NOT NULL DEFAULT '',
        extractor TEXT NOT NULL, created_at_ms INTEGER NOT NULL, accessed_at_ms INTEGER,
        access_count INTEGER NOT NULL DEFAULT 0, confirmations INTEGER NOT NULL DEFAULT 0,
        graduated_at_ms INTEGER, kept_at_ms INTEGER NOT NULL,
        stable_id TEXT NOT NULL UNIQUE, origin TEXT NOT NULL DEFAULT '',
        revision INTEGER NOT NULL DEFAULT 1, updated_at_ms INTEGER NOT NULL)""",
    "CREATE INDEX episode_project ON episode(project_id, status, created_at_ms)",
    "CREATE INDEX episode_session ON episode(session_ref)",
    "CREATE INDEX episode_updated ON episode(updated_at_ms)",
    """CREATE TABLE evidence (
        episode_ref INTEGER NOT NULL REFERENCES episode(id) ON DELETE CASCADE, seq INTEGER NOT NULL,
        uuid BLOB, turn_id INTEGER, session_id TEXT NOT NULL, PRIMARY KEY (episode_ref, seq)) WITHOUT ROWID""",
    "CREATE INDEX evidence_turn ON evidence(turn_id)",
    """CREATE TABLE entity (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (kind, name))""",
    """CREATE TABLE episode_entity (
        entity_id INTEGER NOT NULL REFERENCES entity(id), episode_ref INTEGER NOT NULL REFERENCES episode(id)
        ON DELETE CASCADE, PRIMARY KEY (entity_id, episode_ref)) WITHOUT ROWID""",
    "CREATE INDEX episode_entity_episode ON episode_entity(episode_ref)",
    """CREATE VIRTUAL TABLE episode_fts USING fts5(summary, content, entities, content='episode', content_rowid='id',
        tokenize="porter unicode61 remove_diacritics 2 tokenchars '_'")""",
    """CREATE TABLE history (
        id INTEGER PRIMARY KEY AUTOINCREMENT, episode_id TEXT NOT NULL, at_ms INTEGER NOT NULL, action TEXT NOT NULL,
        reason TEXT NOT NULL, run_id INTEGER, before TEXT NOT NULL, after TEXT NOT NULL)""",
    "CREATE INDEX history_episode ON history(episode_id)",
    "CREATE INDEX history_run ON history(run_id)",
    # -- vectors of passages (p), episodes (e) and note chunks (n); float16
    # seq rises with every vector written, so that an index in memory reads only what is new
    """CREATE TABLE vector (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, owner_id INTEGER NOT NULL,
        piece INTEGER NOT NULL DEFAULT 0, model TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (owner, owner_id, piece))""",
    # -- notes
    """CREATE TABLE note (
        id INTEGER PRIMARY KEY, stable_id TEXT NOT NULL UNIQUE, source TEXT NOT NULL UNIQUE, path TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL, changed_at_ns INTEGER NOT NULL, digest BLOB NOT NULL,
        origin TEXT NOT NULL DEFAULT '', revision INTEGER NOT NULL DEFAULT 1, updated_at_ms INTEGER NOT NULL)""",
    """CREATE TABLE note_chunk (
        id INTEGER PRIMARY KEY AUTOINCREMENT, note_id INTEGER NOT NULL REFERENCES note(id) ON DELETE CASCADE,
        heading TEXT NOT NULL, text TEXT NOT NULL, start_line INTEGER NOT NULL, stop_line INTEGER NOT NULL)""",
    "CREATE INDEX note_chunk_note ON note_chunk(note_id)",
    """CREATE VIRTUAL TABLE note_fts USING fts5(heading, text, content='note_chunk', content_rowid='id',
        tokenize="porter unicode61 remove_diacritics 2 tokenchars '_'")""",
    # -- what was shown
    """CREATE TABLE injection (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, prompt_key TEXT NOT NULL, channel TEXT NOT NULL,
        episode_id TEXT NOT NULL, score REAL NOT NULL, tokens INTEGER NOT NULL, state TEXT NOT NULL,
        is_cleared INTEGER NOT NULL DEFAULT 0, at_ms INTEGER NOT NULL, expanded_at_ms INTEGER)""",
    "CREATE INDEX injection_session ON injection(session_id, id)",
    "CREATE INDEX injection_episode ON injection(episode_id)",
    """CREATE TABLE shown (
        session_id TEXT NOT NULL, what TEXT NOT NULL, at_ms INTEGER NOT NULL, tokens INTEGER NOT NULL,
        PRIMARY KEY (session_id, what)) WITHOUT ROWID""",
    # -- work, leases, health
    """CREATE TABLE work (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,
        due_at_ms INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, version INTEGER NOT NULL DEFAULT 1,
        last_error TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', updated_at_ms INTEGER NOT NULL,
        UNIQUE (kind, key))""",
    "CREATE INDEX work_due ON work(state, due_at_ms)",
    """CREATE TABLE lease (
        name TEXT PRIMARY KEY, owner TEXT NOT NULL, until_ms INTEGER NOT NULL, last_run_ms INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE stage (
        name TEXT PRIMARY KEY, seen INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0,
        last_success_ms INTEGER, last_error TEXT NOT NULL DEFAULT '', last_error_ms INTEGER) WITHOUT ROWID""",
    """CREATE TABLE pause (scope TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE tombstone (kind TEXT NOT NULL, key BLOB NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (kind, key))
        WITHOUT ROWID""",
    # -- consolidation runs and money
    """CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, started_at_ms INTEGER NOT NULL, ended_at_ms INTEGER,
        state TEXT NOT NULL, position TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '{}')""",
    """CREATE TABLE spend (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, task TEXT NOT NULL, model TEXT NOT NULL,
        project_id INTEGER, state TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
        dollars REAL NOT NULL)""",
    "CREATE INDEX spend_time ON spend(at_ms)",
)

#: Characters of the passage before and behind that are indexed with a passage: about twenty words.
CONTEXT_CHARS = 120

#: Version 3: the same in less room.
VERSION_3 = (
    # entries: their uuids and places lie packed in the turn's row, the table only finds the turn
    "ALTER TABLE turn ADD COLUMN entries BLOB NOT NULL DEFAULT x''",
    "CREATE TABLE entry_of_turn (key INTEGER PRIMARY KEY, turn_id INTEGER NOT NULL)",
    # vectors name their model by a number
    "CREATE TABLE vector_model (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "INSERT INTO vector_model (name) SELECT DISTINCT model FROM vector",
    """CREATE TABLE vector_of_model (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, owner_id INTEGER NOT NULL,
        piece INTEGER NOT NULL DEFAULT 0, model_id INTEGER NOT NULL REFERENCES vector_model(id), data BLOB NOT NULL,
        UNIQUE (owner, owner_id, piece))""",
    "INSERT INTO vector_of_model SELECT v.seq, v.owner, v.owner_id, v.piece, m.id, v.data "
    "FROM vector v JOIN vector_model m ON m.name = v.model",
    "DROP TABLE vector",
    "ALTER TABLE vector_of_model RENAME TO vector",
    # of the neighbours of a passage only what stands next to it is indexed
    "DROP VIEW passage_context",
    f"""CREATE VIEW passage_context AS SELECT p.id AS id,
        substr(s.text, p.start + 1, p.stop - p.start) AS own,
        coalesce((SELECT substr(t.text, -{CONTEXT_CHARS}) FROM passage_text t WHERE t.id =
            (SELECT b.id FROM passage b WHERE b.session_ref = p.session_ref AND b.id < p.id
             ORDER BY b.id DESC LIMIT 1)), '') AS before,
        coalesce((SELECT substr(t.text, 1, {CONTEXT_CHARS}) FROM passage_text t WHERE t.id =
            (SELECT a.id FROM passage a WHERE a.session_ref = p.session_ref AND a.id > p.id
             ORDER BY a.id LIMIT 1)), '') AS after
        FROM passage p JOIN said s ON s.id = p.said_id""",
    "INSERT INTO passage_fts(passage_fts) VALUES ('rebuild')",
    # an episode's content may lie compressed, so that the index can't read it from the table
    "DROP TABLE episode_fts",
    """CREATE VIRTUAL TABLE episode_fts USING fts5(summary, content, entities, content='',
        tokenize="porter unicode61 remove_diacritics 2 tokenchars '_'")""",
    # who was replaced by a memory that goes
    "CREATE INDEX episode_superseded ON episode(superseded_by) WHERE superseded_by <> ''",
)

#: Version 4: one group of statements a subject.
VERSION_4: tuple[str, ...] = (
    # -- forgetting, undo and contradictions
    # two memories in force that cannot both hold, of which at least one is a person's; decision is '' while open
    """CREATE TABLE contradiction (
        id INTEGER PRIMARY KEY AUTOINCREMENT, older_id TEXT NOT NULL, newer_id TEXT NOT NULL, reason TEXT NOT NULL,
        decision TEXT NOT NULL DEFAULT '', made_at_ms INTEGER NOT NULL, decided_at_ms INTEGER, run_id INTEGER,
        UNIQUE (older_id, newer_id))""",
    # what is superseded by a memory that is gone comes back into force
    "UPDATE episode SET status = 'active', superseded_by = '', valid_to_ms = NULL WHERE status = 'superseded' "
    "AND NOT EXISTS (SELECT 1 FROM episode s WHERE s.episode_id = episode.superseded_by)",
    # -- notes
    # names that a project had before, by the identity of its folder; they are never given to another project
    "CREATE TABLE former_name (name TEXT PRIMARY KEY, identity TEXT NOT NULL) WITHOUT ROWID",
    """CREATE VIEW project_named AS SELECT name, id AS project_id FROM project
        UNION ALL SELECT f.name, coalesce((SELECT p.id FROM project p WHERE p.identity = f.identity),
            (SELECT l.project_id FROM project_folder l WHERE l.identity = f.identity)) FROM former_name f
        WHERE NOT EXISTS (SELECT 1 FROM project p WHERE p.name = f.name)""",
    # whose a chunk is: owner_kind '' everyone's, session, project (a name of it), memory; unknown until it is indexed anew
    "ALTER TABLE note_chunk ADD COLUMN owner_kind TEXT NOT NULL DEFAULT 'unknown'",
    "ALTER TABLE note_chunk ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "UPDATE note SET size = -1",
    # project_id is NULL for what everyone may see, 0 for what belongs to no known project
    """CREATE VIEW note_chunk_project AS SELECT c.id AS id, CASE c.owner_kind
        WHEN '' THEN NULL
        WHEN 'session' THEN coalesce((SELECT s.project_id FROM session s WHERE s.session_id = c.owner), 0)
        WHEN 'project' THEN coalesce((SELECT n.project_id FROM project_named n WHERE n.name = c.owner), 0)
        WHEN 'memory' THEN CASE (SELECT e.scope FROM episode e WHERE e.episode_id = c.owner) WHEN 'global' THEN NULL
            ELSE coalesce((SELECT e.project_id FROM episode e WHERE e.episode_id = c.owner), 0) END
        ELSE 0 END AS project_id FROM note_chunk c""",
    # -- projects that move
    "ALTER TABLE project ADD COLUMN remote TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE project ADD COLUMN first_commit TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE project ADD COLUMN hints_at_ms INTEGER NOT NULL DEFAULT 0",
    """CREATE TABLE project_folder (
        identity TEXT PRIMARY KEY, project_id INTEGER NOT NULL, root TEXT NOT NULL, reason TEXT NOT NULL,
        added_at_ms INTEGER NOT NULL) WITHOUT ROWID""",
    # -- sessions, turns and extraction
    # memories that were kept, but not compared with the others yet: that waits for what was said before them
    "ALTER TABLE episode ADD COLUMN is_unjoined INTEGER NOT NULL DEFAULT 0",
    # when a session was last extracted; 0 for never, and for what an older version extracted
    "ALTER TABLE session ADD COLUMN extracted_at_ms INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX episode_unjoined ON episode(created_at_ms) WHERE is_unjoined = 1",
    # -- language model: requests, spending, links between memories
    # -- what was shown
    "CREATE TABLE context (session_id TEXT PRIMARY KEY, began_at_ms INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE copied_history (
        session_id TEXT NOT NULL, from_session TEXT NOT NULL, until_ms INTEGER NOT NULL,
        PRIMARY KEY (session_id, from_session)) WITHOUT ROWID""",
    "CREATE INDEX evidence_session ON evidence(session_id)",
    # -- reports and health
)
