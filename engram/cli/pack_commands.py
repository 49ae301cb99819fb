"""``engram pack``: curated memories as signed files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from engram.cli.options import confirm, json_command, tell, yes_option
from engram.cli.output import check_writable, print_table, safe, say, write_file
from engram.cli.results import print_lines
from engram.cli.workspace import Workspace, check_project, find_project, require_project_id
from engram.errors import BadRequest, NotFound
from engram.hub.client.installed_packs import (
    PackChange,
    find_pack,
    held_back_of,
    install_pack,
    installed_packs,
    make_pack,
    plan_pack,
    remove_pack,
    signing_key,
)
from engram.hub.protocol.pack import MAX_PACK_BYTES, Pack, read_pack, sign_pack, write_pack
from engram.memories.save import require_memory
from engram.models.engine.transaction import Store
from engram.models.hub.outgoing_statements import count_statements
from engram.models.search.memory_lists import current_memories
from engram.reports.memory_report import whole_id
from engram.system.atomic import read_whole
from engram.text.titles import in_words
from engram.trust.display import as_arguments, number_of

_file = click.Path(dir_okay=False, path_type=Path)


@click.group("pack")
def pack() -> None:
    """Make, sign and install packs: curated memories as signed files, such as the rules of a framework.

    Example: engram pack add django-rules.pack
    """


@pack.command("make")
@click.argument("name")
@click.argument("episode_ids", metavar="[ID]...", nargs=-1)
@click.option("--project", metavar="NAME", default=None, help="All current memories of this project (default: none).")
@click.option(
    "--version",
    type=click.IntRange(1, 1 << 40),
    default=None,
    help="The pack's version, which rises with each edition (default: one more than the version of the file or the "
    "installed pack, or 1).",
)
@click.option("--output", type=_file, default=None, help="The file to write (default: NAME.pack).")
@yes_option
@json_command
def make(
    workspace: Workspace,
    name: str,
    episode_ids: tuple[str, ...],
    project: str | None,
    version: int | None,
    output: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Write memories to a pack: those named by id, or all of a project. The exact texts are shown first.

    A pack contains only texts, redacted once more: no evidence, sessions, projects or paths.

    Example: engram pack make django-rules ep_0123456789ab
    """
    target = output or Path(f"{name}.pack")
    check_writable(target)
    with workspace.store() as store:
        memories = [
            require_memory(store, episode_id)
            for episode_id in dict.fromkeys(whole_id(store, given) for given in episode_ids)
        ]
        if project is not None:
            place = find_project(store, workspace.settings, project)
            assert place is not None
            every = [memory for memory in current_memories(store, place.id) if not memory.origin]
            own = [memory for memory in every if memory.project_id == place.id]
            memories += [memory for memory in own if memory not in memories]
        version = version or _next_version(store, name, target)
    made = make_pack(name, version, memories, workspace.redactor())
    data = write_pack(made)
    held_back = held_back_of(made)
    if not as_json:
        for packed in made.memories:
            print_lines(packed["summary"])
            print_lines(in_words(packed["content"]), indent="  ")
        for summary, reason in held_back:
            say(f"! reads like {reason}, so Claude sees it only on request: {summary}")
    confirm(yes, as_json, f"Write {number_of(len(made.memories), 'memory')} to version {version} of the pack {name}?")
    write_file(target, data)
    facts = {
        "file": str(target),
        "version": version,
        "memories": len(made.memories),
        "held_back": [summary for summary, _ in held_back],
    }
    command = f"engram pack sign {as_arguments(str(target))}"
    tell(as_json, facts, f"Wrote version {version} to {target}; `{command}` signs it.")


@pack.command("sign", short_help="Sign a pack with this machine's key.")
@click.argument("file", type=_file)
@json_command
def sign(workspace: Workspace, file: Path, as_json: bool) -> None:
    """Sign a pack with this machine's key, which is created on first use (`pack-key` in the memory folder).

    Example: engram pack sign django-rules.pack
    """
    unsigned = replace(_read(file), key=b"", signature=b"")
    workspace.places.prepare()
    signed = sign_pack(unsigned, signing_key(workspace.places))
    write_file(file, write_pack(signed))
    facts = {"file": str(file), "key": signed.key.hex(), "fingerprint": signed.fingerprint}
    tell(as_json, facts, f"Signed {file}. Give the pack's users the fingerprint of your key: {signed.fingerprint}")


@pack.command("add")
@click.argument("file", type=_file)
@click.option(
    "--project",
    metavar="NAME",
    default=None,
    help="The project that the memories apply to (default: the current folder's).",
)
@yes_option
@json_command
def add(workspace: Workspace, file: Path, project: str | None, yes: bool, as_json: bool) -> None:
    """Install a signed pack. Its key is pinned: an update must be signed with the same one.

    Its memories are attributed to the pack, never to you. Texts that look like instructions are shown to Claude only
    on request.

    Example: engram pack add django-rules.pack
    """
    with workspace.store() as store:
        change = plan_pack(store, _read(file), is_update=False)
        hint = ": name one with --project"
        check_project(store, workspace.settings, project, hint=hint)
        project_of_pack = partial(require_project_id, store, workspace.settings, project, hint=hint)
        _install(workspace, store, change, project_of_pack, yes=yes, as_json=as_json)


@pack.command("update", short_help="Update an installed pack to a newer version.")
@click.argument("file", type=_file)
@yes_option
@json_command
def update(workspace: Workspace, file: Path, yes: bool, as_json: bool) -> None:
    """Update an installed pack to a newer version; the differences are shown first.

    Example: engram pack update django-rules.pack
    """
    with workspace.store() as store:
        change = plan_pack(store, _read(file), is_update=True)
        _install(workspace, store, change, None, yes=yes, as_json=as_json)


@pack.command("remove")
@click.argument("name")
@yes_option
@json_command
def remove(workspace: Workspace, name: str, yes: bool, as_json: bool) -> None:
    """Remove an installed pack and all of its memories.

    Example: engram pack remove django-rules
    """
    with workspace.store() as store:
        find_pack(store, name)
        confirm(yes, as_json, f"Remove the pack {name} and its memories?")
        number = remove_pack(store, name)
    workspace.wake_worker()
    tell(as_json, {"removed": name, "memories": number}, f"Removed {name} with {number_of(number, 'memory')}.")


@pack.command("list")
@json_command
def list_packs(workspace: Workspace, as_json: bool) -> None:
    """List the installed packs.

    Example: engram pack list
    """
    with workspace.store() as store:
        rows: list[dict[str, Any]] = [
            {
                "pack": space.name,
                "version": space.cursor,
                "memories": count_statements(store, space.id)["memories"],
                "fingerprint": Pack(space.name, 1, (), key=space.mark).fingerprint,
            }
            for space in installed_packs(store)
        ]
    cells, headings = [tuple(row.values()) for row in rows], ["pack", "version#", "memories#", "key"]
    tell(as_json, {"packs": rows}, lambda: print_table(headings, cells, empty="No packs are installed."))


def _install(
    workspace: Workspace,
    store: Store,
    change: PackChange,
    project_of: Callable[[], int] | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Show what changes in a pack, ask, and install it. A new project is created only after the user has agreed."""
    pack = change.pack
    facts = {
        "pack": pack.name,
        "version": pack.version,
        "key": pack.key.hex(),
        "added": list(change.added),
        "changed": list(change.changed),
        "removed": list(change.removed),
        "suspects": list(change.suspects),
    }
    if not as_json:
        click.echo(f"{pack.name}, version {pack.version}, key {pack.fingerprint}")
        for mark, summaries in (("+", change.added), ("~", change.changed), ("-", change.removed)):
            for summary in summaries:
                click.echo(safe(f" {mark} {summary}"))
        for summary in change.suspects:
            click.echo(safe(f" ! looks like an instruction, shown only on request: {summary}"))
    confirm(yes, as_json, "Accept this?")
    install_pack(store, change, None if project_of is None else project_of())
    workspace.wake_worker()
    tell(as_json, facts, f"{pack.name} is installed.")


def _next_version(store: Store, name: str, file: Path) -> int:
    """Return the version of a pack's next edition: one more than its file's or the installed pack's version, or 1.

    A file that is not a pack is ignored, and will be replaced.
    """
    known = [space.cursor for space in installed_packs(store) if space.name == name]
    with contextlib.suppress(BadRequest, NotFound):
        earlier = _read(file)
        known += [earlier.version] if earlier.name == name else []
    return max(known, default=0) + 1


def _read(file: Path) -> Pack:
    data = read_whole(file, MAX_PACK_BYTES + 1) if file.is_file() else None
    if data is None:
        raise NotFound(f"{file} is not a readable file")
    return read_pack(data)
