"""What travels between tasks: messages, each for one site and one input.

A message's ``#tag`` says what kind it is and for which input: the kind in the upper bits, the input's number in the
lower ones. So a row has the plain number, and rows, which are many, need no column more.

| kind | what it brings |
|---|---|
| row | one row: its hash, and its columns in slots (`watersmeet.site.layout`) |
| pointer | the name of a run that the level below has written for this one, as JSON in ``#body`` |
| parcel | thousands of rows with their hashes, as Arrow bytes in ``#body`` (`watersmeet.site.travel`) |
| site | nothing: it tells a task which site it works for |
| unmatched | a row that can have no match, as its key is null, but comes out alone |
| unmatched pointer | the name of a run of such rows that the level below has written for this one |
| probe | the name of a run that another site stores, whose rows meet those that are stored here |
| unjoined | a row that joins nothing, by a filter or a null key; its time still counts |
| promise | a punctuation, in its normal form (`watersmeet.site.promises`) |
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

# No stream can have such a name, and streams are columns beside these.
TAG, HASH, SITE, BODY = "#tag", "#hash", "#site", "#body"

SHIFT = 16
INPUTS_MAX = 1 << SHIFT


class Kind(IntEnum):
    """What a message is."""

    ROW = 0
    POINTER = 1
    PARCEL = 2
    SITE = 3
    UNJOINED = 4
    UNMATCHED = 5
    UNMATCHED_POINTER = 6
    PROMISE = 7
    PROBE = 8


def tag_of(kind: Kind, number: int = 0) -> int:
    """The tag of a message.

    >>> tag_of(Kind.ROW, 5), tag_of(Kind.POINTER, 5)
    (5, 65541)
    """
    return kind << SHIFT | number


def kinds_of(tags: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The kind of each message."""
    return tags >> SHIFT


def input_of(tag: int) -> int:
    """The number of the input a message is for.

    >>> input_of(tag_of(Kind.PARCEL, 7))
    7
    """
    return tag & (INPUTS_MAX - 1)
