"""Steps in this process: the real site tasks, and by hand what Spark does between them.

It evaluates keys and filters with a function it is given, hashes, routes and exchanges. So thousands of random plans
and disturbances can be tried, under the shipped driver, in the time Spark needs for a few. A batch is a table for every
stream; results are kept by epoch, and those of a repeated step take the place of the earlier ones.
"""

import random
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.driver.ports import Done, Step
from watersmeet.model.ids import EpochId
from watersmeet.runners.local.messages import Evaluate, HashKeys, Messages, Tables, hash_whole_numbers
from watersmeet.runners.local.rows import no_messages
from watersmeet.site.effects import read_effects
from watersmeet.site.local_exchange import LocalExchange
from watersmeet.site.messages import SITE
from watersmeet.site.spec import LevelSpec
from watersmeet.site.task import SiteTask
from watersmeet.site.travel import joined_rows
from watersmeet.storage.base import Storage


@dataclass
class LocalOffsets:
    """The batches that were handed over so far."""

    last: int = -1

    def planned(self) -> int:
        """The last batch."""
        return self.last

    def finished(self) -> int:
        """Nothing is known of its end but what the manifest says."""
        return -1

    def repair(self) -> None:
        """There is nothing to repair."""


@dataclass
class LocalRunner:
    """Runs tasks one after the other. With a ``chance``, some are repeated, and some steps use the local exchange."""

    storage: Storage
    evaluate: Evaluate
    hash_keys: HashKeys = hash_whole_numbers
    chance: random.Random | None = None
    results: dict[EpochId, pa.Table] = field(default_factory=dict)

    def run(self, step: Step[Tables]) -> Done:
        """Carry out a step."""
        names: list[str] = []
        delta = self._messages.first(step) if step.batch is not None else no_messages(step.levels[0])
        if self._happens(0.4) and all(spec.packed for spec in step.levels[1:]):
            produced = self._locally(step, delta, names)
        else:
            produced = self._level_by_level(step, delta, names)
        columns = {name: produced[name].combine_chunks() for name in produced.column_names if step.has_results}
        schema = step.topology.row_schema()
        rows = pa.Table.from_batches([joined_rows(columns, len(produced), schema)] if columns else [], schema)
        self.results[step.epoch] = rows.filter(self._messages.passes(rows, step.manifest.plan.root.filters))
        return Done([each for _, each in sorted(read_effects(self.storage, names).items())])

    @property
    def _messages(self) -> Messages:
        return Messages(self.evaluate, self.hash_keys)

    def cancel(self) -> None:
        """Nothing runs beside the one who asks."""

    def close(self) -> None:
        """Nothing is held."""

    def _happens(self, chance: float) -> bool:
        return self.chance is not None and self.chance.random() < chance

    def _batches(self, messages: pa.Table) -> list[pa.RecordBatch]:
        size = None if self.chance is None else self.chance.randint(1, 5)
        return list(messages.to_batches(max_chunksize=size))

    def _locally(self, step: Step[Tables], delta: pa.Table, names: list[str]) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        for _ in range(2 if self._happens(0.2) else 1):
            exchange = LocalExchange(step.levels)
            batches = [output for batch in self._batches(delta) for output in exchange.take(batch)]
            batches += exchange.end()
            names += exchange.effects_names()
        return pa.Table.from_batches(batches, step.levels[-1].outgoing.schema)

    def _level_by_level(self, step: Step[Tables], delta: pa.Table, names: list[str]) -> pa.Table:
        produced = delta
        for spec in step.levels:
            messages = produced if spec is step.levels[0] else self._messages.following(step, produced, spec.level)
            produced = self._run_level(spec, messages, names)
        return produced

    def _run_level(self, spec: LevelSpec, messages: pa.Table, names: list[str]) -> pa.Table:
        outputs = [spec.outgoing.schema.empty_table()]
        for site in spec.sites:
            mine = messages.filter(pc.equal(messages.column(SITE), spec.site_keys[site]))
            for attempt in range(2 if self._happens(0.2) else 1):
                task = SiteTask(spec, site)
                batches = list(task.run(self._batches(mine)))
                names.append(task.effects_name)
                outputs += [pa.Table.from_batches([batch]) for batch in batches] if attempt == 0 else []
        return pa.concat_tables(outputs)
