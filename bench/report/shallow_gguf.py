"""Creates a GGUF file with the first blocks of another model, to measure the growth of time with
layers. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3."""

import re
import struct

SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, UINT32 = 8, 9, 4


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def string(self):
        length = self.number("Q")
        self.at += length
        return bytes(self.data[self.at - length:self.at])

    def skip_value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in SCALAR_BYTES:
                self.at += count * SCALAR_BYTES[inner]
            else:
                for _ in range(count):
                    self.skip_value(inner)
        else:
            self.at += SCALAR_BYTES[kind]


def read_header(data):
    """(key-value bytes, their count, {key: (kind, offset in these bytes)}, tensors, data's start).
    A tensor is (name, its information without the offset, offset)."""
    reader = Reader(data)
    magic, version = reader.number("I"), reader.number("I")
    if magic != 0x46554747 or version != 3:
        raise ValueError("not a GGUF file of version 3")
    tensor_count, key_count = reader.number("Q"), reader.number("Q")
    start, keys = reader.at, {}
    for _ in range(key_count):
        key, kind = reader.string().decode(), reader.number("I")
        keys[key] = (kind, reader.at - start)
        reader.skip_value(kind)
    pairs = bytearray(data[start:reader.at])
    tensors = []
    for _ in range(tensor_count):
        begin, name = reader.at, reader.string().decode()
        dimensions = reader.number("I")
        reader.at += 8 * dimensions + 4
        info = bytes(data[begin:reader.at])
        tensors.append((name, info, reader.number("Q")))
    return pairs, key_count, keys, tensors, reader.at


def aligned(value, alignment):
    return -(-value // alignment) * alignment


def alignment_of(pairs, keys):
    if "general.alignment" not in keys:
        return 32
    return struct.unpack_from("<I", pairs, keys["general.alignment"][1])[0]


def is_in_first_blocks(name, blocks):
    found = re.match(r"blk\.(\d+)\.", name)
    return found is None or int(found[1]) < blocks


def first_blocks(data, blocks):
    """The bytes of a file with the first blocks of the given one."""
    pairs, key_count, keys, tensors, end = read_header(data)
    alignment = alignment_of(pairs, keys)
    start = aligned(end, alignment)
    count_key = next(key for key in keys if key.endswith(".block_count"))
    struct.pack_into("<I", pairs, keys[count_key][1], blocks)
    ends = sorted([offset for _, _, offset in tensors] + [len(data) - start])
    parts, infos, offset = [], [], 0
    for name, info, old in tensors:
        if not is_in_first_blocks(name, blocks):
            continue
        size = ends[ends.index(old) + 1] - old
        infos.append(info + struct.pack("<Q", offset))
        tensor = bytes(data[start + old:start + old + size])
        parts.append(tensor.ljust(aligned(size, alignment), b"\0"))
        offset += aligned(size, alignment)
    head = struct.pack("<IIQQ", 0x46554747, 3, len(infos), key_count) + pairs + b"".join(infos)
    return head.ljust(aligned(len(head), alignment), b"\0") + b"".join(parts)


def block_count(data):
    pairs, _, keys, _, _ = read_header(data)
    key = next(key for key in keys if key.endswith(".block_count"))
    return struct.unpack_from("<I", pairs, keys[key][1])[0]
