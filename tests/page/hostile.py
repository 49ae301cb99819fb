"""Hostile texts in every stored field: those of the shared data if it is there, and a few of our own always."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import LIST_FIELDS
from tests.page.lived import Lived, live

#: Each would set ``window.PWN``, reach another server, or change something.
OWN = (
    "<script>window.PWN=1</script>",
    "<img src=x onerror=window.PWN=1>",
    '"><svg onload=window.PWN=1>',
    "' autofocus onfocus='window.PWN=1",
    "<iframe srcdoc='<script>parent.PWN=1</script>'></iframe>",
    "<img src='http://evil.test/pixel'>",
    "<form action=http://evil.test><button autofocus>go</button></form>",
    "<a href=javascript:window.PWN=1 data-beside data-row>x</a>",
    "</title></textarea></pre><script>window.PWN=1</script>",
    "{{ 7*7 }}{% raw %}",
    "\u202egnp.exe\u2066",
    "<div hx-post='ROOM/letters' hx-trigger='load' hx-vals='letters:off'>x</div>",
)
#: Columns that are no text for people: ids, keys, states, and JSON that has a form of its own.
_LEFT = {
    "episode": {"episode_id", "slot", "stable_id", "status", "scope", "superseded_by", "content", *LIST_FIELDS},
    "session": {"session_id"},
    "turn": {"key", "stable_id", "opening", "actions", "extra"},
    "said": {"role", "message_id"},
    "history": {"episode_id", "before", "after", "actor"},
    "outcome": {"session_id", "channel", "verdict", "prompt_key", "digest"},
    "project": {"stable_id"},
}


def payloads() -> list[str]:
    """Every hostile text."""
    shared = Path(os.environ.get("ENGRAM_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "page" / "xss.json"
    others = json.loads(shared.read_text(encoding="utf-8")) if shared.is_file() else []
    return [*OWN, *others]


def live_with(store: Store, texts: Sequence[str]) -> list[Lived]:
    """Make one of everything for each text, with the text in every stored field that can hold one."""
    first = int(store.value("SELECT count(*) FROM session"))
    lived = [_live_with(store, text, number) for number, text in enumerate(texts, first)]
    with store.transaction() as tx:
        # All turns in one session: its trace shows every text.
        tx.run("UPDATE turn SET session_ref = (SELECT min(id) FROM session)")
    return lived


def _live_with(store: Store, text: str, number: int) -> Lived:
    lived = live(store, project=f"p{number}", session=f"s-{number:04d}", number=number * 10 + 1)
    # Without the checks: also what no version of Engram would write is shown safely.
    store.rows("PRAGMA ignore_check_constraints = 1")
    with store.transaction() as tx:
        of_row = {
            "episode": ("session_ref = (SELECT id FROM session WHERE session_id = ?)", f"s-{number:04d}"),
            "session": ("session_id = ?", f"s-{number:04d}"),
            "turn": ("session_ref = (SELECT id FROM session WHERE session_id = ?)", f"s-{number:04d}"),
            "said": ("turn_id = ?", lived.turn_id),
            "history": ("episode_id = ?", lived.fix.episode_id),
            "project": ("name = ?", f"p{number}"),
        }
        for table, (condition, value) in of_row.items():
            columns = [
                name
                for _, name, kind, *_ in tx.rows(f"PRAGMA table_info({table})")
                if kind == "TEXT" and name not in _LEFT[table]
            ]
            unique = {"identity", "name"}
            values = [f"{text} {number}" if name in unique else text for name in columns]
            assignments = ", ".join(f'"{name}" = ?' for name in columns)
            tx.run(f"UPDATE {table} SET {assignments} WHERE {condition}", [*values, value])
        lists = json.dumps([text])
        tx.run(
            "UPDATE episode SET facts = ?, entities = ?, questions = ?, content = ? WHERE episode_id = ?",
            (lists, lists, lists, f"{text}\n{text}", lived.fix.episode_id),
        )
        tx.run(
            "UPDATE turn SET actions = replace(replace(actions, 'AssertionError: 1', ?), 'pytest', ?) WHERE id = ?",
            (json.dumps(text)[1:-1], json.dumps(text)[1:-1], lived.turn_id),
        )
    store.rows("PRAGMA ignore_check_constraints = 0")
    return lived
