"""Reading the two weight formats that hold no code, strictly: safetensors and GGUF.

Every byte of the file must be accounted for by its header, so nothing can hide behind the tensors.
Sources: the safetensors format description; GGUF specification, versions 2 and 3.
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from dataclasses import dataclass
from typing import Any, BinaryIO

SAFETENSORS_SIZES = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4, "I16": 16, "U16": 16,
    "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
"""Bits per element."""

DTYPE_WORDS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""torch's words for the types that weights usually have."""

HEADER_LIMIT = 100 << 20
GGUF_SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of each scalar value type; 8 is a string, 9 an array."""

GGUF_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""(elements, bytes) of a block of each tensor type."""


class Malformed(ValueError):  # noqa: N818 (says what the file is)
    """The file breaks its format's rules; the message says which one."""


@dataclass(frozen=True)
class TensorFile:
    """What a weights file holds: its format, tensors, parameters and text metadata."""

    format: str
    tensors: int
    parameters: int
    metadata: dict[str, Any]
    dtype: str = "quantised"
    """The element type that most parameters have, in torch's words."""


def read_safetensors(stream: BinaryIO, size: int) -> TensorFile:
    """Checks a safetensors file of `size` bytes; only its header is read."""
    head = stream.read(8)
    if len(head) < 8:
        raise Malformed("shorter than its header length")
    (length,) = struct.unpack("<Q", head)
    if length > min(HEADER_LIMIT, size - 8):
        raise Malformed(f"header of {length} bytes in a file of {size}")
    header = _json_object(stream.read(length))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise Malformed("__metadata__ is not text to text")
    elements_of: Counter[str] = Counter()
    spans = []
    for name, entry in header.items():
        elements, start, end = _safetensors_entry(name, entry)
        elements_of[entry["dtype"]] += elements
        spans.append((start, end))
    _must_cover(sorted(spans), size - 8 - length)
    most = max(elements_of, key=lambda name: elements_of[name], default="")
    dtype = DTYPE_WORDS.get(most, most.lower())
    return TensorFile("safetensors", len(spans), elements_of.total(), metadata, dtype)


def _json_object(raw: bytes) -> dict[str, Any]:
    def no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise Malformed("a name twice in the header")
        return dict(pairs)

    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=no_twice)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the header is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Malformed("the header is not a JSON object")
    return value


def _safetensors_entry(name: str, entry: Any) -> tuple[int, int, int]:
    try:
        bits = SAFETENSORS_SIZES[entry["dtype"]]
        shape, (start, end) = entry["shape"], entry["data_offsets"]
        numbers = [*shape, start, end]
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"tensor {name!r} lacks a known dtype, a shape or two offsets") from error
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise Malformed(f"tensor {name!r} has a number that is none")
    elements = math.prod(shape)
    if elements * bits != (end - start) * 8:
        raise Malformed(f"tensor {name!r}: shape and offsets disagree")
    return elements, start, end


def _must_cover(spans: list[tuple[int, int]], size: int) -> None:
    position = 0
    for start, end in spans:
        if start != position:
            raise Malformed("tensors overlap or leave a gap")
        position = end
    if position != size:
        raise Malformed(f"{size - position} bytes are no tensor's (cut short, or something is appended)")


class _Gguf:
    """A cursor over a GGUF header that knows where the file ends."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self.stream = stream
        self.size = size

    def take(self, count: int) -> bytes:
        if count > self.size - self.stream.tell():
            raise Malformed("the header runs past the end of the file")
        return self.stream.read(count)

    def number(self, code: str) -> int:
        (value,) = struct.unpack("<" + code, self.take(struct.calcsize(code)))
        return int(value)

    def string(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == 8:
            return self.string()
        if kind == 9:
            return self.array()
        if kind not in GGUF_SCALARS:
            raise Malformed(f"value type {kind} is unknown")
        raw = self.take(GGUF_SCALARS[kind])
        if kind in (6, 12):
            return struct.unpack("<f" if kind == 6 else "<d", raw)[0]
        return int.from_bytes(raw, "little", signed=kind in (1, 3, 5, 11))

    def array(self) -> None:
        """Skips an array (vocabularies are long); its contents are text and numbers only."""
        kind, count = self.number("I"), self.number("Q")
        if kind in GGUF_SCALARS:
            self.take(GGUF_SCALARS[kind] * count)
            return
        for _ in range(count):
            self.value(kind)


def read_gguf(stream: BinaryIO, size: int) -> TensorFile:
    """Checks a GGUF file of `size` bytes: its header, and that the tensors end where the file does."""
    cursor = _Gguf(stream, size)
    if cursor.take(4) != b"GGUF":
        raise Malformed("no GGUF magic")
    version = cursor.number("I")
    if version not in (2, 3):
        raise Malformed(f"GGUF version {version}, not 2 or 3")
    tensors, values = cursor.number("Q"), cursor.number("Q")
    metadata = {}
    for _ in range(values):
        name = cursor.string()
        metadata[name] = cursor.value(cursor.number("I"))
    parameters, spans = 0, []
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
        raise Malformed("general.alignment is off")
    for _ in range(tensors):
        elements, start, end = _gguf_tensor(cursor)
        parameters += elements
        spans.append((start, end))
    _must_end_at(size, sorted(spans), stream.tell(), alignment)
    return TensorFile("gguf", tensors, parameters, {k: v for k, v in metadata.items() if isinstance(v, str)})


def _gguf_tensor(cursor: _Gguf) -> tuple[int, int, int]:
    name = cursor.string()
    dimensions = cursor.number("I")
    if dimensions > 8:
        raise Malformed(f"tensor {name!r} has {dimensions} dimensions")
    elements = math.prod(cursor.number("Q") for _ in range(dimensions))
    kind, start = cursor.number("I"), cursor.number("Q")
    if kind not in GGUF_BLOCKS:
        raise Malformed(f"tensor {name!r} is of the unknown type {kind}")
    per_block, block_bytes = GGUF_BLOCKS[kind]
    if elements % per_block:
        raise Malformed(f"tensor {name!r} does not fill its blocks")
    return elements, start, start + elements // per_block * block_bytes


def _must_end_at(size: int, spans: list[tuple[int, int]], header_end: int, alignment: int) -> None:
    position = 0
    for start, end in spans:
        if not position <= start < position + alignment:
            raise Malformed("tensors overlap or leave a gap")
        position = end
    begin = -(-header_end // alignment) * alignment
    if not begin + position <= size < begin + position + alignment:
        raise Malformed("the file is cut short, or something is appended")
