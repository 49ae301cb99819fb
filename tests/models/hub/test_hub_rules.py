"""Rules: what they will share, and when; they go with their project and space."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Scope
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_project import clean_traces, contents_of_project
from engram.models.hub.shares import add_rule, candidates, drop_rule, list_rules
from engram.models.hub.spaces import drop_space
from engram.models.memories.memory_records import Memory
from engram.models.projects.project_folders import merge_projects
from engram.models.projects.projects import ensure_project
from tests.models.hub_spaces_made import join_made_up, join_team_made_up

Keep = Callable[..., Memory]


def test_a_rule_names_new_memories_of_its_project_and_goes_with_it(store: Store, keep: Keep) -> None:
    join_made_up(store)
    team = join_team_made_up(store)
    with store.transaction() as tx:
        place, other = ensure_project(tx, "/p/shop", "shop"), ensure_project(tx, "/p/bank", "bank")
        rule = add_rule(tx, team.id, place.id, 1000)
        tx.run(tables.HubRule.update(made_at_ms=5))
        add_rule(tx, team.id, other.id, 1000)
        again = add_rule(tx, team.id, place.id, 2000)
    assert (again.made_at_ms, again.delay_ms, rule.delay_ms) == (5, 2000, 1000)
    here = keep("new one", project_id=place.id, scope=Scope.PROJECT)
    for changes in ({"suspect": "an order"}, {"is_lowered": True}, {"origin": "teammate bob"}, {"kept_at_ms": 3}):
        keep(f"left out {changes}", project_id=place.id, scope=Scope.PROJECT, **changes)
    keep("elsewhere", project_id=other.id, scope=Scope.PROJECT)
    (waiting,) = candidates(store, again)
    assert waiting.memory.episode_id == here.episode_id
    assert waiting.due_ms >= here.kept_at_ms + 2000

    with store.transaction() as tx:
        assert not drop_rule(tx, team.id, 12345)
    # A project that is merged takes its rule along; one that is forgotten is shared no more.
    assert merge_projects(store, other, place, "the same", actor=Actor.USER) == 0
    assert [(rule.project_id, rule.delay_ms) for rule in list_rules(store)] == [(other.id, 1000)]
    with store.transaction() as tx:
        newest = ensure_project(tx, "/p/new", "new")
    merge_projects(store, newest, other, "the same", actor=Actor.USER)
    assert [rule.project_id for rule in list_rules(store)] == [newest.id]
    contents = contents_of_project(store, newest)
    with store.transaction() as tx:
        clean_traces(tx, contents)
        assert list_rules(tx) == []
        add_rule(tx, team.id, newest.id, 1000)
        drop_space(tx, team.id)
    assert list_rules(store) == []
