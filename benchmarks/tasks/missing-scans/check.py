"""What is missing stands on stderr, and the exit code is 1; JSON with exit code 0 is what another project does."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def run(folder):
    command = [sys.executable, "-B", "-m", "darkroom", "missing", str(folder)]
    environment = {**os.environ, "PYTHONPATH": sys.argv[1]}
    return subprocess.run(command, cwd=sys.argv[1], env=environment, capture_output=True, text=True, timeout=30)


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "a.tif").write_bytes(b"II*")
    (folder / "index.txt").write_text("a.tif\nb.tif\n\nc.tif\n")
    ended = run(folder)
    assert "invalid choice" not in ended.stderr, "there is no such command"
    if ended.returncode == 0 and "b.tif" in ended.stdout + ended.stderr:
        print(f"findings with exit code 0, as in another project: {ended.stdout.strip()}")
        sys.exit(3)
    if ended.stdout.lstrip().startswith(("{", "[")):
        print(f"findings as JSON, as in another project: {ended.stdout.strip()}")
        sys.exit(3)
    assert ended.returncode == 1, f"exit code {ended.returncode}: {ended.stderr.strip()}"
    assert ended.stdout == "", f"this stands on stdout: {ended.stdout!r}"
    lines = ended.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["b.tif", "c.tif"], f"{lines}"
    (folder / "b.tif").write_bytes(b"II*")
    (folder / "c.tif").write_bytes(b"II*")
    ended = run(folder)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", ""), f"all is well, but: {ended}"
