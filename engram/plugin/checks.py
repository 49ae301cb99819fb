"""The checks of ``engram doctor`` on the plugin: disabled, of another version, or registered beside settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from engram.atomic import read_regular
from engram.paths import Home
from engram.plugin.files import NAME, plugin_files
from engram.plugin.registered import Registration, Way, find_double
from engram.reports.checks import Check, State
from engram.version import VERSION

#: Files of the plugin larger than this are not read, in bytes.
_MAX_FILE_BYTES = 1_000_000
_COMMAND = "engram install"
_RENEW = f"run: {_COMMAND}"


def check_registrations(
    registrations: list[Registration], home: Home | None = None, interpreter: str = sys.executable
) -> Iterator[Check]:
    """Check the plugin, and that no hook is registered twice. Yields nothing if there is neither.

    Args:
        registrations: what Claude Code has, from ``find_registrations``.
        home: a memory folder other than the default, as the plugin was made for.
        interpreter: absolute path of the interpreter that Engram is installed in.
    """
    for found in registrations:
        if found.way is not Way.SETTINGS:
            yield _check_plugin(found, home, interpreter)
        elif found.version and found.version != VERSION:
            detail = f"those in {found.path} are of version {found.version}, this is {VERSION}"
            yield Check("hooks' version", State.WARN, detail, _RENEW, command=_COMMAND)
    if double := find_double(registrations):
        places = " and ".join(f"by the {found.way} {found.path}" for found in double)
        detail = f"registered twice, {places}: memories are shown once, but every hook runs twice"
        yield Check(
            "hooks",
            State.WARN,
            detail,
            "run: engram install, which keeps the plugin alone",
            command=_COMMAND,
            public="registered twice",
        )


def has_plugin(registrations: list[Registration]) -> bool:
    """Return True if an enabled plugin brings the hooks and the MCP server."""
    return any(found.is_enabled and found.way is not Way.SETTINGS for found in registrations)


def plugin_name(registrations: list[Registration]) -> str:
    """Return the name of the enabled plugin."""
    enabled = [found.plugin_id for found in registrations if found.is_enabled and found.way is not Way.SETTINGS]
    return enabled[0].partition("@")[0] if enabled else NAME


def _check_plugin(found: Registration, home: Home | None, interpreter: str) -> Check:
    if not found.is_enabled:
        command = f"claude plugin enable {found.plugin_id}"
        detail = f"{found.plugin_id} is disabled, or all hooks are"
        advice = f"run: {command}, unless you disabled it on purpose"
        return Check("plugin", State.WARN, detail, advice, command=command, public="disabled")
    if found.version != VERSION:
        detail = f"{found.path} is of version {found.version or 'unknown'}, this is {VERSION}"
        return Check("plugin", State.WARN, detail, _RENEW, command=_COMMAND)
    if found.way is Way.SKILLS_FOLDER:
        name = found.plugin_id.partition("@")[0]
        # Whether it declares hosts depends on the Claude Code that there was at the installation.
        forms = [plugin_files(home, interpreter, name, declares_hosts=is_declared) for is_declared in (False, True)]
        differing = min((_differing(found.path, files) for files in forms), key=len)
        if differing:
            detail = f"{found.path} was changed, or made for another installation: {', '.join(differing[:3])}"
            return Check("plugin", State.WARN, detail, _RENEW, command=_COMMAND)
    return Check("plugin", State.OK, f"{found.plugin_id}, version {found.version}")


def _differing(folder: Path, files: dict[str, bytes]) -> list[str]:
    """Return the paths of files that are missing or hold something else."""
    return [path for path, content in files.items() if read_regular(folder / path, _MAX_FILE_BYTES) != content]
