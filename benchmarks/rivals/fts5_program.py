"""The simplest possible memory: SQLite's full-text index over what was said, as a program with two commands.

    python fts5_program.py index DATABASE PROJECTS
    python fts5_program.py ask DATABASE [--folder FOLDER] < QUESTION

``index`` cuts what the user and the assistant said into pieces of 60 words. ``ask`` prints the best pieces for all
words of the question joined by OR, in the order of bm25, up to 400 words.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import sys
from pathlib import Path

PIECE_WORDS, ANSWER_WORDS = 60, 400


def main() -> None:
    """Index or ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("index", "ask"))
    parser.add_argument("database", type=Path)
    parser.add_argument("projects", type=Path, nargs="?", help="Claude Code's folder of transcripts")
    parser.add_argument("--folder", help="only sessions of this working folder")
    given = parser.parse_args()
    database = sqlite3.connect(given.database)
    if given.command == "index":
        index(database, given.projects)
    else:
        print(ask(database, sys.stdin.read(), given.folder))
    database.close()


def index(database: sqlite3.Connection, projects: Path) -> None:
    """Read every transcript."""
    database.execute(
        "CREATE VIRTUAL TABLE piece USING fts5"
        "(text, session UNINDEXED, day UNINDEXED, role UNINDEXED, folder UNINDEXED, tokenize='porter unicode61')"
    )
    seen: set[str] = set()
    for path in sorted(projects.rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            is_said = isinstance(entry, dict) and entry.get("type") in ("user", "assistant")
            if not is_said or entry.get("uuid") in seen:
                continue
            seen.add(entry.get("uuid", ""))
            content = (entry.get("message") or {}).get("content") or []
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            words = " ".join(block.get("text", "") for block in blocks if block.get("type") == "text").split()
            about = (path.stem, str(entry.get("timestamp"))[:10], entry["type"], entry.get("cwd", ""))
            pieces = [" ".join(words[at : at + PIECE_WORDS]) for at in range(0, len(words), PIECE_WORDS)]
            database.executemany("INSERT INTO piece VALUES (?, ?, ?, ?, ?)", [(piece, *about) for piece in pieces])
    database.commit()


def ask(database: sqlite3.Connection, question: str, folder: str | None) -> str:
    """Return the best pieces."""
    terms = re.findall(r"\w+", question)
    if not terms:
        return ""
    where, values = ("", ()) if folder is None else ("AND folder = ?", (folder,))
    rows = database.execute(
        f"SELECT session, day, role, text FROM piece WHERE piece MATCH ? {where} ORDER BY rank LIMIT 40",
        (" OR ".join(f'"{term}"' for term in terms), *values),
    )
    lines: list[str] = []
    left = ANSWER_WORDS
    for session, day, role, text in rows:
        words = f"[{day} {role} {session}] {text}".split()[:left]
        lines.append(" ".join(words))
        left -= len(words)
        if left <= 0:
            break
    return "\n".join(lines)


if __name__ == "__main__":
    main()
