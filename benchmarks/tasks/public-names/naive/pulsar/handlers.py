"""The handlers of the routes."""

from pulsar import api


def get_team_v1(team):
    """GET /v1/teams/ID"""
    return 200, api.internal_json(team)


def get_team_v2(team):
    """GET /v2/teams/ID"""
    return 200, api.public_json(team)
