"""Arguments of a relation's methods, checked: a wrong type raises an error that says what is expected."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as SparkColumn

from watersmeet.model.errors import QueryError
from watersmeet.runners.spark.projection import Item


def item_of(method: str, given: object) -> Item:
    """A text or a Column."""
    if isinstance(given, str | SparkColumn):
        return given
    raise _wrong(method, given, "an expression", '"A.x > 3" as SQL, or F.col("A.x") > 3 as a Column')


def items_of(method: str, given: Sequence[object]) -> list[Item]:
    """Texts and Columns, some of them perhaps in lists; at least one."""
    flat = [item for each in given for item in (each if isinstance(each, list | tuple) else [each])]
    if not flat:
        raise QueryError(f"{method} has no columns", why="it needs at least one", how=f'write .{method}("A.x")')
    return [item_of(method, item) for item in flat]


def name_of(method: str, given: object) -> str:
    """A name."""
    if isinstance(given, str) and given.strip():
        return given
    raise _wrong(method, given, "a name", '"x"')


def names_of(method: str, given: Sequence[object]) -> list[str]:
    """SQL texts, some of them perhaps in lists."""
    texts = items_of(method, given)
    for text in texts:
        if not isinstance(text, str):
            raise _wrong(method, text, "SQL", '"A.x + 1 AS y"')
    return [str(text) for text in texts]


def columns_of(method: str, given: object) -> Mapping[str, Item]:
    """Items by name."""
    if not isinstance(given, Mapping):
        raise _wrong(method, given, "a dict", '{"x": "A.y + 1"}')
    return {name_of(method, name): item_of(method, item) for name, item in given.items()}


def _wrong(method: str, given: object, wanted: str, example: str) -> QueryError:
    return QueryError(f"{method} was given {given!r}", why=f"it takes {wanted}", how=f"write {example}")
