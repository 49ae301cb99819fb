"""Old reports are in attic/ beside the others, whole; the newest ones are where they were."""

import sys
import tempfile
from datetime import date
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from berichte.store import list_reports, prune, write_report

with tempfile.TemporaryDirectory() as name:
    folder = Path(name) / "reports"
    folder.mkdir()
    for day in range(1, 6):
        write_report(folder, date(2026, 2, day), f"text {day}")
    prune(folder, 2)
    left = [path.name for path in list_reports(folder)]
    assert left == ["report-2026-02-04.txt", "report-2026-02-05.txt"], f"left: {left}"
    attic = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.parent != folder)
    wanted = [f"attic/report-2026-02-0{day}.txt" for day in (1, 2, 3)]
    assert attic == wanted, f"in the attic: {attic}"
    assert (folder / "attic" / "report-2026-02-01.txt").read_text(encoding="utf-8") == "text 1"
    prune(folder, 1)
    assert (folder / "attic" / "report-2026-02-04.txt").exists()
