"""The allow-list of file contents: what a file is, is read from its bytes, never from its name.

Weights must be safetensors or GGUF, whole.  The rest of a model is JSON, text, or a SentencePiece
vocabulary.  Everything else is refused, and the message says what it seems to be.
"""

from __future__ import annotations

import io
import json
import pickletools
import re
import zipfile
from pathlib import PurePosixPath
from typing import BinaryIO

from l4_mmodel._kit.problems import BadInput

from .tensors import Malformed, TensorFile, read_gguf, read_safetensors

SMALL_FILE = 64 << 20
"""Files other than weights are read whole, up to this size in bytes."""

TEXT_SUFFIXES = {".txt", ".md", ".jinja", ".vocab", ".bpe", ".tiktoken", ""}
TEXT_NAMES = {"license", "licence", "notice", "readme", "copying", "authors"}
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")

MAGIC = [
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"\x04\x22\x4d\x18", "an lz4 archive"),
    (b"Rar!", "a rar archive"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 (Keras) file, which can hold code"),
    (b"\x93NUMPY", "a NumPy file, which can hold a pickle"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"#!", "a script"),
    (b"TFL3", "a TensorFlow Lite file"),
]
CALLING_OPCODES = {
    "GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "REDUCE", "NEWOBJ", "NEWOBJ_EX", "BUILD", "EXT1", "EXT2", "EXT4",
    "PERSID", "BINPERSID",
}  # fmt: skip


def inspect(stream: BinaryIO, size: int, name: str) -> TensorFile | None:
    """What weights `stream` holds; None for a harmless companion; `BadInput` for all else.

    `name` only chooses words and, among text files, tells a tokenizer's from a program's.
    """
    head = stream.read(16)
    stream.seek(0)
    try:
        if head[:4] == b"GGUF":
            return read_gguf(stream, size)
        if _looks_like_safetensors(head, size):
            return read_safetensors(stream, size)
    except Malformed as error:
        kind = "GGUF" if head[:4] == b"GGUF" else "safetensors"
        raise BadInput(
            f"is broken {kind}: {error}", field=name, why=f"{kind} must hold its tensors and nothing else",
            do="fetch or export the file again",
        ) from error  # fmt: skip
    if size > SMALL_FILE:
        raise _refused(name, explain(head))
    _must_be_companion(stream.read(), name)
    return None


def _looks_like_safetensors(head: bytes, size: int) -> bool:
    length = int.from_bytes(head[:8], "little")
    return len(head) > 8 and head[8:9] == b"{" and length <= max(size, 100 << 20)


def _must_be_companion(data: bytes, name: str) -> None:
    """JSON, text or a SentencePiece model: anything else is refused."""
    what = explain(data)
    if what is not None:
        raise _refused(name, what)
    if not CONTROL.search(data):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        if text is not None and (_is_json(text, name) or _is_plain_text(name)):
            return
    elif is_sentencepiece(data):
        return
    raise _refused(name, what)


def _is_json(text: str, name: str) -> bool:
    if not name.lower().endswith((".json", ".jsonl")):
        return False
    rows = text.splitlines() if name.lower().endswith(".jsonl") else [text]
    for number, row in enumerate(rows, 1):
        try:
            json.loads(row) if row.strip() or len(rows) == 1 else None
        except (ValueError, RecursionError) as error:
            where = f"line {number} " if len(rows) > 1 else ""
            raise BadInput(f"{where}is not JSON: {error}", field=name, do="export it again") from error
    return True


def _is_plain_text(name: str) -> bool:
    path = PurePosixPath(name.lower())
    return path.suffix in TEXT_SUFFIXES and (path.suffix != "" or path.name in TEXT_NAMES)


def explain(data: bytes) -> str | None:
    """What a file that is not on the allow-list seems to be; None when nothing speaks against it."""
    for magic, what in MAGIC:
        if data.startswith(magic):
            return what + _inside(data) if magic.startswith(b"PK") else what
    if len(data) > 262 and data[257:262] == b"ustar":
        return "a tar archive"
    if is_pickle(data):
        return "a Python pickle, which runs code when it is loaded"
    if b"PK\x03\x04" in data and zipfile.is_zipfile(io.BytesIO(data)):
        return "a file with a zip archive in it" + _inside(data)
    return None


def _inside(data: bytes) -> str:
    """Whether an archive holds a pickle (PyTorch's checkpoints do)."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist()[:1000]:
                if member.file_size <= SMALL_FILE and is_pickle(archive.read(member)):
                    return f" with a Python pickle ({member.filename}) in it, which runs code when loaded"
    except Exception:  # noqa: BLE001 (a damaged archive is refused all the same; this is only its description)
        return " (damaged)"
    return ""


def is_pickle(data: bytes) -> bool:
    """Whether the bytes are a pickle, of any protocol, also one that fails half-way."""
    if data[:1] == b"\x80" and len(data) > 1 and data[1] <= 5:
        return True
    calls = 0
    try:
        for number, (opcode, _argument, _position) in enumerate(pickletools.genops(data)):
            calls += opcode.name in CALLING_OPCODES
            if calls and number > 2:
                return True
    except Exception:  # noqa: BLE001 (pickletools raises many kinds on bytes that are no pickle)
        return calls > 0 and b"\n" in data[:4096] and data[:1] in b"c(i"
    return False


def is_sentencepiece(data: bytes) -> bool:
    """Whether the bytes are wholly a SentencePiece ModelProto: pieces (field 1), then fields 2–5."""
    position, seen = 0, 0
    while position < len(data):
        tag, position = _varint(data, position)
        if tag & 7 != 2 or not 1 <= tag >> 3 <= 5:
            return False
        length, position = _varint(data, position)
        position += length
        seen += tag >> 3 == 1
    return position == len(data) and seen > 1


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while position < len(data) and shift < 63:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    return 0, len(data) + 1


def _refused(name: str, what: str | None) -> BadInput:
    seems = f"seems to be {what}" if what else "is of no kind that may be stored"
    return BadInput(
        f"refused: it {seems}",
        field=name,
        why="weights are accepted as safetensors or GGUF, which hold no code; beside them JSON and text",
        do="export the weights with save_pretrained(…, safe_serialization=True)",
    )
