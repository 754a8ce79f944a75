"""What conditions on pairs of rows compute: sums and products of numbers, and texts that are LIKE a pattern.

Whole numbers have 64 bits, and what does not fit is told, as Spark tells it.
"""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.errors import StateLimitError

_ESCAPED = re.compile(r"\\(?P<escaped>[\\%_])|(?P<wild>[%_])|(?P<plain>[^%_\\]+|\\)", re.DOTALL)
_WILD = {"%": ".*", "_": "."}


def like(text: pa.Array, pattern: pa.Array) -> pa.Array:
    r"""SQL's LIKE, pair by pair: ``%`` is any text, ``_`` any letter, and a backslash takes them for themselves.

    >>> like(pa.array(["ab", "a%", None]), pa.array(["a_", "a\\%", "a"])).to_pylist()
    [True, True, None]
    """
    known = pc.and_(text.is_valid(), pattern.is_valid())
    held = np.zeros(len(text), np.bool_)
    patterns = pattern.dictionary_encode()
    codes = patterns.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    order = order[np.searchsorted(codes[order], 0) :]
    for some in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else ():
        told = _regex(patterns.dictionary[int(codes[some[0]])].as_py())
        found = pc.match_substring_regex(text.take(pa.array(some)), told).fill_null(fill_value=False)
        held[some] = found.to_numpy(zero_copy_only=False)
    return pa.array(held, mask=~known.to_numpy(zero_copy_only=False))


def _regex(pattern: str) -> str:
    r"""A pattern as a regular expression.

    >>> _regex("a%_.")
    '(?s)^a.*.\\.\\z'
    """
    parts = (
        _WILD[each["wild"]] if each["wild"] else re.escape(each["escaped"] or each["plain"])
        for each in _ESCAPED.finditer(pattern)
    )
    return rf"(?s)^{''.join(parts)}\z"


def _checked(function: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    def compute(*numbers: pa.Array) -> pa.Array:
        try:
            return function(*numbers)
        except pa.ArrowInvalid as error:
            raise StateLimitError(
                "a number that a join is on is larger than a BIGINT can hold",
                why="whole numbers are computed in 64 bits, as Spark does",
                how="have it computed of doubles, as in CAST(A.x AS DOUBLE) + CAST(B.y AS DOUBLE)",
            ) from error

    return compute


COMPUTED: dict[str, Callable[..., pa.Array]] = {
    "add": _checked(pc.add_checked),
    "subtract": _checked(pc.subtract_checked),
    "multiply": _checked(pc.multiply_checked),
    "abs": _checked(pc.abs_checked),
    "negate": _checked(pc.negate_checked),
    "like": like,
}
