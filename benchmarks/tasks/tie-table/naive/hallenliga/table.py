"""The table of the league."""


def table(teams):
    """Return the teams, the best first: by points, goal difference and goals."""
    return sorted(teams, key=lambda team: (-team.points, -team.goal_difference, -team.goals_for, team.name))


def row(place, team):
    """Return the line of a team."""
    goals = f"{team.goals_for}:{team.goals_against}"
    return f"{place:2} {team.name:16} {team.played:3} {goals:>7} {team.penalty_minutes:4} {team.points:3}"
