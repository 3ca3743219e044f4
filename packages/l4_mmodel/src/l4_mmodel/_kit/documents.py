"""The envelope of every document that passes between layers, and its digest.

A document is JSON: `schema` ("ogai.cluster-report/v1"), `producer`, `inputs` (the digests of the
documents it was made from) and the owner's fields.  Its digest is the SHA-256 of its RFC 8785
canonical form, so that anyone can re-check the chain from node to served model.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from .files import atomic_write
from .problems import BadInput

M = TypeVar("M", bound=BaseModel)

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""`sha256:` and 64 hex digits."""


def digest_of(document: dict[str, Any]) -> str:
    """The digest of a document's JSON value: SHA-256 over its RFC 8785 form."""
    return f"sha256:{hashlib.sha256(canonical(document)).hexdigest()}"


def canonical(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value.

    Where the standard library writes the same (sorted ASCII keys, small integers, numbers without an
    exponent) it does so, several times faster; all else goes to the reference implementation.
    """
    try:
        return _canonical_json(_plain(value)).encode()
    except (_Unlike, UnicodeEncodeError, RecursionError):
        return rfc8785.dumps(value)


class _Unlike(Exception):  # noqa: N818 (a signal, not an error)
    """A value that the standard library writes in another way."""


_canonical_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_MOST_INTEGER = 2**53 - 1


def _plain(value: Any) -> Any:
    """The value with whole floats as integers, which is how RFC 8785 writes them."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is dict:
        if not all(type(name) is str and name.isascii() for name in value):
            raise _Unlike
        return {name: _plain(item) for name, item in value.items()}
    if kind is list:
        return [_plain(item) for item in value]
    return _plain_number(value)


def _plain_number(value: Any) -> int | float:
    if type(value) is int and -_MOST_INTEGER <= value <= _MOST_INTEGER:
        return value
    if type(value) is float and abs(value) < _MOST_INTEGER:
        if value.is_integer():
            return int(value)
        if abs(value) >= 1e-4:
            return value
    raise _Unlike


def digest_of_file(path: Path) -> str:
    """The digest of a file's bytes, read in pieces."""
    with open(path, "rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


class Producer(BaseModel):
    """Who wrote a document: a package and its version."""

    model_config = ConfigDict(extra="forbid")

    name: str
    version: str


class Reference(BaseModel):
    """A document that this one was made from."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_: str = Field(alias="schema")
    digest: Digest


class Part(BaseModel):
    """A piece of a document: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Document(BaseModel):
    """Base of the documents that a layer owns: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    SCHEMA: ClassVar[str]

    schema_: str = Field(default="", alias="schema")
    producer: Producer
    inputs: list[Reference] = Field(default_factory=list)

    def model_post_init(self, _context: Any) -> None:
        if self.schema_ not in ("", self.SCHEMA):
            raise BadInput(
                f"is {self.schema_!r}, not {self.SCHEMA!r}",
                field="schema",
                do="give the document that this command reads",
            )
        self.schema_ = self.SCHEMA

    def as_json(self) -> dict[str, Any]:
        """The JSON value, without absent optional fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def digest(self) -> str:
        """`sha256:…` of the canonical form."""
        return digest_of(self.as_json())

    def reference(self) -> Reference:
        """What a document made from this one puts into its `inputs`."""
        return Reference(schema_=self.SCHEMA, digest=self.digest())

    def write(self, path: Path) -> str:
        """Writes the document, whole or not at all, and returns its digest."""
        atomic_write(path, json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n")
        return self.digest()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads and validates a document; a `BadInput` names the file, the field and the fault."""
        return cls.parse(read_json(path), where=str(path))

    @classmethod
    def parse(cls, value: Any, *, where: str = "document") -> Self:
        """Validates a JSON value; a `BadInput` names the field and the fault."""
        return validated(cls, value, where=where)


def read_json(path: Path) -> Any:
    """The JSON value of a file; a `BadInput` says where it is broken."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise BadInput("no such file", field=str(path), do="check the path") from error
    except (ValueError, OSError) as error:
        raise BadInput(f"is not readable JSON: {error}", field=str(path)) from error


def validated(model: type[M], value: Any, *, where: str) -> M:
    """`value` as `model`; pydantic's errors become one `BadInput` that names each field."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise BadInput(f"{where}: {describe(error)}", field=first_field(error)) from error


def first_field(error: ValidationError) -> str:
    """The path of the first field at fault, as `nodes.3.mac`."""
    return ".".join(map(str, error.errors()[0]["loc"])) or "document"


def describe(error: ValidationError, most: int = 5) -> str:
    """pydantic's errors in one line, the first `most` of them."""
    rows = [
        f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg'].removeprefix('Value error, ')}"
        for item in error.errors(include_url=False, include_input=False)
    ]
    more = f" (and {len(rows) - most} more)" if len(rows) > most else ""
    return "; ".join(rows[:most]) + more


def json_schema(model: type[BaseModel]) -> str:
    """The JSON Schema of a document as it is committed beside its model."""
    schema = model.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
