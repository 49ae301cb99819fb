"""The folder of the reports."""

from pathlib import Path


def write_report(folder, day, text):
    """Write the report of a day."""
    path = Path(folder) / f"report-{day.isoformat()}.txt"
    path.write_text(text, encoding="utf-8")
    return path


def list_reports(folder):
    """Return the reports, the oldest first."""
    return sorted(Path(folder).glob("report-*.txt"))


def prune(folder, keep):
    """Delete all but the newest reports."""
    reports = list_reports(folder)
    for path in reports[: max(len(reports) - keep, 0)]:
        path.unlink()
