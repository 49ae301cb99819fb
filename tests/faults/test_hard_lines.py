"""P6, P11: whatever stands in a transcript, the lines before and behind it are read, in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from transcript_lines import line

from engram.ingest.read_sources import ingest_path
from engram.models.open_memory import open_store
from engram.redaction import redact
from engram.settings import Settings

SESSION = "11111111-2222-3333-4444-555555555555"


def prompt(text: str) -> bytes:
    return line("user", text, session=SESSION).encode()


def assistant(content: str) -> bytes:
    return (
        b'{"type":"assistant","uuid":"%s","message":{"role":"assistant","id":"m","content":'
        % str(uuid.uuid4()).encode()
        + content.encode()
        + b"}}\n"
    )


#: Lines that no program should write, by what is odd about them.
HARD: dict[str, bytes] = {
    "binary": bytes(range(256)).replace(b"\n", b"") * 20 + b"\n",
    "nothing but zeros": b"\0" * 5000 + b"\n",
    "invalid utf-8": b'{"type":"user","message":{"content":"\xff\xfe\xc3"}}\n',
    "utf-16": '{"type": "user"}'.encode("utf-16") + b"\n",
    "byte order mark": b"\xef\xbb\xbf" + prompt("With a mark")[:-1] + b"\n",
    "10,000 deep": b"[" * 10_000 + b"]" * 10_000 + b"\n",
    "100,000 deep and open": b'{"a":' * 100_000 + b"\n",
    "lone surrogates": assistant('[{"type":"text","text":"\\ud800 and \\udfff"}]'),
    "numbers that are none": assistant('[{"type":"text","text":NaN},{"n":1e999},{"n":-Infinity}]'),
    "5,000 digits": b'{"type":"user","n":' + b"9" * 5000 + b"}\n",
    "no object": b'null\n[]\n"text"\n17\n',
    "two objects": b'{"type":"user"}{"type":"user"}\n',
    "cut off": b'{"type":"user","message":{"content":"half\n',
    "odd types": b'{"type":["user"],"uuid":7,"message":[],"cwd":{},"timestamp":false}\n',
    "huge text": prompt("word " * 40_000),
    "control characters": assistant('[{"type":"text","text":"\\u0000\\u0007\\u001b[31m\\u202e"}]'),
}


@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
def test_lines_around_every_hard_one_are_read_once(tmp_path: Path, driver: str) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(
        b"".join(prompt(f"Before {name}") + line + prompt(f"Behind {name}") for name, line in HARD.items())
    )

    with open_store(settings.places.prepare().memory_db, driver=driver) as store:
        for _ in range(2):
            ingest_path(store, path, settings=settings, redact=redact, close=True, max_bytes=50_000)

        said = [str(value) for (value,) in store.rows("SELECT text FROM said")]
        for name in HARD:
            assert said.count(f"Before {name}") == said.count(f"Behind {name}") == 1
        assert store.value("SELECT bytes_read FROM transcript") == path.stat().st_size
        assert int(store.value("SELECT count(*) FROM bad_line")) >= 5
        assert not any("\ud800" <= sign <= "\udfff" for text in said for sign in text)
        assert store.find_damage() == ""


def test_a_line_of_50_megabytes_is_read_and_one_above_the_limit_is_named(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 50_000_000}
    with path.open("wb") as file:
        file.write(prompt("Before"))
        file.write(b'{"type":"user","uuid":"11111111-1111-4111-8111-111111111111","message":{"content":[')
        file.write(json.dumps(result).encode())
        file.write(b"]}}\n")
        file.write(b'{"type":"user","message":{"content":"' + b"y" * 70_000_000 + b'"}}\n')
        file.write(prompt("Behind"))
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from engram.ingest.read_sources import ingest_path\n"
        "from engram.models.open_memory import open_store\n"
        "from engram.redaction import redact\n"
        "from engram.settings import load\n"
        "settings = load().settings\n"
        "with open_store(settings.places.prepare().memory_db) as store:\n"
        f"    ingest_path(store, Path({str(path)!r}), settings=settings, redact=redact)\n"
        "    print([value for (value,) in store.rows('SELECT text FROM said ORDER BY id')])\n"
        "    print(store.rows('SELECT reason FROM bad_line'))\n"
        # On Linux ru_maxrss also counts the process that started this one; VmHWM does not.
        "status = Path('/proc/self/status')\n"
        "hwm = [l.split()[1] for l in status.read_text().splitlines() if l.startswith('VmHWM')] if status.exists() "
        "else []\nprint(*hwm or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"ENGRAM_HOME": str(settings.home), "CLAUDE_CONFIG_DIR": str(settings.claude_folder)},
    )

    said, bad, peak = done.stdout.splitlines()
    assert said == "['Before', 'Behind']"
    assert bad == "[('too long',)]"
    peak_mb = int(peak) / (1024 if sys.platform != "darwin" else 1024 * 1024)
    print(f"peak {peak_mb:.0f} MB")
    assert peak_mb <= 450
