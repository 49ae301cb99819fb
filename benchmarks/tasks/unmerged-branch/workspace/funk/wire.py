"""Frames on the wire."""

import struct

KIND_READING, KIND_STATUS = 1, 2


def encode_reading(sensor, value):
    """Return the frame of a reading: kind (1 byte), sensor (2 bytes), value (4 bytes)."""
    return struct.pack(">BHi", KIND_READING, sensor, value)
