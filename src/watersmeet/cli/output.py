"""The output of commands: results on stdout, errors as one paragraph on stderr, or everything as JSON on stdout."""

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal

from watersmeet.model.errors import WatersmeetError

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended: 128 and the signal's number, as shells have it."""


class Output(StrEnum):
    """The form of a command's output."""

    text = "text"
    json = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Text for people, JSON for programs.")]


def progress_console(output: Output) -> Console:
    """Where progress is shown: with the results, or beside them where these are JSON."""
    return Console(stderr=output is Output.json, highlight=False)


def print_json(value: object) -> None:
    """Write a value as one line of JSON."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def size(count: int) -> str:
    """A number of bytes in the largest unit that fits.

    >>> size(119), size(15_530)
    ('119 B', '15.5 kB')
    """
    return decimal(count).replace("bytes", "B").replace("byte", "B")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as lines on stderr, without a place in the code."""
    usual = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = usual


@contextmanager
def reporting(output: Output) -> Iterator[None]:
    """Turn an error into a message and exit code 1, Ctrl-C into exit code 130; a defect keeps its traceback."""
    try:
        yield
    except WatersmeetError as error:
        _tell(output, _described(error))
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error
    except Exception as error:
        if not _is_sparks(error):
            raise
        _tell(output, _described_by_spark(error))
        raise typer.Exit(1) from error


def _tell(output: Output, error: dict[str, str]) -> None:
    if output is Output.json:
        print_json({"error": error})
    else:
        console = Console(stderr=True, highlight=False)
        console.print(error["message"], style="red", markup=False, soft_wrap=True)


def _described(error: WatersmeetError) -> dict[str, str]:
    return {
        "condition": type(error).__name__,
        "what": error.what,
        "why": error.why,
        "how": error.how,
        "message": str(error),
    }


def _is_sparks(error: Exception) -> bool:
    """Whether Spark raised it; asked without loading Spark."""
    return type(error).__module__.startswith(("pyspark.", "py4j."))


def _described_by_spark(error: Exception) -> dict[str, str]:
    what, notes = said_by_spark(error), " ".join(getattr(error, "__notes__", ()))
    name = type(error).__name__
    return {"condition": name, "what": what, "why": "", "how": notes, "message": f"[{name}] {what}. {notes}".rstrip()}


def said_by_spark(error: Exception) -> str:
    r"""Give what Spark has to say, without plans, stacks and what only wraps it: the first condition and the last.

    >>> read = "[FAILED_READ_FILE] Cannot read x.json. SQLSTATE: KD001\n\tat X\nCaused by: [BAD_JSON] No end."
    >>> said_by_spark(ValueError(f"[STREAM_FAILED] Query [id = 1] terminated\n{read}"))
    '[FAILED_READ_FILE] Cannot read x.json, [BAD_JSON] No end'
    >>> said_by_spark(ValueError("it failed.\n\tat X"))
    'it failed'
    """
    found = _CONDITION.findall(str(error)) or str(error).strip().splitlines()[:1]
    lines = (re.sub(r"\s*SQLSTATE: \w+", "", line).strip().rstrip(".") for line in (found[0], found[-1]))
    return ", ".join(dict.fromkeys(lines))


_CONDITION = re.compile(r"\[(?!STREAM_FAILED|FOREACH_BATCH)[A-Z][A-Z0-9_.]{3,}\] [^\n]+")
