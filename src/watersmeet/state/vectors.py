"""Numbers by partition group, as they are stored: packed, compressed, and unpacked only when they are looked at.

What was made here is packed when it is written, and not before: where nothing is stored, nothing is packed.
"""

import base64
import zlib
from collections import OrderedDict
from threading import Lock
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["<i8", "<u4", "<f4", "<f8"]
CACHED_BYTES = 64 << 20
"""What is kept unpacked: the sizes of a thousand runs with 16,384 groups each, or of all runs there may be with few."""


class Vector:
    """An array that never changes; ``text`` is its stored form, by which two are equal. It has one of the two at least.

    >>> Vector.of([3, 0, 7]).array.tolist()
    [3, 0, 7]
    >>> Vector(Vector.of([3, 0, 7]).text) == Vector.of([3, 0, 7])
    True
    """

    __slots__ = ("_array", "_text")

    def __init__(self, text: str = "") -> None:
        self._text: str | None = text
        self._array: npt.NDArray[Any] | None = None

    @classmethod
    def of(cls, values: npt.ArrayLike, kind: Kind = "<i8") -> "Vector":
        """The vector of some numbers."""
        made = cls()
        made._text, made._array = None, np.array(values, dtype=kind)
        made._array.setflags(write=False)
        return made

    @property
    def text(self) -> str:
        """The numbers packed; from then on that is all that is kept of them, as it is smaller."""
        if self._text is None:
            self._text = _packed(self.array)
            self._array = None
        return self._text

    @property
    def array(self) -> npt.NDArray[Any]:
        """The numbers; none where nothing was packed."""
        found = self._array
        return _unpacked.get(self.text) if found is None else found

    def __len__(self) -> int:
        return len(self.array)

    def __bool__(self) -> bool:
        return self._text != ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[object, ...]:
        return (Vector, (self.text,))

    def __repr__(self) -> str:
        return f"Vector.of({self.array.tolist()})"


def _packed(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype.str}:{base64.b64encode(zlib.compress(array.tobytes(), 1)).decode()}"


class _Unpacked:
    """The arrays that were used last, up to a number of bytes; several site tasks may be threads of one process."""

    def __init__(self) -> None:
        self._arrays: OrderedDict[str, npt.NDArray[Any]] = OrderedDict()
        self._changing = Lock()
        self.bytes = 0

    def get(self, text: str) -> npt.NDArray[Any]:
        with self._changing:
            found = self._arrays.get(text)
            if found is not None:
                self._arrays.move_to_end(text)
                return found
        return self._add(text, _unpack(text))

    def _add(self, text: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        with self._changing:
            self.bytes += array.nbytes if text not in self._arrays else 0
            self._arrays[text] = array
            while self.bytes > CACHED_BYTES:
                self.bytes -= self._arrays.popitem(last=False)[1].nbytes
        return array


_unpacked = _Unpacked()


def _unpack(text: str) -> npt.NDArray[Any]:
    kind, _, packed = text.partition(":")
    if not packed:
        return np.empty(0, dtype=np.int64)
    found = np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype=kind)
    found.setflags(write=False)
    return found
