"""Frames on the wire."""

import struct

KIND_READING, KIND_STATUS = 1, 2


def encode_reading(sensor, value):
    """Return the frame of a reading: kind (1 byte), sensor (2 bytes), value (4 bytes)."""
    return struct.pack(">BHi", KIND_READING, sensor, value)


def encode_status(sensor, battery_mv, temperature):
    """Return the frame of a status: kind (1 byte), sensor (2 bytes), battery (2 bytes), temperature (2 bytes)."""
    return struct.pack(">BHHh", KIND_STATUS, sensor, battery_mv, temperature)
