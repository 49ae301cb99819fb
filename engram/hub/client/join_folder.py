"""Start using a folder as the hub, on the first machine or on any further one."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from engram.errors import BadRequest
from engram.hub.client.folder_files import (
    GIT,
    MEMBER_ID,
    branch_of,
    change_state,
    device_id_of,
    folder_of,
    folder_url,
    is_folder,
    make_space,
    space_id_of,
    spaces_in,
)
from engram.hub.client.git_folder import GitFolder
from engram.hub.client.membership import Joined, Keyring
from engram.hub.protocol.frames import WrongKey, new_key
from engram.hub.protocol.requests import key_of, phrase_of
from engram.models.engine.transaction import Reader, Store
from engram.models.hub.outgoing_statements import begin_enqueuing
from engram.models.hub.spaces import (
    Space,
    add_server,
    add_space,
    change_server,
    list_spaces,
    private_space,
    server_by_id,
    server_of,
)
from engram.paths import Home
from engram.transcripts.git_files import read_branch
from engram.trust.display import as_arguments


def uses_git(store: Reader, with_git: bool | None) -> bool:
    """Return whether rounds fetch, commit and push: ``with_git``, or the current behaviour if ``with_git`` is None."""
    if with_git is not None:
        return with_git
    own = private_space(store)
    return own is not None and server_of(store, own).url.startswith(GIT)


def begins_git(store: Reader, folder: Path) -> bool:
    """Return True if rounds do not yet commit to this checkout, or to the branch that is checked out in it."""
    own = private_space(store)
    if own is None:
        return True
    server = server_of(store, own)
    is_other = branch_of(store, server.id) not in ("", read_branch(str(folder.resolve())))
    return is_other or server.url != folder_url(folder, with_git=True)


def look_into(folder: Path, *, with_git: bool = False) -> list[str]:
    """Return the names of the spaces that have arrived in a folder; fetch and change nothing.

    Raises:
        BadRequest: the folder does not exist, or is a file.
        HubError: it can't be read, or is not a usable checkout.
    """
    if folder.exists() and not folder.is_dir():
        wanted = "the folder of your git checkout" if with_git else "the folder that your sync program sees"
        raise BadRequest(f"{folder} is not a folder: name {wanted}")
    if not folder.is_dir():
        first = "create the folder first, where your sync program sees it"
        if with_git:
            first = f"clone the repository first: git clone URL {as_arguments(str(folder))}"
        raise BadRequest(f"{folder} does not exist: {first}")
    known = GitFolder(folder).look()[1] if with_git else []
    return sorted({*known, *spaces_in(folder.resolve())})


def join_folder(
    store: Store, home: Home, folder: Path, *, device_name: str = "", phrase: str = "", with_git: bool | None = None
) -> Joined:
    """Use a folder as the hub, or continue to use one that was moved, emptied, or switched to another branch.

    The first machine creates the key; any other machine gets it from the recovery phrase. A phrase that belongs to a
    different space is refused before anything is read, stored or written. By then, a checkout has been fetched, but not
    changed in any other way.

    Args:
        folder: an existing folder that is synced, mounted or a git checkout.
        device_name: this machine's name; "" for its host name.
        phrase: the recovery phrase; "" on the first machine.
        with_git: True if each round should fetch, commit and push; None keeps the current behaviour.

    Raises:
        BadRequest: the folder can't be used, or this machine syncs its memories through another hub.
        WrongKey: the phrase is missing, or belongs to another space.
        HubError: the folder can't be read or written.
    """
    is_git = uses_git(store, with_git)
    url = folder_url(folder, with_git=is_git)
    if folder_of(url).is_relative_to(home.root.resolve()) or home.root.resolve().is_relative_to(folder_of(url)):
        raise BadRequest(f"{folder} contains the memory folder or is part of it: choose a separate folder")
    found, branch = look_into(folder, with_git=is_git), ""
    if is_git:
        git = GitFolder(folder)
        branch, _ = git.look()
        found = sorted({*found, *git.fetch()})
    keyring = Keyring(home.hub_keys)
    own = private_space(store)
    if own is not None:
        return _go_on(store, keyring, own, url, branch, found)
    # An interrupted join may have left a key with a phrase that no user has seen.
    left = [key for name in found for key in keyring.keys(url, int(name, 16)).values()]
    key = key_of(phrase) if phrase else left[-1] if left else new_key()
    if found and not phrase and not left:
        raise WrongKey(
            f"another machine already uses {folder}: type its recovery phrase with --phrase (there, "
            "`engram hub key --show` prints it); nothing was changed"
        )
    ns_id = space_id_of(key)
    if found and f"{ns_id:016x}" not in found:
        raise WrongKey("the recovery phrase belongs to a space other than the folder's; nothing was changed")
    make_space(folder_of(url), ns_id, with_readme=not is_git)
    keyring.add_key(url, ns_id, key)
    keyring.become_device(url, keyring.pending_token(url))
    name = (device_name or platform.node())[:60]
    with store.transaction() as tx:
        server = add_server(tx, url, MEMBER_ID, name, device_id_of(keyring.token(url)))
        space = add_space(tx, server.id, ns_id, "private", kind="private", role="keeper", is_sealed=True)
        begin_enqueuing(tx, space.id)
        change_state(tx, server.id, branch=branch)
    return Joined(server, tuple(list_spaces(store, server.id)), "" if phrase else phrase_of(key))


def _go_on(store: Store, keyring: Keyring, own: Space, url: str, branch: str, found: Sequence[str]) -> Joined:
    """Continue to use a folder that was joined before, whether it is unchanged, moved or emptied."""
    server = server_of(store, own)
    if not is_folder(server.url):
        raise BadRequest(f"this machine already syncs through {server.url}; to leave it, run `engram hub leave`")
    if f"{own.ns_id:016x}" not in found:
        if server.url != url:
            raise BadRequest(
                f"this machine uses {folder_of(server.url)}; to use another folder, move everything in it there, or "
                "run `engram hub leave` first"
            )
        make_space(folder_of(url), own.ns_id, with_readme=False)
        with store.transaction() as tx:
            # Everything from this machine is sent again.
            change_state(tx, server.id, own={}, is_healing=True, is_due=True)
    if branch != branch_of(store, server.id):
        with store.transaction() as tx:
            change_state(tx, server.id, branch=branch)
    if server.url != url:
        keyring.move(server.url, url)
        with store.transaction() as tx:
            change_server(tx, server.id, url=url)
        keyring.drop(server.url)
    return Joined(server_by_id(store, server.id) or server, tuple(list_spaces(store, server.id)), "")
