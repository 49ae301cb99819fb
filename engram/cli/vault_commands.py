"""``engram projects vault`` and ``unvault``: keep a client's project in a database of its own, and take it back."""

from __future__ import annotations

import click

from engram.cli.confirming import confirm, tell, yes_option
from engram.cli.options import json_option
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import NotFound
from engram.ingest.folder import named_project
from engram.memories.vault import move_into_vault, move_out_of_vault, seal
from engram.models.project_erasing import contents_of_project
from engram.models.projects import find_project
from engram.vaults import find_vault, list_vaults


@click.command("vault")
@click.argument("name")
@yes_option
@json_option
@pass_workspace
def vault(workspace: Workspace, name: str, yes: bool, as_json: bool) -> None:
    """Keep the project NAME in a database of its own, which nothing outside the project sees.

    Everything of it moves there: turns, memories (its global ones too) and notes; backups and exports in the memory
    folder are cleaned of it. From then on its sessions read from and add to the vault alone: no other project's
    answer, no export and no share has anything of it. `engram --vault NAME` before any command works on it.

    Example: engram projects vault acme
    """
    with workspace.store() as store:
        settings = workspace.settings
        begun = find_vault(settings.places, name)
        project = find_project(store, name) if begun is None else find_project(store, begun.identities[0])
        if begun is not None and project is None:
            seal(begun)
            tell(as_json, {"project": begun.name, "vault": str(begun.folder)}, f"{begun.name} is in its vault.")
            return
        project = project or named_project(store, name)
        contents = contents_of_project(store, project)
        confirm(
            yes,
            as_json,
            f"This moves {len(contents.session_ids)} sessions and {len(contents.memories)} memories of {project.name} "
            f"into a vault, with {len(contents.released)} global memories that came from it, which no other project "
            "sees then. `engram projects unvault` brings it back. Continue?",
        )
        moved = move_into_vault(store, settings, project)
    workspace.wake_worker()
    facts = {
        "project": moved.name,
        "vault": str(moved.folder),
        "sessions": moved.sessions,
        "memories": moved.memories,
    }
    sentence = (
        f"{moved.name} is in its vault now, {moved.folder}, with {moved.memories} memories. To work with it: "
        f"engram --vault {moved.name} COMMAND"
    )
    tell(as_json, facts, sentence)


@click.command("unvault")
@click.argument("name")
@yes_option
@json_option
@pass_workspace
def unvault(workspace: Workspace, name: str, yes: bool, as_json: bool) -> None:
    """Bring the project NAME back from its vault, and delete the vault.

    Memories that were global before they moved into the vault, or became so there, hold everywhere again.

    Example: engram projects unvault acme
    """
    with workspace.store() as store:
        found = find_vault(workspace.places, name)
        if found is None:
            names = ", ".join(known.name for known in list_vaults(workspace.places)) or "none"
            raise NotFound(f"there is no vault of {name[:60]!r}; vaults: {names}")
        confirm(yes, as_json, f"This moves everything of {found.name} out of its vault. Continue?")
        moved = move_out_of_vault(store, workspace.settings, found)
    workspace.wake_worker()
    facts = {"project": moved.name, "sessions": moved.sessions, "memories": moved.memories}
    tell(as_json, facts, f"{moved.name} is out of its vault, with {moved.memories} memories.")
