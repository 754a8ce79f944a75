"""What to say of a join whose inputs no equality connects: which, and an equality that would."""

from collections.abc import Iterator, Sequence

from watersmeet.model.errors import NoEqualityError
from watersmeet.model.plan import Column
from watersmeet.model.query import How
from watersmeet.planning.names import Scope, spelled
from watersmeet.planning.types import common, may_be_key

_NAMES: dict[How, str] = {
    "left": "a left outer",
    "right": "a right outer",
    "full": "a full outer",
    "semi": "a semi",
    "anti": "an anti",
}


def unconnected(parts: Sequence[Sequence[str]], scope: Scope, how: How = "inner") -> NoEqualityError:
    """The error for parts that are each connected in themselves; a part is the names of its streams.

    An inner join may be on any condition that reads both; all others need an equality.
    """
    last, others = parts[-1], [stream for part in parts[:-1] for stream in part]
    left, right = _example(others, last, scope)
    return NoEqualityError(
        f"no equality connects {', '.join(last)} with {', '.join(others)}",
        why="no part of the condition reads both"
        if how == "inner"
        else f"inner joins may be on any condition, but {_NAMES[how]} join needs an equality of both sides",
        how=f"add a condition such as {left} = {right}"
        + (", or TRUE if every row of the one is to meet every row of the other" if how == "inner" else ""),
    )


def _example(left: Sequence[str], right: Sequence[str], scope: Scope) -> tuple[str, str]:
    """Two columns that could be equated: best of the same name, else of the same type, else any."""
    pairs = list(_comparable(left, right, scope))
    alike = (pair for pair in pairs if scope.fold(pair[0].field) == scope.fold(pair[1].field))
    found = next(alike, pairs[0] if pairs else (Column(left[0], "x"), Column(right[0], "y")))
    return spelled(found[0]), spelled(found[1])


def _comparable(left: Sequence[str], right: Sequence[str], scope: Scope) -> Iterator[tuple[Column, Column]]:
    keys = [(column, type_) for column, type_ in scope.types.items() if may_be_key(type_)]
    for ours, our_type in keys:
        for theirs, their_type in keys:
            if ours.stream in left and theirs.stream in right and common(our_type, their_type) is not None:
                yield ours, theirs
