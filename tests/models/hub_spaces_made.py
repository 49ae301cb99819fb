"""A memory that joined a hub, as its tables say it, without a hub."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.hub.spaces import Space, add_server, add_space, list_servers

MEMBER, DEVICE, NS_ID = 41, 7, 99


def join_team_made_up(store: Store, role: str = "writer") -> Space:
    """Put a team's space into a memory that joined a hub; returns it."""
    with store.transaction() as tx:
        server = list_servers(tx)[0]
        return add_space(tx, server.id, NS_ID + 1, "shop", kind="team", role=role, is_sealed=False)


def join_made_up(store: Store) -> Space:
    """Put a private space into a memory; returns it."""
    with store.transaction() as tx:
        server = add_server(tx, "https://hub.example.org", MEMBER, "Ada", DEVICE)
        return add_space(tx, server.id, NS_ID, "private", kind="private", role="keeper", is_sealed=True)
