"""The entry point ``engram``: global flags, commands loaded when they are asked for, errors as one line."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import logging
import os
import sys
from collections.abc import Sequence

import click

from engram.cli import exits
from engram.cli.workspace import Workspace, flags_from
from engram.errors import EngramError
from engram.redaction.display import visible

#: Command → module that holds it, in the order of the help.
COMMANDS = {
    "up": "engram.cli.up_command",
    "watch": "engram.cli.service_commands",
    "work": "engram.cli.service_commands",
    "ingest": "engram.cli.ingest_command",
    "recall": "engram.cli.recall_commands",
    "search": "engram.cli.recall_commands",
    "expand": "engram.cli.expand_command",
    "timeline": "engram.cli.timeline_command",
    "save": "engram.cli.save_command",
    "edit": "engram.cli.change_commands",
    "correct": "engram.cli.change_commands",
    "pin": "engram.cli.change_commands",
    "bad": "engram.cli.change_commands",
    "forget": "engram.cli.forget_command",
    "contradictions": "engram.cli.contradictions_command",
    "status": "engram.cli.status_command",
    "report": "engram.cli.report_command",
    "doctor": "engram.cli.doctor_command",
    "sessions": "engram.cli.sessions_command",
    "projects": "engram.cli.projects_command",
    "tasks": "engram.cli.tasks_command",
    "logs": "engram.cli.logs_command",
    "cost": "engram.cli.cost_command",
    "pause": "engram.cli.pause_command",
    "consolidate": "engram.cli.consolidate_command",
    "purge": "engram.cli.purge_command",
    "export": "engram.cli.export_command",
    "import": "engram.cli.export_command",
    "restore": "engram.cli.restore_command",
    "hooks": "engram.cli.hooks_command",
    "service": "engram.cli.service_command",
    "config": "engram.cli.config_command",
    "completion": "engram.cli.completion_command",
    "bench": "engram.cli.bench_command",
}


class CommandGroup(click.Group):
    """Imports a command's module only when the command is asked for: the start of every command stays short."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command that this version has, in the order of the help."""
        return [name for name, module in COMMANDS.items() if importlib.util.find_spec(module) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; None where there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        for one in vars(module).values():
            if isinstance(one, click.Command) and one.name == cmd_name:
                return one
        raise click.ClickException(f"{module.__name__} holds no command {cmd_name}")

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an expected failure becomes one line and exit code 1."""
        try:
            return super().invoke(ctx)
        except EngramError as error:
            raise click.ClickException(visible(str(error))) from error


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every setting has a flag (--set), a variable (ENGRAM_<NAME>) and a line in config.toml; see `engram config`.",
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
    "--set",
    "assignments",
    metavar="NAME=VALUE",
    multiple=True,
    help="Any setting for this one call, such as --set recall_limit=10; may be given several times (default: none).",
)
@click.version_option(package_name="engram-recall", prog_name="engram")
@click.pass_context
def engram(ctx: click.Context, home: str | None, claude_folder: str | None, assignments: tuple[str, ...]) -> None:
    """Long-term memory for Claude Code: local, quiet, yours to see, explain, edit and forget.

    Example: engram up
    """
    if ctx.obj is None:
        ctx.obj = Workspace(flags_from(home, claude_folder, assignments))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; a fault in Engram goes to the log with its traceback, and says so in one line."""
    os.umask(0o077)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot write a letter shows another one; it is no reason to fail.
            stream.reconfigure(errors="replace")
    try:
        code = engram.main(
            args=None if arguments is None else list(arguments), prog_name="engram", standalone_mode=False
        )
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(file=shown)
        click.echo(visible(shown.getvalue().rstrip("\n"), keep_lines=True), err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(exits.INTERRUPTED)
    except BrokenPipeError:
        _leave_pipe()
        sys.exit(exits.OK)
    except Exception as error:  # noqa: BLE001 - the edge of the command line
        _report_fault(error)
        sys.exit(exits.BROKEN)
    sys.exit(code if isinstance(code, int) else exits.OK)


def _leave_pipe() -> None:
    """The reader of our output is gone: keep Python from complaining about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_fault(error: Exception) -> None:
    from engram.atomic import make_private_folder
    from engram.log import start_logging
    from engram.paths import Home, default_home
    from engram.redaction import redact

    logs = Home(default_home()).logs
    with contextlib.suppress(OSError):
        make_private_folder(logs)
    start_logging(logs, "cli", "info", redact)
    logging.getLogger(__name__).error("action=command fault=%s", type(error).__name__, exc_info=error)
    click.echo(f"Error: a fault in Engram ({type(error).__name__}); {logs / 'cli.log'} has the details", err=True)


if __name__ == "__main__":
    main()
