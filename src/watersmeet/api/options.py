"""Options of a query: names, values and defaults, checked at the latest before anything runs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from watersmeet.adapt.moving.policies import DEFAULT_ADAPTATION
from watersmeet.adapt.moving.policies import NAMES as ADAPTATIONS
from watersmeet.adapt.ring.cost import Goal
from watersmeet.adapt.ring.relocation import Relocation
from watersmeet.adapt.spilling import DEFAULT_STRATEGY, STRATEGIES
from watersmeet.model.errors import OptionError, nearest
from watersmeet.model.plan import Plan
from watersmeet.operators.ring import schemes
from watersmeet.planning.durations import duration_us
from watersmeet.state.groups import MAX_GROUPS

CleanupMoment = Literal["idle", "end"]
DEFAULT_GROUPS = 300
MAX_SITES = 4096
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
DIGITS_MAX = 18
"""Of a whole number; more is more than any machine has."""

_SIZE = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}})\s*(b|[kmgt]b?|)", re.IGNORECASE)

_WEIGHT = re.compile(rf"[0-9]{{1,{DIGITS_MAX}}}(\.[0-9]{{1,{DIGITS_MAX}}})?")

# The options Spark's own batch sinks take; those of other formats are passed on unseen.
_FILES = {
    "path",
    "compression",
    "timeZone",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "encoding",
    "lineSep",
}
SINK_OPTIONS: dict[str, set[str]] = {
    "parquet": _FILES | {"mergeSchema", "parquet.block.size", "parquet.page.size", "maxRecordsPerFile"},
    "orc": _FILES | {"orc.compress", "maxRecordsPerFile"},
    "json": _FILES | {"ignoreNullFields", "maxRecordsPerFile"},
    "csv": _FILES
    | {"sep", "delimiter", "quote", "escape", "header", "nullValue", "emptyValue", "quoteAll", "maxRecordsPerFile"}
    | {"ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "escapeQuotes", "charToEscapeQuoteEscaping"},
    "text": _FILES | {"maxRecordsPerFile"},
    "noop": set(),
    "memory": set(),
    "console": {"numRows", "truncate"},
    "function": set(),
}


class Options(msgspec.Struct, frozen=True):
    """What a query is run with. Sizes are in bytes."""

    checkpoint_location: str | None = None
    copy_location: str | None = None
    memory_budget_bytes: int | None = None
    spill_strategy: str = DEFAULT_STRATEGY
    spill_fraction: float = 0.3
    spill_seed: int = 0
    inactive_epochs: int | None = None
    cleanup: CleanupMoment = "idle"
    partition_groups: int | None = None
    sites: int | None = None
    retained_versions: int = 10
    end_of_input: bool = False
    rejected_path: str | None = None
    promise_retention_us: int | None = None
    adaptation: str = DEFAULT_ADAPTATION
    site_weights: tuple[float, ...] = ()
    ring_scheme: schemes.Name | None = None
    ring_goal: Goal | None = None
    ring_relocation: Relocation | None = None


def parse(options: Mapping[str, object], sink: str) -> tuple[Options, dict[str, str]]:
    """Separate Watersmeet's options from those of the sink, and refuse unknown ones.

    >>> ours, theirs = parse({"memoryBudget": "64m", "compression": "zstd"}, "parquet")
    >>> ours.memory_budget_bytes, theirs
    (67108864, {'compression': 'zstd'})
    >>> parse({"memoryBudgt": "64m"}, "parquet")
    Traceback (most recent call last):
    watersmeet.model.errors.OptionError: [OptionError] option memoryBudgt is not known: neither Watersmeet nor the \
parquet sink has it. Did you mean 'memoryBudget'?
    """
    known = {name.lower(): name for name in _OURS}
    ours: dict[str, object] = {}
    theirs: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() in known:
            field, read = _OURS[known[name.lower()]]
            ours[field] = read(known[name.lower()], value)
        else:
            theirs[_sink_option(name, sink)] = _text(value)
    return _agreeing(Options(**ours)), theirs  # type: ignore[arg-type]


def _agreeing(options: Options) -> Options:
    """The options, if they agree with each other; weights tell how many sites there are, if nothing else does."""
    if options.ring_scheme not in (None, "psp") and options.memory_budget_bytes is not None:
        raise OptionError(
            f"ringScheme is {options.ring_scheme}, and memoryBudget is set",
            why="its sites hold copies of other sites' state, which do not count against a budget",
            how="leave ringScheme out: psp holds no copies",
        )
    if options.ring_relocation is not None and options.ring_goal is None:
        raise OptionError(
            f"ringRelocation is {options.ring_relocation}, and there is no ringGoal",
            why="it says how groups move when the number of a ring's sites changes, and only a goal changes it",
            how='set ringGoal to "latency" or "output", or leave ringRelocation out',
        )
    if not options.site_weights:
        return options
    if options.sites not in (None, len(options.site_weights)):
        raise OptionError(
            f"siteWeights has {len(options.site_weights)} numbers, and sites is {options.sites}",
            why="every site has a weight",
            how=f"write {options.sites} numbers, or leave out sites",
        )
    return msgspec.structs.replace(options, sites=len(options.site_weights))


def refuse_without_ring(options: Options, plan: Plan) -> None:
    """Refuse options of rings for a query that has none."""
    fields = {field: name for name, (field, _) in _OURS.items() if field.startswith("ring_")}
    given = [name for field, name in fields.items() if getattr(options, field) is not None]
    if given and not any(operator.kind == "ring" for operator in plan.operators):
        raise OptionError(
            f"{_and(given)} {'is' if len(given) == 1 else 'are'} set, and the query has no ring",
            why="each of its joins has an equality, so rows go to the site of their key",
            how=f"leave {_and(given)} out",
        )


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)


def _sink_option(name: str, sink: str) -> str:
    allowed = SINK_OPTIONS.get(sink)
    if allowed is None:
        if not nearest(name, _OURS, cutoff=0.85).startswith("did you mean"):
            return name
    elif name.lower() in {option.lower() for option in allowed}:
        return name
    raise OptionError(
        f"option {name} is not known",
        why=f"neither Watersmeet nor the {sink} sink has it",
        how=nearest(name, [*_OURS, *sorted(allowed or ())]),
    )


def _bytes(name: str, value: object) -> int:
    found = _SIZE.fullmatch(_text(value).strip())
    if found is None or int(found[1]) == 0:
        raise _bad(name, value, "a whole number above 0 of bytes, or of k, m, g or t of them", "64m or 1536m")
    return int(found[1]) * _UNITS[found[2].lower()[:1]]


def _fraction(name: str, value: object) -> float:
    try:
        number = float(_text(value))
    except ValueError:
        number = -1.0
    if not 0 < number <= 1:
        raise _bad(name, value, "a number above 0 and at most 1", "0.3")
    return number


def _whole(most: int, example: str, least: int = 1):  # type: ignore[no-untyped-def]  # noqa: ANN202
    def read(name: str, value: object) -> int:
        text = _text(value).strip()
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX) or not least <= int(text) <= most:
            raise _bad(name, value, f"a whole number from {least} to {most}", example)
        return int(text)

    return read


def _one_of(names: Iterable[str], kind: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    def read(name: str, value: object) -> str:
        text = _text(value).strip().lower()
        if text not in names:
            raise OptionError(
                f"{name} is {value!r}",
                why=f"there is no such {kind}",
                how=nearest(text, names),
            )
        return text

    return read


def _weights(name: str, value: object) -> tuple[float, ...]:
    """A weight for every site; those with weight 0 get no groups at first."""
    texts = [text.strip() for text in _text(value).split(",")]
    is_read = len(texts) <= MAX_SITES and all(_WEIGHT.fullmatch(text) for text in texts)
    weights = tuple(map(float, texts)) if is_read else ()
    if not any(weights):
        raise _bad(name, value, "a number of 0 or more for every site, not all of them 0", "9,1")
    return weights


def _moment(name: str, value: object) -> str:
    text = _text(value).strip().lower()
    if text not in get_args(CleanupMoment):
        raise _bad(name, value, "idle (also when input pauses) or end (only at the end, or on request)", "idle")
    return text


def _flag(name: str, value: object) -> bool:
    words = {"true": True, "false": False}
    if str(value).strip().lower() not in words:
        raise _bad(name, value, "true or false", "true")
    return words[str(value).strip().lower()]


def _duration(name: str, value: object) -> int:
    return duration_us(f"option {name}", value, may_be_zero=False)


def _location(name: str, value: object) -> str:
    text = _text(value).strip()
    if not text:
        raise _bad(name, value, "a path or URL", "checkpoints/orders")
    return text


def _folder(name: str, value: object) -> str:
    text = _text(value).strip()
    if not text.startswith("/"):
        raise _bad(name, value, "an absolute path, the same on every host", "/mnt/ssd")
    return text


def _bad(name: str, value: object, wanted: str, example: str) -> OptionError:
    return OptionError(f"{name} is {value!r}", why=f"it must be {wanted}", how=f"write for example {example}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_OURS = {
    "checkpointLocation": ("checkpoint_location", _location),
    "copyLocation": ("copy_location", _folder),
    "memoryBudget": ("memory_budget_bytes", _bytes),
    "spillStrategy": ("spill_strategy", _one_of(STRATEGIES, "strategy")),
    "spillFraction": ("spill_fraction", _fraction),
    "spillSeed": ("spill_seed", _whole(1 << 31, "1", least=0)),
    "inactiveEpochs": ("inactive_epochs", _whole(1 << 31, "20")),
    "cleanup": ("cleanup", _moment),
    "partitionGroups": ("partition_groups", _whole(MAX_GROUPS, "300")),
    "sites": ("sites", _whole(MAX_SITES, "4")),
    "retainedVersions": ("retained_versions", _whole(100_000, "10")),
    "endOfInput": ("end_of_input", _flag),
    "rejectedPath": ("rejected_path", _location),
    "promiseRetention": ("promise_retention_us", _duration),
    "adaptation": ("adaptation", _one_of(ADAPTATIONS, "adaptation")),
    "siteWeights": ("site_weights", _weights),
    "ringGoal": ("ring_goal", _one_of(get_args(Goal), "goal")),
    "ringRelocation": ("ring_relocation", _one_of(get_args(Relocation), "relocation")),
    "ringScheme": ("ring_scheme", _one_of(schemes.NAMES, "scheme")),
}
