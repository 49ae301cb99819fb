"""Transcripts and texts that grow with N, for measuring how work grows."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.growing_lab import nested, words
from tests.growing_transcript import Transcript

RULES = "Never use {} in {}. Always write {} first. From now on, {} is done by hand."


def rule(number: int) -> str:
    chance = random.Random(number)
    return RULES.format(*(f"{word}{number}" for word in chance.choices(words(3).split(), k=4)))


def each(line: Callable[[Transcript, int], object]) -> Callable[[Transcript, int], object]:
    return lambda transcript, n: [line(transcript, number) for number in range(n)]


def _calls(t: Transcript, n: int) -> None:
    blocks = [{"type": "tool_use", "id": f"c{k}", "name": "Edit", "input": {"file_path": f"/f{k}"}} for k in range(n)]
    t.user("one")
    t.add({"type": "assistant", "message": {"id": "m", "content": blocks}})
    t.user([{"type": "tool_result", "tool_use_id": f"c{k}", "content": words(k)} for k in range(n)])


def _streamed(t: Transcript, n: int) -> None:
    t.user("one")
    for number in range(n):
        text = {"type": "text", "text": " ".join(words(k, 3) for k in range(number % 40))}
        t.add({"type": "assistant", "message": {"id": f"m{number // 40}", "content": [text]}})


def turn(t: Transcript, k: int) -> str:
    t.user(f"{words(k)}? We decided to use {words(k, 2)} because {words(k, 5)}.")
    t.calls("Bash", f"error: {words(k, 3)} failed", is_error=True, command=f"make part{k}")
    t.calls("Bash", "ok", command=f"make part{k} --fixed")
    return t.says(f"Fixed: {words(k, 20)} fails because {words(k, 5)}.")


def _queued(t: Transcript, k: int) -> None:
    t.queue("enqueue", words(k))
    t.queue("dequeue")
    t.user(words(k))


def alone(text: Callable[[int], str]) -> Callable[[Transcript, int], object]:
    return lambda transcript, n: transcript.user(text(n))


#: Name → N, and how N of it are written.
FORMS: Mapping[str, tuple[int, Callable[[Transcript, int], object]]] = {
    "turns": (150, each(turn)),
    "prompts with rules": (150, each(lambda t, k: (t.user(rule(k)), t.says("Noted.")))),
    "the same prompt": (300, each(lambda t, k: (t.user("Never push to main without a review."), t.says("Noted.")))),
    "answers of a turn": (600, lambda t, n: (t.user("one"), [t.says(words(k)) for k in range(n)])),
    "calls of a turn": (300, lambda t, n: _bash(t, n)),
    "calls of an entry": (800, _calls),
    "edits of one file": (400, each(lambda t, k: t.calls("Edit", "ok", file_path="/work/a.py", old_string=words(k)))),
    "streamed answer": (400, _streamed),
    "sidechain entries": (600, each(lambda t, k: t.says(words(k), isSidechain=True, agentId=f"a{k % 9}"))),
    "attachments": (600, each(lambda t, k: t.add({"type": "attachment", "attachment": {"type": "file", "k": k}}))),
    "queued prompts": (200, each(_queued)),
    "waiting prompts": (300, each(lambda t, k: t.queue("enqueue", words(k)))),
    "interruptions": (200, each(lambda t, k: (t.user(words(k)), t.user("[Request interrupted by user]")))),
    "compactions": (150, each(lambda t, k: (t.user(words(k)), t.user(words(k, 90), isCompactSummary=True)))),
    "broken lines": (500, each(lambda t, k: t.text('{"type": "user", "uu\n'))),
    "secrets of a file": (300, each(lambda t, k: t.calls("Read", f"KEY_{k}=mR7xQ4v{k}K9wT2zB6", file_path="/p/.env"))),
    "depth of an input": (100, lambda t, n: t.calls("Odd", "ok", given=nested(n))),
    "working folders": (100, each(lambda t, k: (t.user(words(k), cwd=f"{t.cwd}/part{k}"), t.says("Done.")))),
}


def _bash(t: Transcript, n: int) -> None:
    t.user("one")
    for k in range(n):
        t.calls("Bash", f"error: {words(k, 3)}" if k % 2 else "ok", is_error=bool(k % 2), command=f"make p{k // 2}")


def write_claude_mem(path: Path, n: int) -> Path:
    """Write a database of claude-mem with N observations."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE sdk_sessions (id INTEGER, content_session_id TEXT, memory_session_id TEXT)")
        database.execute(
            "CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, type TEXT, "
            "title TEXT, narrative TEXT, facts TEXT, created_at_epoch INTEGER)"
        )
        for k in range(n):
            row = (k, f"m{k}", f"p{k}", "decision", words(k), words(k, 60), json.dumps([words(k)]), 1_767_225_600 + k)
            database.execute("INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            database.execute("INSERT INTO sdk_sessions VALUES (?, ?, ?)", (k, f"{k:08x}", f"m{k}"))
    return path


#: Texts of about 60 characters times N.
TEXTS: Mapping[str, Callable[[int], str]] = {
    "prose": lambda n: " ".join(f"{words(k, 8)}." for k in range(n)),
    "no sentence ends": lambda n: " ".join(words(k, 8) for k in range(n)),
    "one word": lambda n: "abcdefghij" * 6 * n,
    "base64": lambda n: "".join(f"{k:x}Qz7+/" * 9 for k in range(n)),
    "hex": lambda n: "0123456789abcdef" * 4 * n,
    "digits": lambda n: "1234567890" * 6 * n,
    "spaces": lambda n: " " * 60 * n + "end",
    "newlines": lambda n: "\n" * 60 * n + "end",
    "a list": lambda n: "".join(f"- {words(k, 8)}\n" for k in range(n)),
    "a numbered list": lambda n: "".join(f"{k + 1}. {words(k, 8)}\n" for k in range(n)),
    "a nested list": lambda n: "".join(f"{'  ' * k}- point\n" for k in range(int((60 * n) ** 0.5))),
    "quotes": lambda n: "".join(f"> {words(k, 8)}\n" for k in range(n)),
    "a deep quote": lambda n: ">" * 60 * n + " deep",
    "headings": lambda n: "".join(f"# {words(k, 2)}\n{words(k, 6)}\n" for k in range(n)),
    "fences": lambda n: "".join(f"```\n{words(k, 7)}\n" for k in range(n)),
    "a table": lambda n: "".join(f"| {words(k, 3)} | {words(k, 3)} |\n" for k in range(n)),
    "a diff": lambda n: "".join(f"@@ -{k},1 +{k},1 @@\n-{words(k, 3)}\n+{words(k, 3)}\n" for k in range(n)),
    "a log": lambda n: "".join(f"2026-01-01 10:00:00 ERROR [w{k}] {words(k, 6)}\n" for k in range(n)),
    "a traceback": lambda n: "".join(f'  File "/a/b{k}.py", line {k}, in f\n    {words(k, 4)}()\n' for k in range(n)),
    "json": lambda n: json.dumps([{"name": words(k, 2), "value": words(k, 2)} for k in range(n)]),
    "brackets": lambda n: "(" * 30 * n + ")" * 30 * n,
    "quotation marks": lambda n: "\"'`" * 20 * n,
    "assignments": lambda n: "".join(f"export PASSWORD_{k}={words(k, 1)}{k} # {words(k, 4)}\n" for k in range(n)),
    "urls": lambda n: " ".join(f"https://user{k}:pass{k}@host{k}.example.org/a?token=t{k}x" for k in range(n)),
    "addresses": lambda n: " ".join(f"name{k}@host{k}.example.org and more text here, please;" for k in range(n)),
    "shell": lambda n: " && ".join(f"make p{k} VAR={k} | grep '{words(k, 3)}' > out{k}" for k in range(n)),
    "heredocs": lambda n: "".join(f"cat <<'E{k}'\n{words(k, 6)}\nE{k}\n" for k in range(n)),
    "open heredocs": lambda n: "".join(f"cat <<'E{k}' {words(k, 6)}\n" for k in range(n)),
    "rules": lambda n: "\n".join(rule(k) for k in range(n)),
    "questions": lambda n: " ".join(f"Why {words(k, 6)}?" for k in range(n)),
    "chinese": lambda n: "我们决定使用新的数据库因为旧的太慢了" * 3 * n,
    "colons": lambda n: "".join(f"the password for p{k}: is {words(k, 4)}: so\n" for k in range(n)),
    "a letter": lambda n: "Dear team,\n" + "".join(f"{words(k, 9)},\n" for k in range(n)) + "Best regards,\nAda\n",
    "tags": lambda n: "".join(f"<t{k}>{words(k, 6)}" for k in range(n)),
    "same tags": lambda n: f"<note>{words(1, 6)}" * n,
    "dashes": lambda n: "-" * 60 * n,
    "backslashes": lambda n: "\\" * 60 * n,
    "private key": lambda n: "-----BEGIN PRIVATE KEY-----\n" * 2 * n,
}
