"""What the API returns."""


def internal_json(team):
    """Version 1: for our own pages."""
    return {
        "id": team.id,
        "slug": team.slug,
        "plan": team.plan,
        "created": team.created.isoformat(),
        "seats": team.seats,
    }


def public_json(team):
    """Version 2: public."""
    return {"id": team.id, "slug": team.slug, "plan": team.plan, "created": team.created.isoformat()}
