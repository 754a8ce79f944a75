"""All errors that users can get, in one place.

A message has three parts, each with the values at hand: *what* happened, *why* it is refused, *how* to fix it. The
name of the class stands in front, so that an error that crosses a process boundary as text is still recognised.
"""

import difflib
import re
from collections.abc import Iterable


class WatersmeetError(Exception):
    """The base of all errors raised by Watersmeet.

    >>> error = WatersmeetError("sites is 0", why="a query needs a site to run on", how="set it to 1 or more")
    >>> print(error)
    [WatersmeetError] sites is 0: a query needs a site to run on. To fix it, set it to 1 or more.
    """

    def __init__(self, what: str, *, why: str = "", how: str = "") -> None:
        self.what, self.why, self.how = what, why, how
        reason = f": {why}" if why else ""
        remedy = "" if not how else f" {how[0].upper()}{how[1:]}" if how.endswith("?") else f" To fix it, {how}."
        super().__init__(f"[{type(self).__name__}] {what}{reason}.{remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (type(self), self.what, self.why, self.how))


class QueryError(WatersmeetError):
    """The query itself is wrong; raised before anything runs."""


class UnknownNameError(QueryError):
    """A stream or column that does not exist; the message names the most similar one."""


class UnknownAttributeError(UnknownNameError, AttributeError):
    """A column or method that a relation does not have."""


class DuplicateNameError(QueryError):
    """Two streams of one flow with the same name, or one relation joined twice."""


class TypeMismatchError(QueryError):
    """The two sides of an equality have types that cannot be compared exactly."""


class NoEqualityError(QueryError):
    """A join whose inputs are not connected by equalities."""


class NotStreamingError(QueryError):
    """A DataFrame that is not a stream."""


class UnsupportedError(QueryError):
    """A feature that Spark users might expect and this version does not have."""


class UnsupportedCallError(UnsupportedError, AttributeError):
    """A method of Spark's DataFrames that is not possible on a stream, or not available yet."""


class OptionError(WatersmeetError):
    """An option that does not exist, does not parse or may not change."""


class CheckpointError(WatersmeetError):
    """The checkpoint cannot be used; it was not changed."""


class CheckpointMismatchError(CheckpointError):
    """The checkpoint belongs to another query, schema or format."""


class CheckpointCorruptError(CheckpointError):
    """A file the manifest names is missing or damaged."""


class CheckpointInUseError(CheckpointError):
    """Another driver owns the checkpoint."""


class StorageError(WatersmeetError):
    """A file could not be read or written while the query ran."""


class StorageFullError(StorageError):
    """The storage of the state is full."""


class StateLimitError(WatersmeetError):
    """The rows of one key exceed a limit of the storage format."""


class StoppedError(WatersmeetError):
    """The query was stopped before a call was complete."""


class QueryFailedError(WatersmeetError):
    """The query failed while it ran, in a source, an expression or a sink; the message says where."""


class WorkerError(WatersmeetError):
    """Spark's Python workers cannot run site tasks, or died."""


class PredicateError(WatersmeetError):
    """A function given to `predicate` failed, or did not return a boolean for each row."""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A hint for a mistyped name.

    >>> nearest("A.prize", ["A.price", "B.size"])
    "did you mean 'A.price'?"
    >>> nearest("x", ["alpha", "beta"])
    'use one of alpha, beta'
    """
    candidates = list(known)
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    if matches:
        return f"did you mean '{by_lower[matches[0]]}'?"
    return "use one of " + ", ".join(candidates) if candidates else "define one first"


def recognise(text: str) -> WatersmeetError | None:
    """Find the error of a worker in the text of Spark's error; also whether the worker died.

    >>> recognise("PythonException: ... [StorageFullError] /ck is full: no space left. To fix it, free some.")
    StorageFullError('[StorageFullError] /ck is full: no space left. To fix it, free some.')
    >>> type(recognise("SparkException: Python worker exited unexpectedly (crashed)")).__name__
    'WorkerError'
    """
    found = _MARK.search(text)
    if found is None:
        return _died() if DIED in text else None
    kind = _conditions(WatersmeetError).get(found["name"])
    return None if kind is None else _verbatim(kind, found[0])


def failed(error: BaseException) -> WatersmeetError:
    """The error of a query that failed while it ran: its cause first, whatever Spark wrapped it in.

    >>> print(failed(ValueError("no such account")))
    [QueryFailedError] ValueError: no such account: the query failed with it, and nothing is lost. To fix it, remove \
the cause and start the query again on the same checkpointLocation.
    """
    own = recognise(str(error)) if not isinstance(error, WatersmeetError) else error
    if own is not None:
        return own
    wrapped = QueryFailedError(
        cause_of(error),
        why="the query failed with it, and nothing is lost",
        how="remove the cause and start the query again on the same checkpointLocation",
    )
    wrapped.__cause__ = error
    return wrapped


def cause_of(error: BaseException) -> str:
    r"""What went wrong, in one line: Spark's own condition, the last line of a Python traceback, or the first line.

    >>> cause_of(RuntimeError("Job aborted.\nCaused by: org.X: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide`."))
    '[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`'
    """
    text = str(error)
    if not type(error).__module__.startswith(("pyspark", "py4j")) and type(error) is not RuntimeError:
        return f"{type(error).__name__}: {text}".splitlines()[0].rstrip(".: ")
    raised = [found for found in _RAISED.findall(text) if "Py4JJavaError" not in found]
    named = [found for found in _NAMED.findall(text) if not found.startswith(_GENERAL)]
    found = (raised if "PythonException" in text else named) or named or raised or [text.splitlines()[0]]
    return str(found[0]).split(" SQLSTATE")[0].rstrip(". ")


_NAMED = re.compile(r"\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] [^\n]+")
_RAISED = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception): [^\n]+", re.MULTILINE)
_GENERAL = ("[STREAM_FAILED]", "[FOREACH", "[FAILED_EXECUTE_UDF]")

DIED = "Python worker exited unexpectedly"
"""What Spark says of a worker that was killed."""

_MARK = re.compile(r"\[(?P<name>[A-Z][A-Za-z]+Error)\] [^\n]*")


def _conditions(base: type[WatersmeetError]) -> dict[str, type[WatersmeetError]]:
    found = {base.__name__: base}
    for child in base.__subclasses__():
        found |= _conditions(child)
    return found


def _died() -> WatersmeetError:
    return WorkerError(
        "a Python worker of Spark's has died",
        why="it was killed, most often by the system for want of memory, and Spark gave up its task",
        how="start the query again, it goes on where it was; if it dies again, give it less at once: set memoryBudget, "
        "use more sites, or let the sources read less in a batch",
    )


def _verbatim(kind: type[WatersmeetError], message: str) -> WatersmeetError:
    error = kind(message)
    error.args = (message,)
    return error


def _restore(kind: type[WatersmeetError], what: str, why: str, how: str) -> WatersmeetError:
    return kind(what, why=why, how=how)
