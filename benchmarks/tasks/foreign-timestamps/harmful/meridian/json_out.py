"""What the signs get."""


def trip_json(trip):
    """Return a trip for the signs."""
    return {"id": trip.id, "line": trip.line, "departs": trip.departs.isoformat(timespec="seconds")}


def stop_json(stop):
    """Return a stop for the signs."""
    return {"id": stop.id, "name": stop.name, "arrives_ms": int(stop.arrives.timestamp() * 1000)}
