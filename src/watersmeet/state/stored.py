"""Between values and the JSON they are stored as: types that JSON does not have, and a checksum around everything."""

import base64
import zlib
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from watersmeet.model.errors import CheckpointCorruptError, CheckpointMismatchError
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import FORMAT
from watersmeet.state.vectors import Vector

Value = TypeVar("Value")


class _Envelope(msgspec.Struct):
    format: int
    checksum: int
    body: msgspec.Raw


class _Format(msgspec.Struct):
    format: int = 1


def to_json(value: object) -> bytes:
    """A value as JSON."""
    return msgspec.json.encode(value, enc_hook=_encoded)


def from_json(data: bytes | str | msgspec.Raw, kind: type[Value]) -> Value:
    """The value of some JSON; raises msgspec.DecodeError."""
    return msgspec.json.decode(data, type=kind, dec_hook=_decoded)


def seal(value: object) -> bytes:
    """A value as JSON in a checksummed envelope."""
    body = to_json(value)
    return msgspec.json.encode(_Envelope(FORMAT, zlib.crc32(body), msgspec.Raw(body)))


def unseal(data: bytes, kind: type[Value], name: str) -> Value:
    """The value in an envelope, refusing what is damaged or of another format."""
    try:
        found = msgspec.json.decode(data, type=_Format).format
        if found != FORMAT:
            raise _other_format(name, found)
        envelope = msgspec.json.decode(data, type=_Envelope)
        if zlib.crc32(envelope.body) != envelope.checksum:
            raise corrupt(name, "its checksum does not match its content")
        return from_json(envelope.body, kind)
    except (msgspec.DecodeError, ValueError, pa.ArrowInvalid) as error:
        raise corrupt(name, f"it cannot be read ({error})") from error


def corrupt(name: str, why: str) -> CheckpointCorruptError:
    """The error for a file that is damaged."""
    return CheckpointCorruptError(
        f"{name} is damaged", why=why, how="restore the file from a copy, or start with a new checkpointLocation"
    )


def _other_format(name: str, found: int) -> CheckpointMismatchError:
    if found > FORMAT:
        how = "use the version that wrote it, or a newer one"
    else:
        how = "finish the query with the version that wrote it, or start with a new checkpointLocation"
    return CheckpointMismatchError(
        f"{name} has format {found}",
        why=f"this version of Watersmeet reads format {FORMAT}; format 1 did not hold the query's plan",
        how=how,
    )


def _encoded(value: object) -> object:
    if isinstance(value, GroupSet | Vector):
        return value.text
    if isinstance(value, pa.DataType):
        return _schema_text(pa.schema([pa.field("type", value)]))
    if isinstance(value, pa.Schema):
        return _schema_text(value)
    raise NotImplementedError(type(value))


def _decoded(kind: type, text: Any) -> object:
    if kind is GroupSet:
        return GroupSet.parse(text)
    if kind is Vector:
        return Vector(text)
    if kind is pa.DataType:
        return _schema_of(text).field(0).type
    if kind is pa.Schema:
        return _schema_of(text)
    raise NotImplementedError(kind)


def _schema_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def _schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
