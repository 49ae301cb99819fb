"""Frames for the valves on the serial line."""

START = 0x56


def frame(valve, value):
    """Return the frame that sets a valve: start, valve (1 to 8), value (one byte), check byte."""
    if not 1 <= valve <= 8:
        raise ValueError(f"there is no valve {valve}")
    body = bytes([START, valve, value])
    return body + bytes([sum(body) & 0xFF])
