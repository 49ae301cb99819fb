"""``engram sync`` and ``engram hub sync``: rounds on request, and a folder as the hub."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.options import answered, confirm, json_command, read_answer, yes_option
from engram.cli.output import print_json, say
from engram.cli.workspace import Workspace, advise
from engram.errors import BadRequest, HubError, NotFound
from engram.hub.client.folder_files import GIT, folder_of
from engram.hub.client.join_folder import begins_git, join_folder, look_into, uses_git
from engram.hub.client.membership import NOT_JOINED, Joined
from engram.hub.client.rounds import Round, sync_all
from engram.hub.protocol.requests import key_of
from engram.log import start_logging
from engram.models.engine.transaction import Store
from engram.models.hub.spaces import count_outgoing, list_servers, list_spaces, private_space
from engram.models.shown.usage import count_totals
from engram.paths import absolute_path
from engram.reports.hub_report import report_hubs
from engram.reports.processes import holder_of
from engram.transcripts.git_files import read_branch
from engram.trust.display import as_arguments, counted, number_of
from engram.vaults import own_vault

if TYPE_CHECKING:
    from engram.models.work.work import HeldLease

#: Seconds between two progress lines, and between two updates of the progress line on a terminal.
LINE_SECONDS, TERMINAL_SECONDS = 5.0, 0.5


def refuse_vault(workspace: Workspace) -> None:
    """Raise BadRequest if the memory is a vault."""
    vault = own_vault(workspace.places)
    if vault is not None:
        raise BadRequest(
            f"{vault.name} is kept in a vault, which is never shared with a hub. Leave out --vault; to share the "
            f"project, move it out first: engram projects unvault {as_arguments(vault.name)}"
        )


# -- Rounds


@click.command("sync-now", short_help="Sync with every hub now: pull, then push.")
@json_command
def sync_now(workspace: Workspace, as_json: bool) -> None:
    """Sync with every hub now: pull what other machines sent, and push what is new on this one.

    Example: engram hub sync
    """
    with workspace.store() as store:
        if not report_hubs(store):
            raise NotFound(NOT_JOINED)
        rounds = sync_once(workspace, store, is_quiet=as_json)
    workspace.wake_worker()
    _print_rounds(rounds, as_json=as_json)
    raise_errors(rounds)


def raise_errors(rounds: list[Round]) -> None:
    if errors := [done.error for done in rounds if done.error]:
        raise HubError("; ".join(errors))


def _print_rounds(rounds: list[Round], *, as_json: bool) -> None:
    """Print what the rounds did; the error of a failed round follows as the command's error."""
    pulled, pushed = sum(done.pulled for done in rounds), sum(done.pushed for done in rounds)
    told = f"{counted(pulled, 'change') or 'No change'} received, {counted(pushed, 'change') or 'none'} sent."
    if as_json:
        print_json({"rounds": [_round_json(done) for done in rounds]})
    elif pulled or pushed or not all(done.error for done in rounds):
        say(told)


def _round_json(done: Round) -> dict[str, Any]:
    return {"pulled": done.pulled, "pushed": done.pushed, "refused": done.refused, "error": done.error}


def hold_rounds(workspace: Workspace, store: Store) -> HeldLease:
    """Take the lease for rounds, which the worker also takes. Raises HubError while another process has it."""
    from engram.models.work.work import lease_owners
    from engram.tasks.upkeep_tasks import take_sync_lease

    lease = take_sync_lease(store)
    if lease is None:
        pid = lease_owners(store).get("sync", "").partition("-")[0]
        is_worker = bool(pid) and pid == str(holder_of(workspace.places.worker_lock))
        who = "the worker" if is_worker else f"another command (process {pid})" if pid else "another command"
        raise HubError(f"{who} is syncing right now: run `engram sync` again when it has finished")
    return lease


def sync_once(workspace: Workspace, store: Store, *, is_quiet: bool = False) -> list[Round]:
    """Sync with every hub while holding the lease for rounds, and show the progress. The log goes to a file.

    Raises:
        HubError: another process has the lease.
    """
    start_logging(workspace.places.logs, "cli", workspace.settings.log_level, workspace.redactor())
    with hold_rounds(workspace, store) as lease, _Progress(store, is_quiet=is_quiet) as progress:
        return sync_all(
            store,
            workspace.places,
            workspace.redactor(),
            is_forced=True,
            goes_on=lease.goes_on,
            on_progress=progress.show,
        )


class _Progress:
    """Reports progress on standard error: one line that is updated on a terminal, otherwise a new line now and then."""

    def __init__(self, store: Store, *, is_quiet: bool) -> None:
        self._store, self._is_quiet = store, is_quiet
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._every = TERMINAL_SECONDS if self._is_terminal else LINE_SECONDS
        self._shown_at = time.monotonic()
        self._width = 0

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            click.echo(f"\r{' ' * self._width}\r", nl=False, err=True)

    def show(self, pulled: int, pushed: int) -> None:
        """Show how many changes have been pulled and pushed so far."""
        now = time.monotonic()
        if self._is_quiet or now - self._shown_at < self._every:
            return
        self._shown_at = now
        waiting = sum(count_outgoing(self._store, space.id) for space in list_spaces(self._store))
        received = [f"{counted(pulled, 'change')} received"] if pulled else []
        sent = [f"{pushed:,} of {pushed + waiting:,} sent"] if pushed + waiting else []
        line = f"{', '.join([*received, *sent])} …"
        if not received and not sent:
            return
        if self._is_terminal:
            click.echo(f"\r{line.ljust(self._width)}", nl=False, err=True)
            self._width = max(self._width, len(line))
        else:
            click.echo(line, err=True)


def ask_phrase(question: str) -> str:
    """Return a recovery phrase, typed without echo at a terminal or read as a line from standard input.

    At a terminal, ask again if it is mistyped.

    Raises:
        BadRequest: the phrase is mistyped, or the input ends, and there is no terminal.
        Abort: Ctrl-C.
    """
    while True:
        is_terminal = sys.stdin.isatty()
        with answered("write the phrase to standard input"):
            phrase = str(click.prompt(question, hide_input=True, err=True)) if is_terminal else read_answer()
        try:
            key_of(phrase)
        except BadRequest as error:
            if not is_terminal:
                raise
            say(f"{error}. Try again, or press Ctrl-C.", err=True)
        else:
            return phrase


# -- A folder as the hub

_GIT_NOTE = (
    "With git, what you forget later is deleted from the folder, but remains, encrypted, in the history of the "
    "repository and of every clone. Each sync fetches, commits this machine's files and pushes them; your own "
    "commits are left alone."
)
_PHRASE_NOTE = (
    "Write this recovery phrase down; the folder does not have it, but `engram hub key --show` prints it again. Anyone "
    "with the phrase and the folder can read your memories; without the phrase or one of your machines, nobody can."
)


@click.command("sync")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--phrase",
    is_flag=True,
    help="Ask for the recovery phrase of the first machine (default: ask if the folder is in use).",
)
@click.option(
    "--git/--no-git",
    "with_git",
    default=None,
    help="DIR is a git checkout: fetch, commit and push, or don't (default: as last time; the first time, don't).",
)
@click.option("--name", default="", help="This machine's name (default: its host name).")
@yes_option
@json_command
def sync(
    workspace: Workspace, folder: Path | None, phrase: bool, with_git: bool | None, name: str, yes: bool, as_json: bool
) -> None:
    """Keep your machines in sync through a synced folder, encrypted and without a server; without DIR, sync now.

    DIR is a folder synced by Syncthing, Dropbox or similar, a mounted share or a git checkout. The first machine asks
    for confirmation, and shows a recovery phrase; the others ask for that phrase. From then on, the worker syncs
    automatically. `engram hub status` shows how it is going, `engram hub devices` shows the machines, and `engram hub
    leave` ends it.

    Example: engram sync ~/Sync/engram
    """
    refuse_vault(workspace)
    with workspace.store() as store:
        if folder is None and not list_servers(store):
            raise NotFound(NOT_JOINED)
        if folder is None and with_git is not None:
            raise click.UsageError("--git and --no-git require DIR")
        facts: dict[str, Any] = {}
        if folder is not None:
            is_git = uses_git(store, with_git)
            joined = _join(workspace, store, folder, is_git, phrase=phrase, name=name, yes=yes, as_json=as_json)
            facts = {"folder": str(folder_of(joined.server.url)), "git": is_git}
            facts |= {"phrase": joined.phrase} if joined.phrase else {}
            if not as_json:
                _print_joined(joined)
        rounds: list[Round] = []
        try:
            rounds = sync_once(workspace, store, is_quiet=as_json)
        finally:
            # Print the phrase whether or not the round succeeds, because it exists nowhere else.
            if as_json and (facts or rounds):
                print_json({"rounds": [_round_json(done) for done in rounds], **facts})
    workspace.wake_worker()
    if not as_json:
        _print_rounds(rounds, as_json=False)
    raise_errors(rounds)


def _join(
    workspace: Workspace, store: Store, folder: Path, is_git: bool, *, phrase: bool, name: str, yes: bool, as_json: bool
) -> Joined:
    """Use a folder, or keep using it, after asking the necessary questions."""
    folder = absolute_path(folder)
    is_new = private_space(store) is None
    is_used = bool(look_into(folder, with_git=is_git)) and is_new
    is_asked = phrase or (is_used and not as_json and sys.stdin.isatty())
    words = ask_phrase("Recovery phrase of your first machine") if is_asked else ""
    if begins_git(store, folder) if is_git else is_new and not (words or is_used):
        confirm(yes, as_json, _what_syncing_means(store, folder, is_git=is_git))
    return join_folder(store, workspace.places, folder, device_name=name, phrase=words, with_git=is_git)


def _what_syncing_means(store: Store, folder: Path, *, is_git: bool) -> str:
    """Return a question that says what is sent if the folder is joined."""
    totals = count_totals(store)
    retired = totals.superseded + totals.archived
    now = number_of(totals.memories + retired, "memory") + f", {retired} of them replaced or archived" * bool(retired)
    place = f"{folder}, branch {read_branch(str(folder.resolve()))}" if is_git else str(folder)
    what = f"Everything kept on this machine ({now}, and later ones) is written to {place}, encrypted."
    return f"{what}{f' {_GIT_NOTE}' if is_git else ''} Use it?"


def _print_joined(joined: Joined) -> None:
    """Print the result of joining before the first round, which may take long, fail or be stopped."""
    place = folder_of(joined.server.url)
    git = " --git" if joined.server.url.startswith(GIT) else ""
    say(f"{joined.server.member_name} keeps its memories in sync through {place}{' with git' if git else ''}, sealed.")
    if not joined.phrase:
        advise("`engram hub key --show` prints the recovery phrase.")
        return
    advise(f"\n{joined.phrase}\n\n{_PHRASE_NOTE}\n")
    say(f"On each other machine, once the folder has arrived: engram sync {shlex.quote(str(place))}{git} --phrase")
    advise("If another machine already uses the folder and its files just haven't arrived yet: engram hub leave")
