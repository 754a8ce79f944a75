"""What an epoch did, for ``lastProgress``: small dictionaries under ``customMetrics``."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from watersmeet.engine.effects import Effects
from watersmeet.state.manifest import Manifest

RETAINED_EPOCHS = 256

Metrics = dict[str, object]


@dataclass
class History:
    """The metrics of the last epochs, by Spark's batch id."""

    _epochs: OrderedDict[int, Metrics] = field(default_factory=OrderedDict)
    _cleaning: deque[Metrics] = field(default_factory=lambda: deque(maxlen=RETAINED_EPOCHS))

    def add(self, batch: int, metrics: Metrics) -> None:
        """Keep an epoch's metrics."""
        self._epochs[batch] = metrics
        while len(self._epochs) > RETAINED_EPOCHS:
            self._epochs.popitem(last=False)

    def add_cleaning(self, metrics: Metrics) -> None:
        """Keep the metrics of a step of cleanup."""
        self._cleaning.append(metrics)

    @property
    def cleaning(self) -> list[Metrics]:
        """The metrics of the last steps of cleanup."""
        return list(self._cleaning)

    def get(self, batch: int) -> Metrics:
        """The metrics of a batch; empty where they are no longer kept."""
        return self._epochs.get(batch, {})


def epoch_metrics(manifest: Manifest, effects: Iterable[Effects], times_ms: dict[str, float]) -> Metrics:
    """Summarise an epoch from its effects and the manifest it committed."""
    told = list(effects)
    operators = list(manifest.operators)
    return {
        "epoch": manifest.version - 1,
        "version": manifest.version,
        "rowsOut": sum(each.rows_out.get(operators[-1], 0) for each in told),
        "stateRows": manifest.rows,
        "stateBytes": manifest.bytes,
        "runs": len(manifest.runs),
        "operators": [_operator(manifest, told, name) for name in operators],
        "sites": [_site(told, site) for site in range(manifest.sites)],
        "durationMs": {name: round(value) for name, value in times_ms.items()},
    }


def _operator(manifest: Manifest, told: list[Effects], name: str) -> Metrics:
    runs = [run for run in manifest.runs.values() if run.operator == name]
    arrived = [(source, n) for each in told for source, n in each.rows_in.items() if source.startswith(f"{name}/")]
    rows_in: dict[str, int] = {}
    for source, count in arrived:
        rows_in[source.split("/", 1)[1]] = rows_in.get(source.split("/", 1)[1], 0) + count
    return {
        "operator": name,
        "rowsIn": rows_in,
        "rowsOut": sum(each.rows_out.get(name, 0) for each in told),  # type: ignore[call-overload]
        "stateRows": sum(run.rows for run in runs),
        "stateBytes": sum(run.bytes for run in runs),
        "runs": len(runs),
    }


def _site(told: list[Effects], site: int) -> Metrics:
    mine = [each for each in told if each.site == site]
    return {
        "site": site,
        "executors": sorted({f"{each.host}:{each.executor}" for each in mine}),
        "busyMs": round(sum(each.busy_ms for each in mine)),
        "rowsIn": sum(sum(each.rows_in.values()) for each in mine),
        "rowsOut": sum(sum(each.rows_out.values()) for each in mine),
    }
