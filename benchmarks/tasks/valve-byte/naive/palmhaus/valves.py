"""Frames for the valves on the serial line."""

START = 0x56


def frame(valve, value):
    """Return the frame that sets a valve: start, valve (1 to 8), value (one byte), check byte."""
    if not 1 <= valve <= 8:
        raise ValueError(f"there is no valve {valve}")
    body = bytes([START, valve, value])
    return body + bytes([sum(body) & 0xFF])


def opening(percent):
    """Return the value for a valve that is open by so many percent."""
    if not 0 <= percent <= 100:
        raise ValueError(f"{percent} percent")
    return round(percent * 255 / 100)


def set_opening(valve, percent):
    """Return the frame that opens a valve by so many percent."""
    return frame(valve, opening(percent))
