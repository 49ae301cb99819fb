"""Options that several commands share, and durations as people write them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import click
from click.core import ParameterSource

from engram.cli.output import fitted, print_json, safe
from engram.cli.workspace import advise, as_called_here, pass_workspace
from engram.errors import BadRequest
from engram.system.lazy_regex import lazy_regex
from engram.trust.display import as_arguments, visible

Command = TypeVar("Command", bound=Callable[..., Any])
Answer = TypeVar("Answer")

_SPAN = lazy_regex(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)?")
_WRITE_SPAN = "Write a number and its unit, such as 90s, 30m, 1h, 7d or 2w."
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts (default: text).")
project_option = click.option(
    "--project", metavar="NAME", default=None, help="Only this project: its name or a folder in it (default: all)."
)
yes_option = click.option("--yes", is_flag=True, help="Don't ask (default: show what will change, and ask).")


def json_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` to a command, and pass it the workspace: nearly every command needs both."""
    return json_option(pass_workspace(command))


def folder_project_option(command: Command) -> Command:
    """Add ``--project`` and ``--all``, which override the current folder's project."""
    name = click.option(
        "--project", metavar="NAME", default=None, help="Only this project (default: this folder's, or else all)."
    )
    every = click.option("--all", "is_everywhere", is_flag=True, help="Look in all projects (default: see --project).")
    return name(every(command))


def limit_option(default: int, what: str, *names: str) -> Callable[[Command], Command]:
    """Add ``-n``, ``--limit`` and any other names: the maximum number of results."""
    return click.option(
        "-n",
        "--limit",
        *names,
        "limit",
        type=click.IntRange(1, 100_000),
        default=default,
        show_default=True,
        metavar="N",
        help=f"Maximum number of {what} to print.",
    )


#: The longest duration that is accepted, beyond which dates overflow.
_MOST_SECONDS = 100 * 366 * 86_400.0


class TimeSpan(click.ParamType[float]):
    """A duration such as 90s, 30m, 1h or 7d, converted to seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        match = _SPAN.fullmatch(str(value).strip().lower())
        if match is None:
            self.fail(f"{value!r} is not a duration. {_WRITE_SPAN}", param, ctx)
        if match[2] is None:
            self.fail(f"{value!r} has no unit. {_WRITE_SPAN}", param, ctx)
        seconds = float(match[1]) * _SECONDS[match[2]]
        if not seconds:
            self.fail(f"{value!r} is zero. {_WRITE_SPAN}", param, ctx)
        if seconds > _MOST_SECONDS:
            self.fail(f"{value!r} is longer than a hundred years. {_WRITE_SPAN}", param, ctx)
        return seconds


def duration_option(examples: str, *, end: str) -> Callable[[Command], Command]:
    """Add ``--for TIME``, passed to the command as ``seconds``: None until the command ``end`` is run."""
    text = f"How long, such as {examples} (default: until `{end}`)."
    return click.option("--for", "seconds", type=TimeSpan(), default=None, metavar="TIME", help=text)


def require_alone(*names: str, but: Collection[str] = ()) -> None:
    """Raise UsageError if one of these parameters was given together with another that it would ignore.

    Args:
        but: the parameters that may be given as well; ``--json`` always may.
    """
    context = click.get_current_context()
    given = [
        option
        for option in context.command.params
        if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE and option.name != "as_json"
    ]
    for option in given:
        others = [other for other in given if other is not option and other.name not in but]
        if option.name in names and others:
            first, second = (_as_typed_name(parameter, context) for parameter in (option, others[0]))
            raise click.UsageError(f"{first} and {second} can't be combined")


def _as_typed_name(parameter: click.Parameter, context: click.Context) -> str:
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.make_metavar(context).strip("[].")


# -- Exit codes of the command line.

#: Success.
OK = 0
#: An expected failure; one line on stderr explains it.
FAILED = 1
#: A bug in Engram; the log has the traceback.
BROKEN = 70
#: Interrupted by Ctrl-C.
INTERRUPTED = 130


def end_answer(*, is_known: bool) -> NoReturn:
    """Exit from a command that looks something up, with exit code 1 if nothing was found, as ``grep`` does.

    That is not an error, but scripts can detect it. A command that prints an empty list exits with 0.
    """
    raise click.exceptions.Exit(OK if is_known else FAILED)


def end_with_nothing(sentence: str) -> NoReturn:
    """Print a sentence that says that nothing was found or done, and exit with code 1."""
    advise(sentence)
    end_answer(is_known=False)


# -- Confirm commands that make large changes: show what will change, ask, and report.


def confirm(yes: bool, as_json: bool, question: str) -> None:
    """Return if ``yes`` was given or the user agrees; otherwise exit.

    Raises:
        BadRequest: ``--json`` without ``--yes``, or nobody is there to answer.
    """
    if yes:
        return
    if as_json:
        raise BadRequest("--json can't ask: add --yes")
    require_agreement(question)


def require_agreement(question: str) -> None:
    """Ask, and return if the user agrees; otherwise exit.

    Raises:
        BadRequest: nobody is there to answer.
    """
    with answered("add --yes", question):
        is_agreed = agrees(question)
    if not is_agreed:
        end_with_nothing("Nothing was changed.")


def agrees(question: str, *, default: bool = False) -> bool:
    """Ask a yes-or-no question. After any other answer, print what to type, and ask again.

    Args:
        default: the answer if the user just presses Enter.

    Raises:
        Abort: Ctrl-C, or the input ends.
    """
    shown = f"{fitted(as_called_here(safe(question)), sys.stdout)} [{'Y/n' if default else 'y/N'}]"
    return _ask(shown, "y" if default else "n", _yes_or_no)


def _ask(question: str, default: str, parse: Callable[[str], Answer]) -> Answer:
    """Ask until an answer can be parsed. Without a terminal, a question that nobody answers is not printed.

    Args:
        parse: returns what an answer means, or raises UsageError.

    Raises:
        Abort: Ctrl-C, or the input ends.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        answer: Answer = click.prompt(question, default=default, show_default=False, value_proc=parse)
        return answer
    while True:
        typed = read_answer()
        click.echo(f"{question}: {safe(typed)}")
        try:
            return parse(typed or default)
        except click.UsageError as error:
            click.echo(f"Error: {error.message}")


def read_answer() -> str:
    """Return the next line of standard input, which is not a terminal. Raises Abort at its end."""
    line = "" if sys.stdin is None else sys.stdin.readline()
    if not line:
        raise click.Abort
    return line.strip()


def _yes_or_no(typed: str) -> bool:
    word = typed.strip().lower()
    if word not in ("y", "yes", "n", "no"):
        raise click.UsageError("type y for yes, n for no, or Ctrl-C to stop")
    return word.startswith("y")


def choose(question: str, answers: Sequence[str], default: str) -> str:
    """Ask until the user types one of the answers, or its beginning. Raises Abort on Ctrl-C, or if the input ends."""

    def chosen(typed: str) -> str:
        text = typed.strip().lower()
        meant = [text] if text in answers else [answer for answer in answers if answer.startswith(text)]
        if len(meant) != 1:
            known = f"{', '.join(answers[:-1])} or {answers[-1]}"
            raise click.UsageError(f"{safe(text)!r} is not an answer. Type {known}, or press Enter for {default}")
        return meant[0]

    return _ask(f"{fitted(safe(question), sys.stdout)} ({', '.join(answers)}) [{default}]", default, chosen)


@contextmanager
def answered(instead: str, question: str = "") -> Iterator[None]:
    """Run a block that asks a question. If the input ends without a terminal, raise BadRequest: do ``instead``.

    Args:
        question: the question, if nothing else says what an agreement would do.
    """
    try:
        yield
    except click.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        asked = f". The question: {question}" if question else ""
        raise BadRequest(f"there is nobody to answer: {instead}, or run it in a terminal{asked}") from None


# -- Ctrl-C.


class Stopped(KeyboardInterrupt):
    """The user stopped a command. The message says what was done, what was not, and what to type."""


@contextmanager
def if_stopped(message: str | Callable[[], str]) -> Iterator[None]:
    """If the user stops this block, print what was done and what to type, unless an inner block has already done so."""
    try:
        yield
    except Stopped:
        raise
    except KeyboardInterrupt as error:
        text = message if isinstance(message, str) else message()
        raise Stopped(" ".join(filter(None, ("Stopped.", str(error), as_called_here(text))))) from error


# -- Command lines with options but no command, and with empty arguments.


class DefaultGroup(click.Group):
    """A group that passes options without a command to a default command, as in ``engram projects --json``.

    Args:
        takes_words: also pass any word that is not a command to the default command, as in ``engram config NAME``.
        synonyms: word that people type → the command that is meant.
        of_two: the command that is meant by two words without a command; "" if none is.
    """

    def __init__(
        self,
        *arguments: Any,
        default: str = "list",
        takes_words: bool = False,
        synonyms: Mapping[str, str] | None = None,
        of_two: str = "",
        **others: Any,
    ) -> None:
        super().__init__(*arguments, **others)
        self._synonyms = synonyms or {}
        #: Name of the default command.
        self.default = default
        self._takes_words = takes_words
        self._of_two = of_two

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command if none was typed."""
        args = [self._synonyms.get(args[0], args[0]), *args[1:]] if args else args
        word = args[0] if args else "-"
        is_known = word in self.commands or word in ctx.help_option_names
        is_completed = ctx.resilient_parsing and not args
        if self._of_two and not is_known and [arg.startswith("-") for arg in args] == [False, False]:
            raise click.UsageError(f"Write: {ctx.command_path} {self._of_two} {as_arguments(*args)}", ctx)
        if not is_known and not is_completed and (word.startswith("-") or self._takes_words):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


#: What is wrong with an empty argument or value, such as one of blanks or control characters alone.
EMPTY = "it is empty"


def refuse_empty(command: click.Command) -> click.Command:
    """Make a command and its subcommands refuse an empty argument. Return the command.

    A parameter with its own callback decides for itself what counts as empty.
    """
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            refuse_empty(inner)
    for param in command.params:
        if isinstance(param, click.Argument):
            _name_in_errors(param)
        if param.callback is None and not hasattr(param, "is_refusing"):
            _refuse_empty_value(param)
    return command


def _name_in_errors(param: click.Argument) -> None:
    """Make errors refer to an argument by its name alone, without brackets, dots and the list of its choices."""
    name = f"'{(param.metavar or param.name or '').strip('[].').upper()}'"
    param.get_error_hint = lambda ctx: name  # type: ignore[method-assign]


def _refuse_empty_value(param: click.Parameter) -> None:
    cast = param.type_cast_value

    def checked(ctx: click.Context, value: Any) -> Any:
        is_typed = ctx.get_parameter_source(param.name or "") is click.core.ParameterSource.COMMANDLINE
        values = value if isinstance(value, tuple | list) else (value,)
        if is_typed and any(isinstance(value, str) and not visible(value).strip() for value in values):
            raise click.BadParameter(EMPTY, ctx=ctx, param=param)
        return cast(ctx, value)

    param.type_cast_value = checked  # type: ignore[method-assign]
    param.is_refusing = True  # type: ignore[attr-defined]


def as_typed(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Return the value unchanged: the callback of a parameter that may be empty or that the command itself checks."""
    return value


def usage_of(ctx: click.Context) -> str:
    """Return how a command is written, with every option that it requires."""
    usage = " ".join(ctx.get_usage().split()).removeprefix("Usage: ")
    needed = [param for param in ctx.command.params if isinstance(param, click.Option) and param.required]
    return " ".join([usage, *(f"{param.opts[-1]} {param.make_metavar(ctx)}" for param in needed)])


def tell(as_json: bool, facts: dict[str, Any], answer: str | Callable[[], object]) -> None:
    """Print the facts as JSON; without ``as_json``, a sentence for people, or what a function prints."""
    if as_json:
        print_json(facts)
    elif callable(answer):
        answer()
    else:
        advise(answer)
