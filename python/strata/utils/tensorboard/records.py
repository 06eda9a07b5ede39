"""The two formats of an event file: TFRecord frames with CRC-32C sums, and messages of protocol buffers."""

import struct


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def masked_crc(data):
    """The CRC-32C of TFRecord: rotated and shifted, so that a sum over a sum differs."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data):
    """A record: its length, the sum of the length, the data, their sum."""
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked_crc(head)) + data + struct.pack("<I", masked_crc(data))


def _varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field, value):
    """An int64 field."""
    return _varint(field << 3) + _varint(value)


def double(field, value):
    """A double field."""
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def single(field, value):
    """A float field."""
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def data(field, value):
    """A field of bytes, of text, or a message."""
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def doubles(field, values):
    """A packed field of doubles."""
    return data(field, struct.pack(f"<{len(values)}d", *values))
