"""What the signs get."""


def trip_json(trip):
    """Return a trip for the signs."""
    return {"id": trip.id, "line": trip.line, "departs": trip.departs.isoformat(timespec="seconds")}
