"""The entry point ``engram``: global flags, commands loaded on demand, and errors printed as one line."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli import options
from engram.cli.output import is_plain, say
from engram.cli.workspace import Workspace, as_called_here, flags_from
from engram.errors import SEE_DOCTOR, BadRequest, EngramError, HomeError, told_with_advice
from engram.paths import Home, absolute_path, check_private, default_home
from engram.system.lazy_regex import lazy_regex
from engram.trust.display import as_arguments, nearest_names, shortened, visible
from engram.vaults import OF_ALL_VAULTS
from engram.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Heading of the help → its rows: commands with the module that defines them, and a sentence about them. A row
#: without a sentence only lists its commands.
SECTIONS: Mapping[str, Sequence[tuple[Mapping[str, str], str]]] = {
    "Ask": (
        ({"recall": "recall_commands"}, "Find what answers a question: memories, then passages"),
        ({"search": "recall_commands"}, "Find exact words in sessions and notes"),
        ({"timeline": "memory_commands"}, "List memories by time, latest first"),
        ({"sessions": "past_commands"}, "List sessions, or show everything about one"),
        ({"expand": "memory_commands"}, "Show a memory in full, or the turn of a quotation"),
        ({"where": "past_commands"}, "Show where the work in this folder stands"),
        ({"fix": "past_commands", "how": "past_commands"}, "Show what fixed an error, or how a tool was run here"),
        ({"blame": "past_commands"}, "Show which memories and sessions touched a file"),
    ),
    "Keep and fix": (
        ({"save": "memory_commands"}, "Save a text as a memory"),
        ({"edit": "change_commands", "correct": "change_commands"}, "Change a memory, or replace a wrong one"),
        ({"pin": "memory_commands"}, "Pin a memory: every briefing begins with it"),
        ({"feedback": "change_commands"}, "Judge a memory as helpful, wrong or outdated"),
        ({"review": "change_commands"}, "Decide about contradictions and suspect memories"),
        ({"undo": "memory_commands"}, "Undo the last change to a memory"),
        ({"forget": "change_commands"}, "Delete a memory for good, everywhere"),
        ({"propose": "task_commands"}, "Suggest lines for CLAUDE.md that are often needed"),
    ),
    "Look": (
        ({"ui": "status_commands"}, "Open the page: see, explain and correct everything"),
        ({"status": "status_commands"}, "Show what is running, and what was read and kept"),
        ({"why": "why_commands"}, "Show why Claude was shown something, or nothing"),
        ({"report": "report_commands", "cost": "report_commands"}, "Show what memory did, and what the model cost"),
        ({"projects": "project_commands"}, "List projects; join, rename, lock away or forget one"),
        ({"doctor": "status_commands"}, "Check everything and suggest what to do"),
    ),
    "Set up": (
        ({"install": "install_commands", "uninstall": "setup_commands"}, "Set up Engram on this machine, or remove it"),
        ({"up": "up_commands"}, "Run in the foreground, or read everything once"),
        ({"pause": "service_commands"}, "Read, keep and show nothing for a while"),
        ({"config": "setup_commands"}, "Show every setting, or change one"),
    ),
    "Share": (
        (
            {
                "sync": "sync_commands",
                "share": "team_commands",
                "unshare": "team_commands",
                "team": "team_commands",
                "hub": "hub_commands",
                "pack": "pack_commands",
                "export": "transfer_commands",
                "import": "transfer_commands",
            },
            "",
        ),
    ),
    "Advanced": (
        (
            {
                "consolidate": "task_commands",
                "purge": "change_commands",
                "restore": "transfer_commands",
                "compare": "report_commands",
                "tasks": "task_commands",
                "logs": "status_commands",
                "service": "service_commands",
                "setup": "setup_commands",
                "completion": "setup_commands",
            },
            "",
        ),
    ),
}

#: Command → module that defines it, in the help's order.
COMMANDS: Mapping[str, str] = {
    name: f"engram.cli.{module}"
    for rows in SECTIONS.values()
    for modules, _ in rows
    for name, module in modules.items()
}

#: Commands that create a missing memory folder. All others report that it is missing.
MAKING = frozenset(
    "install uninstall up save import restore service setup pause config completion sync hub team share unshare "
    "pack".split()
)

#: Command of an earlier version → its replacement, and how the replacement is written.
OLD_WORDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "bad": (("feedback",), "engram feedback ID wrong"),
    "contradictions": (("review",), "engram review"),
    "ingest": (("up", "--once", "--no-memories"), "engram up --once --no-memories [PATH]"),
    "watch": (("service", "run", "watcher"), "engram service run watcher"),
    "work": (("service", "run", "worker"), "engram service run worker"),
    "hooks": (("setup", "hooks"), "engram setup hooks"),
    "plugin": (("setup", "plugin"), "engram setup plugin"),
    "model": (("setup", "model"), "engram setup model NAME"),
}

#: Words that people know from other programs → the command that does the same.
GUESSES: Mapping[str, str] = {
    **dict.fromkeys(("ask", "query", "q", "get"), "recall"),
    **dict.fromkeys(("find", "grep"), "search"),
    **dict.fromkeys(("list", "ls", "history", "log"), "timeline"),
    **dict.fromkeys(("show", "view", "cat", "open"), "expand"),
    **dict.fromkeys(("add", "remember", "note", "store"), "save"),
    **dict.fromkeys(("delete", "remove", "rm", "erase"), "forget"),
    **dict.fromkeys(("wrong", "judge", "rate"), "feedback"),
    **dict.fromkeys(("suspects", "decide", "conflicts"), "review"),
    **dict.fromkeys(("page", "web", "dashboard", "browse", "gui"), "ui"),
    **dict.fromkeys(("stats", "usage", "summary"), "report"),
    **dict.fromkeys(("check", "diagnose", "health", "fix-it"), "doctor"),
    **dict.fromkeys(("init", "update", "upgrade", "connect"), "install"),
    **dict.fromkeys(("settings", "set"), "config"),
    **dict.fromkeys(("run", "read"), "up"),
    **dict.fromkeys(("start", "stop", "restart", "daemon", "worker", "watcher"), "service"),
    **dict.fromkeys(("tidy", "dedupe", "clean", "gc"), "consolidate"),
    **dict.fromkeys(("backup", "dump"), "export"),
    **dict.fromkeys(("memory", "memories"), "timeline"),
    **dict.fromkeys(("vault", "vaults"), "projects vault"),
    **dict.fromkeys(("unvault", "merge", "rename"), "projects"),
    "version": "--version",
}


#: Key of what was typed after the command, in the ``meta`` of its context.
_TYPED = "engram.typed"

#: Packages of this program; an import that fails in one of them is a bug.
_OWN_PACKAGES = frozenset({"engram", "engram_hooks", "engram_mcp"})


class CommandGroup(click.Group):
    """A group that imports a command's module only when the command is used, so that every start is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        for value in vars(module).values():
            if isinstance(value, click.Command) and value.name == cmd_name:
                return options.refuse_empty(value)
        raise click.ClickException(f"{module.__name__} defines no command {cmd_name}")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names; an earlier version's word still works, with a note."""
        word, *rest = args
        ctx.meta[_TYPED] = rest
        if word == "help" and not ctx.resilient_parsing:
            if not rest:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*rest, "--help"]
        elif word in OLD_WORDS:
            args = _in_new_words(word, rest)
            if not ctx.resilient_parsing:
                click.echo(f"`engram {word}` is now `{OLD_WORDS[word][1]}`; the old word still works.", err=True)
        elif word not in COMMANDS and not ctx.resilient_parsing and not word.startswith("-"):
            ctx.fail(f"there is no command {word!r}. {_suggestion(word)}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections, and then the options, all on one screen."""
        for heading, rows in SECTIONS.items():
            lines = [(", ".join(names), said) for names, said in rows]
            if all(said for _, said in lines):
                formatter.write(f"\n{click.style(heading, bold=True)}\n")
                formatter.indent()
                formatter.write_dl([(names.ljust(_NAMES_WIDTH), said) for names, said in lines])
                formatter.dedent()
            else:
                formatter.write("\n" if heading == "Share" else "")
                formatter.write_dl([(click.style(heading, bold=True).ljust(_NAMES_WIDTH), lines[0][0])], col_max=40)
        formatter.write(f"\n{_OPTIONS}\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name without loading a command."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        said = {name: sentence for rows in SECTIONS.values() for names, sentence in rows for name in names}
        return [CompletionItem(name, help=text) for name, text in said.items() if name.startswith(incomplete)]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read the command line, which may print the help."""
        with _quiet_pipe():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Expected failures, and those with an external cause, become one line and exit code 1."""
        with _quiet_pipe():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except EngramError as error:
            raise click.ClickException(as_called_here(visible(told_with_advice(error)))) from error
        except BrokenPipeError:
            raise
        except (OSError, *_DAMAGE_SIGNS) as error:
            if isinstance(error, OSError) and _is_of_output(error):
                raise
            if cause := _find_cause(ctx, error):
                raise click.ClickException(as_called_here(cause)) from error
            raise


#: Width of the command names in the help, in characters.
_NAMES_WIDTH = 18
#: The options of every command, as the help shows them; the reference explains each option.
_OPTIONS = """\
Before a command: --home DIR, --vault NAME, --claude-folder DIR, --version, and
--set NAME=VALUE (see `engram config`). `engram COMMAND --help` explains one."""


def _in_new_words(word: str, rest: Sequence[str]) -> list[str]:
    """Convert the arguments of a call that was written for an earlier version to their current form."""
    words = [*OLD_WORDS[word][0], *rest]
    if word == "bad" and not {"--off", "--help", "-h"} & set(rest):
        words.append("wrong")
    if word == "model" and rest[:1] == ["fetch"]:
        words.remove("fetch")
    return words


def _suggestion(word: str) -> str:
    """Return a suggestion of what an unknown word may mean."""
    from engram.config_file import SETTINGS

    near = [GUESSES[word]] if word in GUESSES else nearest_names(word, (*SETTINGS, *COMMANDS), 3)
    # A word that is nearest to a command is hardly meant as a setting, nor the other way round.
    near = [name for name in near if (name in SETTINGS) == (near[0] in SETTINGS)]
    near = near or [name for name in COMMANDS if word and name.startswith(word.lower())][:3]
    near = [f"config set {name}" if name in SETTINGS else name for name in near]
    meant = f"Did you mean {' or '.join(f'`engram {name}`' for name in near)}? " if near else ""
    return f"{meant}`engram --help` lists all commands."


#: Exceptions that reading a damaged memory.db can raise.
_DAMAGE_SIGNS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def _find_cause(ctx: click.Context, error: Exception) -> str:
    """Return the external cause of an unexpected failure (the disk, or a damaged memory.db); "" if there is none."""
    workspace = ctx.find_object(Workspace)
    if isinstance(error, OSError):
        from engram.system.atomic import explain_refusal

        if isinstance(error, PermissionError) and workspace is not None:
            try:
                check_private(workspace.places.root, is_dry=True)
            except HomeError as foreign:
                return str(foreign)
            except OSError:  # nor may anybody look at the folder's owner
                pass
        return explain_refusal(error)
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
    return f"memory.db is damaged: {damage}{SEE_DOCTOR}" if damage else ""


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--home", metavar="DIR", default=None, help="The memory folder (default: ENGRAM_HOME or ~/.claude-memory)."
)
@click.option(
    "--claude-folder",
    type=click.Path(file_okay=False),
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
    """\b
    Long-term memory for Claude Code, on this machine and yours to see and forget.
    Example: engram recall "why did we leave SQLite"
    """
    flags = flags_from(home, claude_folder, assignments)
    if ctx.obj is None:
        ctx.obj = Workspace(flags)
    elif not ctx.obj.flags:
        ctx.obj.flags = flags
    if vault is not None and ctx.invoked_subcommand in ("install", "uninstall"):
        raise BadRequest(
            f"`engram {ctx.invoked_subcommand}` is about the memory folder with all its vaults: leave out --vault"
        )
    # What connects and serves the memory folder serves its vaults, too.
    ctx.obj.vault = None if ctx.invoked_subcommand in OF_ALL_VAULTS else vault
    ctx.obj.may_make_home = ctx.invoked_subcommand in MAKING


options.refuse_empty(engram)


def _speak_utf8() -> None:
    """Start again in Python's UTF-8 mode if this process can only read and write ASCII.

    Python uses that mode by itself in the C locale, unless PYTHONUTF8=0 turns it off. Then arguments, names of files
    and texts in another script are garbled.
    """
    if sys.getfilesystemencoding() == "ascii":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.orig_argv[0], "-X", "utf8", *sys.orig_argv[1:]])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. A bug in Engram is logged with its traceback and reported in one line."""
    os.umask(0o077)
    if arguments is None:
        _speak_utf8()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Print a substitute for a character that the terminal can't display, instead of failing.
            stream.reconfigure(errors="replace")
    workspace = Workspace({})
    try:
        code = engram.main(
            args=None if arguments is None else list(arguments),
            prog_name="engram",
            standalone_mode=False,
            obj=workspace,
            color=False if is_plain() else None,
        )
    except click.exceptions.NoArgsIsHelpError as error:
        # A group without a command lists its commands, which is not an error.
        click.echo(error.format_message())
        sys.exit(error.exit_code)
    except click.ClickException as error:
        say(f"Error: {shortened(_as_called(error))}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        stopped = error.__cause__ if isinstance(error, click.Abort) else error
        click.echo(visible(str(stopped)) if isinstance(stopped, options.Stopped) else "Stopped.", err=True)
        sys.exit(options.INTERRUPTED)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name
        if (error.name or "engram").partition(".")[0] in _OWN_PACKAGES and not is_missing:
            _report_fault(error, workspace)
            sys.exit(options.BROKEN)
        click.echo(visible(_advise_packages(error)), err=True)
        sys.exit(options.FAILED)
    except Exception as error:  # noqa: BLE001 - the outermost handler of the command line
        _report_fault(error, workspace)
        sys.exit(options.BROKEN)
    sys.exit(code if isinstance(code, int) else options.OK)


#: Packages that the extra ``hub`` installs.
_HUB_PACKAGES = ("psycopg", "psycopg_pool")
#: Minimum similarity between an unknown option and one that is suggested instead.
_MIN_LIKENESS = 0.7
#: A suggestion, an unknown command, a range and a minimum, in the form in which click prints it.
_MEANT = lazy_regex(r" \(Did you mean (?:one of: )?([^)]*)\?\)")
_UNKNOWN_COMMAND = lazy_regex(r"No such command '([^']*)'")
_RANGE = lazy_regex(r"is not in the range (-?\d+)<=x<=(\d+)")
_LEAST = lazy_regex(r"is not in the range x>=(-?\d+)")
_WHOLE = lazy_regex(r"is not a valid integer( range)?")
#: Arguments that are texts of any words, which a shell divides if they are not in quotes.
_TEXTS = ("text", "query", "error", "tool", "value")


def _as_called(error: click.ClickException) -> str:
    """Return the message of an error, with every command written as this process was called."""
    message, context = _message_of(error), getattr(error, "ctx", None)
    if context is None:
        return message
    with context.scope(cleanup=False):
        return as_called_here(message)


def _message_of(error: click.ClickException) -> str:
    """Return what was wrong and, for a wrong command line, how to write it."""
    dashes = ""
    if isinstance(error, click.NoSuchOption):
        if before := _written_before(error):
            return f"{error.option_name} goes before the command. Write: {before}"
        error = click.NoSuchOption(error.option_name, possibilities=_near_options(error), ctx=error.ctx)
        if error.ctx is not None and not error.possibilities and _lacks_text(error.ctx):
            text = as_arguments(error.option_name)
            dashes = f" If it is a text and not an option, write: {error.ctx.command_path} {text}"
    message = error.format_message()
    if not isinstance(error, click.UsageError) or error.ctx is None or "engram --help" in message:
        return message
    if unknown := _UNKNOWN_COMMAND.match(message):
        guess = GUESSES.get(unknown[1], "")
        if isinstance(error.ctx.command, click.Group) and guess in error.ctx.command.commands:
            message = f"No such command '{unknown[1]}'. (Did you mean '{guess}'?)"
        message = _MEANT.sub(r" Did you mean \1?", message.replace("No such command", "there is no command"))
    message = _LEAST.sub(r"is less than \1", _RANGE.sub(r"is not between \1 and \2", message))
    message = _WHOLE.sub("is not a number", message)
    message = message if message.endswith((".", "?", ")")) else f"{message}."
    usage = options.usage_of(error.ctx)
    is_value = isinstance(error, click.BadParameter) and isinstance(error.param, click.Argument)
    if isinstance(error, click.MissingParameter) or (is_value and error.message == options.EMPTY):
        # click lists the choices on separate lines.
        needs_id = isinstance(error, click.MissingParameter) and getattr(error.param, "metavar", "") == "ID"
        listed = "; `engram timeline` lists memories with their ids" if needs_id else ""
        return f"{' '.join(message.split())} Write: {usage}{listed}"
    if "unexpected extra argument" in message:
        # Text with spaces was already in quotes, so the command takes no such text.
        is_loose = "extra arguments (" in message or " " not in message.partition("(")[2]
        takes_text = any(parameter.name in _TEXTS for parameter in error.ctx.command.params)
        help_line = f"`{error.ctx.command_path} --help` shows its options"
        advice = "put text of several words in quotes" if is_loose and takes_text else help_line
        return f"{message.removesuffix('.')}. Write: {usage}; {advice}."
    if isinstance(error, click.BadParameter) and error.message != options.EMPTY:  # says itself what can be given
        return message
    shows = "lists its commands" if isinstance(error.ctx.command, click.Group) else "shows its options"
    return f"{message} `{error.ctx.command_path} --help` {shows}.{dashes}"


def _lacks_text(ctx: click.Context) -> bool:
    """Return True if a command takes a free text, and none was typed: what looks like an option may be the text."""
    arguments = [parameter for parameter in ctx.command.params if isinstance(parameter, click.Argument)]
    takes_text = any(not isinstance(parameter.type, click.Choice) for parameter in arguments)
    return takes_text and all(word.startswith("-") for word in ctx.meta.get(_TYPED, ()))


def _near_options(error: click.NoSuchOption) -> list[str]:
    """Return the options that are spelled like an unknown one, ignoring the leading dashes."""
    from difflib import SequenceMatcher

    word = error.option_name.lstrip("-")
    known = error.ctx.command.params if error.ctx is not None else []
    names = [name for param in known if isinstance(param, click.Option) for name in param.opts if name[:2] == "--"]
    return [name for name in names if SequenceMatcher(None, word, name.lstrip("-")).ratio() >= _MIN_LIKENESS]


def _written_before(error: click.NoSuchOption) -> str:
    """Return how a command is written with an option that goes before it, such as --home; "" for any other option."""
    if error.ctx is None or error.ctx.parent is None:
        return ""
    root = error.ctx.find_root()
    option = next((option for option in root.command.params if error.option_name in option.opts), None)
    if not isinstance(option, click.Option):
        return ""
    value = "" if option.is_flag else f" {option.make_metavar(root)}"
    rest = error.ctx.command_path.removeprefix(root.command_path)
    return f"{root.command_path} {error.option_name}{value}{rest}"


def _advise_packages(error: ImportError) -> str:
    """Return what to run if a package is missing or too old, such as after updating a checkout in place."""
    from engram.version import install_command, update_command

    if (error.name or "").partition(".")[0] in _HUB_PACKAGES:
        return f"Error: a hub's server needs packages that are not installed; run: {install_command('hub')}"
    if (error.name or "").partition(".")[0] in _OWN_PACKAGES:
        return (
            f"Error: Engram's own code is incomplete: {error.name} is missing, such as after half an update. "
            f"Update it, or install it again. Then run: {update_command()}; then: engram install"
        )
    return (
        f"Error: Engram's code needs another version of {error.name}: it was updated, but its packages were not. "
        f"Run: {update_command()}; then: engram install"
    )


@contextlib.contextmanager
def _quiet_pipe() -> Iterator[None]:
    """Exit quietly if the reader of the output is gone, as with ``engram report | head``: that is not a failure.

    If output can't be written for another reason, such as a full disk, one line reports that. click handles neither
    case; it would exit with 1 in both.
    """
    try:
        try:
            yield
        finally:
            # Flush here, because nothing could catch a failure to write the buffer at exit.
            for stream in filter(None, (sys.stdout, sys.stderr)):  # None if it was closed when the command began
                stream.flush()
    except BrokenPipeError:
        _drop_output()
        raise click.exceptions.Exit(options.OK) from None
    except OSError as error:
        if not _is_of_output(error):
            raise
        _drop_output()
        raise click.ClickException(f"the output can't be written: {error.strerror}") from error


def _is_of_output(error: OSError) -> bool:
    """Return True if the error was raised by writing to standard output or standard error."""
    from engram.system.atomic import REFUSALS

    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    writers = click.echo.__code__, _quiet_pipe.__wrapped__.__code__  # type: ignore[attr-defined]
    return error.errno in REFUSALS and innermost is not None and innermost.tb_frame.f_code in writers


def _drop_output() -> None:
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
            continue
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report_fault(error: Exception, workspace: Workspace) -> None:
    import logging

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
    """Return the log folder of the command's memory, or the default one if the settings can't be read."""
    try:
        return workspace.places.logs
    except (EngramError, OSError):
        named = workspace.flags.get("home", "")
        return Home(absolute_path(named) if named else default_home()).logs


if __name__ == "__main__":
    main()
