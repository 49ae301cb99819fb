"""With equal points fewer penalty minutes decide, whatever the goals are."""

import itertools
import sys

sys.path.insert(0, sys.argv[1])

from hallenliga.table import table
from hallenliga.teams import Team

TEAMS = (
    Team("Sempach", 5, 4, 12, 18, 15, 22),
    Team("Rain", 5, 3, 9, 14, 13, 2),
    Team("Hohenrain", 5, 3, 9, 20, 9, 8),
    Team("Aesch", 5, 2, 9, 44, 10, 14),
    Team("Ballwil", 5, 3, 9, 25, 25, 10),
    Team("Eschenbach", 5, 1, 3, 8, 30, 0),
)
for teams in itertools.permutations(TEAMS):
    made = [team.name for team in table(list(teams))]
    assert made == ["Sempach", "Rain", "Hohenrain", "Ballwil", "Aesch", "Eschenbach"], f"the table is {made}"
print("fewer penalty minutes stand higher")
