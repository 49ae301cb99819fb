"""Kills of machines, service and PostgreSQL lose nothing and bring nothing back."""

from __future__ import annotations

import pytest

from tests.hub.killed import run_kills


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_kills_behind_a_proxy_that_lies_lose_nothing_and_make_no_device() -> None:
    assert "0 lost, 0 back" in run_kills(60, 2027, with_proxy=True)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_kills_of_machines_service_and_postgres_lose_nothing() -> None:
    assert "0 lost, 0 back" in run_kills(500, 2026)
