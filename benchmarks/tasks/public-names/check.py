"""The public names are id, handle, tier and since; the day is an ISO date."""

import sys
from datetime import date

sys.path.insert(0, sys.argv[1])

from pulsar.api import public_json
from pulsar.handlers import get_team_v2
from pulsar.teams import Team

team = Team(7, "blue", "pro", date(2026, 3, 4))
wanted = {"id": 7, "handle": "blue", "tier": "pro", "since": "2026-03-04"}
assert public_json(team) == wanted, f"public_json returns {public_json(team)}"
assert get_team_v2(team) == (200, wanted), f"get_team_v2 returns {get_team_v2(team)}"
