"""A made-up machine with the earlier Engram: LaunchAgent, checkout, hooks, MCP server, database, notes, daemon."""

from __future__ import annotations

import json
import plistlib
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABEL = "com.example.engram"
#: 2026-02-20, noon, in milliseconds since 1970.
FEBRUARY_MS = 1_771_588_800_000

_SCHEMA = """
CREATE TABLE chunks (id INTEGER PRIMARY KEY, source TEXT, heading TEXT, text TEXT);
CREATE VIRTUAL TABLE fts USING fts5(text, content='chunks', content_rowid='id');
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO schema_version VALUES (2);
CREATE TABLE episodes (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, project TEXT, scope TEXT, summary TEXT NOT NULL,
    entities TEXT, importance TEXT, source_type TEXT, full_content TEXT, embedding BLOB, created_at INTEGER,
    accessed_at INTEGER, access_count INTEGER);
CREATE INDEX idx_episodes_scope ON episodes(scope, project);
CREATE INDEX idx_episodes_session ON episodes(session_id);
CREATE VIRTUAL TABLE episodes_fts USING fts5(summary, full_content, content='episodes');
CREATE TRIGGER episodes_ai AFTER INSERT ON episodes BEGIN
    INSERT INTO episodes_fts(rowid, summary, full_content) VALUES (new.rowid, new.summary, new.full_content); END;
"""
_COLUMNS = (
    "id session_id project scope summary entities importance source_type full_content embedding created_at "
    "accessed_at access_count"
).split()

#: Runs as Python too: in place of Bun there is a link to the interpreter.
_DAEMON = """# listens on .claude-memory/engram.sock
import os, socket, sys
folder = sys.argv[-1]
path = os.path.join(folder, "engram.sock")
if os.path.exists(path):
    os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
os.chdir(folder)
listener.bind("engram.sock")
listener.listen(5)
open("engram.pid", "w").write(str(os.getpid()))
print("listening", flush=True)
while True:
    listener.accept()[0].close()
"""
_HOOK = """// reads ~/.claude-memory/recollections
console.log(JSON.stringify({hookSpecificOutput: {permissionDecision: "allow", additionalContext: "…"}}))
"""


def memory_row(number: int, **changes: Any) -> dict[str, Any]:
    """A row of its table ``episodes``."""
    row = {
        "id": f"ep_old{number}",
        "session_id": f"0a0b0c0d-0000-4000-8000-{number:012d}",
        "project": "harbor",
        "scope": "project",
        "summary": f"Pier {number} is dredged in spring.",
        "entities": '["pier"]',
        "importance": "normal",
        "source_type": "auto",
        "full_content": f"The harbour master said that pier {number} is dredged in spring.",
        "embedding": b"\0" * (768 * 4),
        "created_at": FEBRUARY_MS + number,
        "accessed_at": FEBRUARY_MS + 1000 + number,
        "access_count": number,
    }
    return row | changes


def make_database(path: Path, rows: Sequence[dict[str, Any]] = (), newest: Sequence[dict[str, Any]] = ()) -> None:
    """Make its database; the ``newest`` rows are in the write-ahead log alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(_SCHEMA)
    _insert(connection, rows)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    if newest:
        writer = (
            "import sqlite3, sys, json, os\n"
            "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "c.execute('PRAGMA wal_autocheckpoint = 0')\n"
            "for row in json.load(sys.stdin): c.execute(sys.argv[2], row)\n"
            "os._exit(0)\n"
        )
        values = [[row[name] for name in _COLUMNS if name != "embedding"] for row in newest]
        names = ", ".join(name for name in _COLUMNS if name != "embedding")
        sql = f"INSERT INTO episodes ({names}) VALUES ({', '.join('?' * (len(_COLUMNS) - 1))})"
        subprocess.run(
            [sys.executable, "-c", writer, str(path), sql], input=json.dumps(values), text=True, check=True, timeout=60
        )


def _insert(connection: sqlite3.Connection, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        sql = f"INSERT INTO episodes ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        connection.execute(sql, list(row.values()))


@dataclass(frozen=True, slots=True)
class EarlierMachine:
    """Where everything lies."""

    user_home: Path
    #: Its memory folder.
    folder: Path
    checkout: Path
    plist: Path
    settings_file: Path
    claude_json: Path

    def start_daemon(self) -> subprocess.Popen[str]:
        """Start the daemon by hand; returns when it listens. End it."""
        bun = self.user_home / ".bun" / "bin" / "bun"
        if not bun.exists():
            bun.parent.mkdir(parents=True)
            bun.symlink_to(sys.executable)
        command = [str(bun), str(self.checkout / "processor" / "index.ts"), str(self.folder)]
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "listening\n"
        return daemon


def make_machine(user_home: Path, folder: Path, claude_folder: Path, rows: Sequence[dict[str, Any]]) -> EarlierMachine:
    """Put the earlier Engram on a machine; some of its rows are in the write-ahead log alone.

    The settings have hooks of another tool too, one of them in the same entry.
    """
    checkout = user_home / "src" / "my-memory"
    for name, text in {
        "processor/index.ts": _DAEMON,
        "hooks/pretooluse-recollection.ts": _HOOK,
        "hooks/stop.ts": "// daily log in ~/.claude-memory",
        "mcp/server.ts": "// memory_search in ~/.claude-memory",
        "scripts/engram-start.sh": '#!/bin/bash\nsource ~/.claude-memory/.env\nexec bun "$ROOT/processor/index.ts"\n',
    }.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)
    plist = user_home / "Library" / "LaunchAgents" / "org.some-name.plist"
    plist.parent.mkdir(parents=True)
    agent = {
        "Label": LABEL,
        "ProgramArguments": ["/bin/bash", str(checkout / "scripts" / "engram-start.sh")],
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": 5,
        "StandardOutPath": str(folder / "engram.stdout.log"),
    }
    plist.write_bytes(plistlib.dumps(agent))
    (plist.parent / "com.other.backup.plist").write_bytes(
        plistlib.dumps({"Label": "com.other.backup", "ProgramArguments": ["/usr/bin/backup", str(folder)]})
    )
    hook = f"test -d ~/.claude-memory/recollections && bun {checkout}/hooks/pretooluse-recollection.ts || true"
    other = {"type": "command", "command": "node /opt/lint/hooks/lint.js"}
    settings = {
        "hooks": {
            "PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": hook}, other]}],
            "Stop": [{"hooks": [{"type": "command", "command": f"bun {checkout}/hooks/stop.ts"}]}, {"hooks": [other]}],
        },
        "model": "opus",
    }
    settings_file = claude_folder / "settings.json"
    settings_file.parent.mkdir(parents=True, exist_ok=True)
    settings_file.write_text(json.dumps(settings, indent=4) + "\n")
    claude_json = user_home / ".claude.json"
    server = {"type": "stdio", "command": "bun", "args": [str(checkout / "mcp" / "server.ts")]}
    others = {"docs": {"command": "node", "args": ["/opt/docs/mcp/server.js"]}}
    claude_json.write_text(json.dumps({"mcpServers": {"memory": server, **others}, "projects": {}}))
    half = (len(rows) + 1) // 2
    make_database(folder / "memory.db", rows[:half], rows[half:])
    (folder / "MEMORY.md").write_text("# Memory\n\n## Graduated\n\n- Tides are read from the harbour's own gauge.\n")
    (folder / "2026-02-20.md").write_text("## harbor\n\nMoored the barge Wilhelmina at pier 3.\n")
    (folder / "daily").mkdir()
    (folder / "daily" / "2026-02-21.md").write_text("## 10:30\n\nTalked about the lighthouse roof.\n")
    (folder / "engram-state.json").write_text("{}")
    return EarlierMachine(user_home, folder, checkout, plist, settings_file, claude_json)
