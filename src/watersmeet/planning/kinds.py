"""Kinds of joins, by the words Spark has for them."""

from watersmeet.model.errors import QueryError, UnsupportedError
from watersmeet.model.query import How

_KINDS: dict[str, How] = {
    "inner": "inner",
    "outer": "full",
    "full": "full",
    "fullouter": "full",
    "left": "left",
    "leftouter": "left",
    "right": "right",
    "rightouter": "right",
    "semi": "semi",
    "leftsemi": "semi",
    "anti": "anti",
    "leftanti": "anti",
}


def kind_of(how: object) -> How:
    """The kind of join that Spark's word means; an inner one without a word.

    >>> kind_of("LEFT_OUTER"), kind_of("outer"), kind_of(None)
    ('left', 'full', 'inner')
    """
    if how is None:
        return "inner"
    known = "one of 'inner', 'left', 'right', 'full', 'semi' and 'anti'"
    if not isinstance(how, str):
        raise QueryError(f"how is {how!r}", why="it names the kind of join", how=f"leave it out, or write {known}")
    word = how.lower().replace("_", "").replace(" ", "")
    if word == "cross":
        raise UnsupportedError("how is 'cross'", why="rows are found by an equality", how="join on one with on=...")
    if word not in _KINDS:
        raise QueryError(f"how is {how!r}", why="there is no such join", how=f"leave it out, or write {known}")
    return _KINDS[word]
