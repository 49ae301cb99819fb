"""P3: a queue that lost only its side files, as when it is deleted just as it is made anew, rings again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engram.paths import Home
from engram.tasks.queue import EngramQueue

ENQUEUE = (
    "import sys\n"
    "from engram.paths import Home\n"
    "from engram.tasks.session_tasks import flush\n"
    "from engram.tasks.queue import huey\n"
    "from pathlib import Path\n"
    "huey.bind(Home(Path(sys.argv[1])), sys.argv[2])\n"
    "flush(sys.argv[3])\n"
    "huey.storage.close()\n"
)


@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
def test_what_another_process_enqueues_from_then_on_is_seen(tmp_path: Path, driver: str) -> None:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    queue = EngramQueue().bind(home, driver)
    storage = queue.storage

    def enqueue(session: str) -> None:
        subprocess.run(
            [sys.executable, "-c", ENQUEUE, str(home.root), driver, session], check=True, env=dict(os.environ)
        )

    def take() -> list[str]:
        return [json.loads(bytes(data))["message"]["args"][0] for data in iter(storage.dequeue, None)]

    try:
        enqueue("s1")
        first = take()
        for suffix in ("-wal", "-shm"):
            home.queue_db.with_name(f"queue.db{suffix}").unlink()
        enqueue("lost, and found again by the scan")
        take()
        enqueue("s3")
        assert (first, take()) == (["s1"], ["s3"])
    finally:
        storage.close()
