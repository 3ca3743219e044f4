"""Files with Flight Recorder dumps: pickles as PyTorch writes them, or JSON.  Nothing in them is executed."""

from __future__ import annotations

import io
import json
import pickle
import re
from pathlib import Path
from typing import Any, NoReturn

from ._kit.problems import BadInput
from .core.diagnosis.flight import RankDump, parse_dump

_MOST_BYTES = 256 * 1024 * 1024
_HEAD = 4096
_PICKLE = b"\x80"
_JSON = re.compile(rb'^\s*\{\s*"(?:version|pg_config|pg_status|entries|nccl_version|nccl_comm_state)"')
_DO = "give the dumps of all ranks, named after their rank, as TORCH_NCCL_DEBUG_INFO_TEMP_FILE makes them"


class _PlainUnpickler(pickle.Unpickler):
    """Takes plain values only: dicts, lists, texts and numbers need no class."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it wants to load {module}.{name}")


def is_dump(path: Path) -> bool:
    """Whether a file looks like a dump; one that cannot be read is no dump."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return False
    return (head.startswith(_PICKLE) and b"nccl" in head + _middle(path)) or bool(_JSON.match(head))


def _middle(path: Path) -> bytes:
    """Some more of the file: what a dump begins with may be a long list of groups."""
    with open(path, "rb") as stream:
        return stream.read(64 * _HEAD)


def read_dump(path: Path) -> RankDump:
    """The dump of one rank; the rank is the last number in the file's name.

    Raises `BadInput` for a file that is damaged, too large, or holds more than plain values.
    """
    numbers = re.findall(r"\d+", path.name.removesuffix(".json").removesuffix(".pkl"))
    if not numbers:
        raise BadInput("its name holds no rank", field=str(path), do=_DO)
    if path.stat().st_size > _MOST_BYTES:
        raise BadInput(
            "is too large for a dump", why=f"more than {_MOST_BYTES} bytes", field=str(path), do=_DO
        )
    raw = path.read_bytes()
    try:
        return parse_dump(int(numbers[-1]), _plain(raw))
    except (ValueError, pickle.UnpicklingError, EOFError, LookupError, AttributeError, MemoryError) as error:
        raise BadInput("is no sound Flight Recorder dump", why=str(error), field=str(path), do=_DO) from error


def _plain(raw: bytes) -> dict[str, Any]:
    value = _PlainUnpickler(io.BytesIO(raw)).load() if raw.startswith(_PICKLE) else json.loads(raw)
    if not isinstance(value, dict):
        raise ValueError("it is no mapping")  # noqa: TRY004 (told as any other damage)
    return value
