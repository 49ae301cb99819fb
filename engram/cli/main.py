"""The entry point ``engram``: global flags, commands that are loaded on demand, errors as one line."""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import io
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from engram.cli import options
from engram.cli.workspace import Workspace, flags_from
from engram.errors import EngramError
from engram.paths import Home, default_home
from engram.trust.display import visible
from engram.version import VERSION

#: Command → module that defines it, in the order of the help.
COMMANDS = {
    "install": "engram.cli.install_commands",
    "uninstall": "engram.cli.uninstall_command",
    "up": "engram.cli.up_commands",
    "watch": "engram.cli.process_commands",
    "work": "engram.cli.process_commands",
    "ingest": "engram.cli.ingest_command",
    "recall": "engram.cli.recall_commands",
    "search": "engram.cli.recall_commands",
    "expand": "engram.cli.memory_commands",
    "why": "engram.cli.why_commands",
    "where": "engram.cli.why_commands",
    "fix": "engram.cli.why_commands",
    "blame": "engram.cli.why_commands",
    "timeline": "engram.cli.memory_commands",
    "save": "engram.cli.memory_commands",
    "edit": "engram.cli.change_commands",
    "correct": "engram.cli.change_commands",
    "pin": "engram.cli.change_commands",
    "bad": "engram.cli.change_commands",
    "feedback": "engram.cli.change_commands",
    "propose": "engram.cli.consolidate_commands",
    "undo": "engram.cli.memory_commands",
    "forget": "engram.cli.change_commands",
    "contradictions": "engram.cli.memory_commands",
    "ui": "engram.cli.process_commands",
    "status": "engram.cli.status_commands",
    "report": "engram.cli.status_commands",
    "compare": "engram.cli.compare_command",
    "doctor": "engram.cli.service_commands",
    "sessions": "engram.cli.session_commands",
    "projects": "engram.cli.project_commands",
    "tasks": "engram.cli.task_commands",
    "logs": "engram.cli.status_commands",
    "cost": "engram.cli.status_commands",
    "pause": "engram.cli.session_commands",
    "consolidate": "engram.cli.consolidate_commands",
    "purge": "engram.cli.change_commands",
    "export": "engram.cli.transfer_commands",
    "import": "engram.cli.transfer_commands",
    "restore": "engram.cli.transfer_commands",
    "hub": "engram.cli.hub_commands",
    "pack": "engram.cli.pack_commands",
    "team": "engram.cli.team_commands",
    "share": "engram.cli.team_commands",
    "unshare": "engram.cli.team_commands",
    "hooks": "engram.cli.plugin_commands",
    "plugin": "engram.cli.plugin_commands",
    "service": "engram.cli.service_commands",
    "config": "engram.cli.config_commands",
    "model": "engram.cli.config_commands",
    "completion": "engram.cli.config_commands",
    "bench": "engram.cli.bench_command",
}


#: System errors about a file, which the user can fix: the program is not at fault.
_REFUSALS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.EFBIG,
        errno.ENAMETOOLONG,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ENOENT,
    }
)


#: Packages of this program: an import that fails in them is a bug.
_OWN_PACKAGES = frozenset({"engram", "engram_hooks", "engram_mcp"})


class CommandGroup(click.Group):
    """A group that imports a command's module only when the command is used, so that every start is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands of this version, in the order of the help."""
        return [name for name, module in COMMANDS.items() if importlib.util.find_spec(module) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        for value in vars(module).values():
            if isinstance(value, click.Command) and value.name == cmd_name:
                return value
        raise click.ClickException(f"{module.__name__} defines no command {cmd_name}")

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Expected failures, and those with an external cause, become one line and exit code 1."""
        try:
            return super().invoke(ctx)
        except EngramError as error:
            raise click.ClickException(visible(str(error))) from error
        except BrokenPipeError:
            raise
        except (OSError, *_DAMAGE_SIGNS) as error:
            if cause := _find_cause(ctx, error):
                raise click.ClickException(cause) from error
            raise


#: Exceptions that reading a damaged memory.db can raise.
_DAMAGE_SIGNS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def _find_cause(ctx: click.Context, error: Exception) -> str:
    """The external cause of an unexpected failure (the disk, or a damaged memory.db); "" if there is none."""
    if isinstance(error, OSError):
        from engram.system.atomic import explain_error

        return explain_error(error) if error.errno in _REFUSALS else ""
    workspace = ctx.find_object(Workspace)
    try:
        if workspace is None or not workspace.places.memory_db.is_file():
            return ""
        from engram.models.rescue.soundness import find_all_damage

        with workspace.store() as store:
            damage = find_all_damage(store)
    except EngramError as worse:
        return str(worse)
    except _DAMAGE_SIGNS:
        return ""
    return f"memory.db is damaged: {damage}. Run `engram doctor` to see what to do." if damage else ""


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every setting has a flag (--set), a variable (ENGRAM_<NAME>) and a key in config.toml. "
    "See `engram config`.",
)
@click.option(
    "--home", metavar="DIR", default=None, help="The memory folder (default: ENGRAM_HOME or ~/.claude-memory)."
)
@click.option(
    "--claude-folder",
    metavar="DIR",
    default=None,
    help="Claude Code's configuration folder (default: CLAUDE_CONFIG_DIR or ~/.claude).",
)
@click.option(
    "--vault",
    metavar="NAME",
    default=None,
    help="Work on the vault of this project (`engram projects vault`) instead of the memory folder (default: none).",
)
@click.option(
    "--set",
    "assignments",
    metavar="NAME=VALUE",
    multiple=True,
    help="Any setting for this call only, such as --set recall_limit=10. Can be given several times (default: none).",
)
@click.version_option(VERSION, prog_name="engram")
@click.pass_context
def engram(
    ctx: click.Context, home: str | None, claude_folder: str | None, vault: str | None, assignments: tuple[str, ...]
) -> None:
    """Long-term memory for Claude Code. It stays on this machine; you can see, explain, edit and forget everything.

    Example: engram up
    """
    flags = flags_from(home, claude_folder, assignments)
    if ctx.obj is None:
        ctx.obj = Workspace(flags)
    elif not ctx.obj.flags:
        ctx.obj.flags = flags
    ctx.obj.vault = vault


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. A bug in Engram is logged with its traceback and reported in one line."""
    os.umask(0o077)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that can't display a character shows a substitute: that is no reason to fail.
            stream.reconfigure(errors="replace")
    workspace = Workspace({})
    try:
        code = engram.main(
            args=None if arguments is None else list(arguments),
            prog_name="engram",
            standalone_mode=False,
            obj=workspace,
        )
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(file=shown)
        click.echo(visible(shown.getvalue().rstrip("\n"), keep_lines=True), err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(options.INTERRUPTED)
    except BrokenPipeError:
        _leave_pipe()
        sys.exit(options.OK)
    except ImportError as error:
        if (error.name or "engram").partition(".")[0] in _OWN_PACKAGES:
            _report_fault(error, workspace)
            sys.exit(options.BROKEN)
        click.echo(visible(_advise_packages(error)), err=True)
        sys.exit(options.FAILED)
    except Exception as error:  # noqa: BLE001 - the outermost handler of the command line
        _report_fault(error, workspace)
        sys.exit(options.BROKEN)
    sys.exit(code if isinstance(code, int) else options.OK)


def _advise_packages(error: ImportError) -> str:
    """What to run where a package is missing or too old, such as after an update of a checkout in place."""
    from engram.version import update_command

    return (
        f"Error: Engram's code needs another version of {error.name}: it was updated, and its packages were not. "
        f"Run: {update_command()}; then: engram install"
    )


def _leave_pipe() -> None:
    """The reader of the output is gone: keep Python from reporting that at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_fault(error: Exception, workspace: Workspace) -> None:
    from engram.log import start_logging
    from engram.redaction import redact
    from engram.system.atomic import make_private_folder

    logs = _logs_of(workspace)
    with contextlib.suppress(OSError):
        make_private_folder(logs, with_parents=True)
    start_logging(logs, "cli", "info", redact)
    logging.getLogger(__name__).error("action=command fault=%s", type(error).__name__, exc_info=error)
    click.echo(f"Error: a bug in Engram ({type(error).__name__}). Details: {logs / 'cli.log'}", err=True)


def _logs_of(workspace: Workspace) -> Path:
    """The log folder of the memory that the command works on, or the default one if the settings can't be read."""
    try:
        return workspace.places.logs
    except (EngramError, OSError):
        named = workspace.flags.get("home", "")
        return Home(Path(named).expanduser().absolute() if named else default_home()).logs


if __name__ == "__main__":
    main()
