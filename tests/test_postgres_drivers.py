"""No process of a machine loads a PostgreSQL driver, even where one is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
import engram.watcher.watch, engram.worker.lifecycle, engram.page.page_process, engram_mcp.server
print(sorted(name for name in sys.modules if name.startswith(("psycopg", "pymysql"))))
"""


def test_no_process_of_a_machine_loads_a_driver() -> None:
    pytest.importorskip("psycopg")

    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
