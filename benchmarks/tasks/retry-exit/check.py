"""A server out of reach ends in status 93, a broken file in another failure; each says one line on stderr."""

import subprocess
import sys
import tempfile
from pathlib import Path

RUN = """
import runpy, sys, urllib.error, urllib.request
def urlopen(*arguments, **options):
    raise {error}
urllib.request.urlopen = urlopen
sys.argv[:] = ["tidelog", sys.argv[1]]
runpy.run_module("tidelog", run_name="__main__", alter_sys=True)
"""


def run(text, error):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "readings.txt")
        file.write_text(text)
        command = [sys.executable, "-B", "-c", RUN.format(error=error), str(file)]
        ended = subprocess.run(command, cwd=sys.argv[1], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in ended.stderr, "there is still a traceback"
    assert len(ended.stderr.strip().splitlines()) == 1, f"stderr: {ended.stderr!r}"
    return ended.returncode


GOOD = "pier 2026-11-02T06:00 141\n"
broken = run("pier 2026-11-02T06:00 low\n", "AssertionError")
assert broken not in (0, 93), f"a broken file ends with {broken}"
for error in ("urllib.error.URLError('no route')", "TimeoutError('timed out')", "ConnectionRefusedError('refused')"):
    status = run(GOOD, error)
    assert status == 93, f"a server out of reach ends with {status}"
print("a server out of reach ends with 93")
