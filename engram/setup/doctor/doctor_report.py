"""What ``engram doctor --report`` and ``--fix`` do: a report for a bug tracker, and safe repairs.

The report contains versions, figures, findings and the shape of errors, but no paths, names or content. Only data that
this module lists is written. A finding appears with its name, its state and its ``public`` text, and a logged error
with its type and the lines of Engram's own code. Values of settings appear only if they can't be private.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from engram.errors import EngramError
from engram.log import LOG_KINDS, Record, read_records
from engram.reports.engram_checks import Check, State
from engram.settings import CHOICES, Settings
from engram.setup.doctor.machine_checks import Machine
from engram.setup.services.service_plan import end_other_versions
from engram.system.lazy_regex import lazy_regex
from engram.trust.display import number_of
from engram.version import code_version
from engram_hooks.block import link_interpreter

#: Maximum number of errors from the logs that are reported. Only the latest ones are.
MAX_ERRORS = 10
#: Maximum number of lines of Engram's code that are reported for one error, from the innermost calls.
MAX_FRAMES = 6
#: Text setting → its values that reveal nothing, because Engram defines them.
_WORDS = {**CHOICES, "embedding_model": ("bundled", "hashed")}
#: The folders of the three packages, next to one another in an installation.
_ROOTS = (Path(__file__).resolve().parents[3],)
_FRAME = lazy_regex(r'File "[^"]*/((?:engram|engram_hooks|engram_mcp)/[\w/]+\.py)", line (\d+), in ([\w<>]+)')
_EXCEPTION = lazy_regex(r"^([A-Za-z_][\w.]*)(?::|$)")
_ACTION = lazy_regex(r"\b(?:action|hook)=([a-z_]+)\b")
_FAILURE = lazy_regex(r"\b(?:failed|error|fault)=([A-Z]\w*(?:Error|Exception|Conflict|Database|Locked))\b")


def write_report(machine: Machine, findings: Iterable[Check]) -> str:
    sections = {
        "Versions": _versions(machine),
        "Settings that were changed": _settings(machine.settings),
        "Figures": _figures(machine),
        "Findings": (f"{finding.state.value:<4} {finding.name}: {finding.public or '–'}" for finding in findings),
        "Errors in the logs": _errors(machine),
    }
    lines = ["Engram report. It contains no paths, project names or contents; read it before you share it."]
    for title, texts in sections.items():
        lines += ["", f"## {title}", "", *(list(texts) or ["none"])]
    return "\n".join(lines)


def _versions(machine: Machine) -> Iterator[str]:
    yield f"engram {code_version()}"
    yield f"python {platform.python_version()} ({platform.python_implementation()})"
    yield f"{platform.system()} {platform.release()} {platform.machine()}"
    yield f"service: {machine.service.name}"


def _settings(settings: Settings) -> Iterator[str]:
    """Yield the settings that differ from their defaults, with the value of numbers, switches and known words only."""
    for field in dataclasses.fields(Settings):
        if field.default is dataclasses.MISSING:
            continue
        value = getattr(settings, field.name)
        if value == field.default:
            continue
        is_public = isinstance(value, bool | int | float) or value in _WORDS.get(field.name, ())
        yield f"{field.name} = {value}" if is_public else f"{field.name}: changed"


def _figures(machine: Machine) -> Iterator[str]:
    health = machine.health
    if health is None:
        yield "the memory can't be opened"
        return
    totals = health.totals
    yield f"{totals.transcripts} transcripts, {totals.sessions} sessions, {totals.turns} turns"
    memories, texts = number_of(totals.memories, "memory"), number_of(health.missing_vectors, "text")
    yield f"{memories}, {health.pending or 'no task'} pending, {texts} without a vector"
    yield f"{health.unread.files} unread transcripts, {health.unread.bytes} bytes"
    for name, stage in health.stages.items():
        failing = ", failing" if stage.last_error else ""
        yield f"stage {name}: {stage.done} of {stage.seen}, {stage.lag_seconds:.0f} s behind{failing}"


def _errors(machine: Machine) -> Iterator[str]:
    """Yield the latest warnings and errors in the logs, by time: the action, and the failure's type and place."""
    records = [record for kind in LOG_KINDS for record in read_records(machine.home.logs, kind) if record.is_problem]
    for record in sorted(records, key=lambda record: record.time)[-MAX_ERRORS:]:
        yield _describe(record)


def _describe(record: Record) -> str:
    head, *rest = record.text.splitlines()
    action, failure = _ACTION.search(head), _FAILURE.search(head)
    words = [record.time[:16], record.kind, record.level]
    words += [f"action={action[1]}"] if action else []
    exceptions = [found[1] for line in rest if (found := _EXCEPTION.match(line)) and _is_exception(found[1])]
    words += exceptions[-1:] or ([failure[1]] if failure else [])
    frames = [f"{path}:{line} {function}" for path, line, function in _FRAME.findall("\n".join(rest)) if _is_ours(path)]
    return " ".join(words) + "".join(f"\n    {frame}" for frame in frames[-MAX_FRAMES:])


def _is_exception(name: str) -> bool:
    """Return True if the last part of a dotted name ends like the name of an exception."""
    return name.rpartition(".")[2].endswith(("Error", "Exception", "Interrupt", "Exit", "Warning", "Conflict"))


def _is_ours(path: str) -> bool:
    """Return True for a file of Engram's own code."""
    package, _, rest = path.partition("/")
    roots = {"engram": "", "engram_hooks": "hooks", "engram_mcp": "mcp_server"}
    return any((root / folder / package / rest).is_file() for root in _ROOTS for folder in ("", roots[package]))


# -- What ``engram doctor --fix`` does: only safe things, inside the memory folder or to Engram's own processes.


def close_folder(machine: Machine) -> str:
    """Make the memory folder unreadable for other users. Links are not followed."""
    for path in (machine.home.root, *machine.home.root.rglob("*")):
        with contextlib.suppress(OSError):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) & 0o077:
                os.chmod(path, stat.S_IMODE(mode) & 0o700)
    return f"closed {machine.home.root} to other users"


def link_python(machine: Machine) -> str:
    """Make the hooks use this interpreter."""
    link_interpreter(machine.around.places)
    return f"linked {machine.around.places.python_link} to this interpreter"


def start(machine: Machine) -> str:
    machine.service.start()
    return "started the worker and the watcher"


def restart(machine: Machine) -> str:
    machine.service.restart()
    return "restarted the worker and the watcher"


def end_others(machine: Machine) -> str:
    """Stop the processes of another version, whoever started them, and start this version's."""
    ended = end_other_versions(machine.around)
    machine.service.start()
    return f"ended {', '.join(other.described for other in ended)}; started the worker and the watcher"


#: Name of a fix, as used in findings → its function, which returns what was done, in words.
FIXES: Mapping[str, Callable[[Machine], str]] = {
    "close-folder": close_folder,
    "link-python": link_python,
    "start": start,
    "restart": restart,
    "end-others": end_others,
}


def apply_fixes(machine: Machine, findings: Iterable[Check]) -> list[str]:
    """Apply each fix that findings suggest, once; return what was done, or why it could not be done."""
    wanted = {finding.fix for finding in findings if finding.fix and finding.state is not State.OK}
    if any(fault.stops for fault in machine.faults):
        wanted -= {"start", "restart", "end-others"}  # nothing would start again
    if "end-others" in wanted:
        wanted -= {"start", "restart"}
    if "restart" in wanted:
        wanted.discard("start")
    lines = []
    for name in FIXES:
        if name in wanted:
            try:
                lines.append(FIXES[name](machine))
            except EngramError as error:
                lines.append(f"could not {name.replace('-', ' ')}: {error}")
    return lines
