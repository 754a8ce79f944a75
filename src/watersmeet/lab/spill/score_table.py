"""The table of `bench spill`, for people and for machines."""

from collections.abc import Callable, Sequence

import msgspec

from watersmeet.lab.bench.text import table
from watersmeet.lab.spill.judge import Verdict
from watersmeet.lab.spill.order import Order
from watersmeet.lab.spill.trial import NAMES, Cell, Score

_SHORT = {"global-output-with-penalty": "penalty", "global-output": "global", "local-output": "local"}
_COLUMNS: dict[str, Callable[[Score], str]] = {
    "Results at run time, in per cent of those without a budget": lambda score: f"{100 * score.results:.1f}",
    "Spills, of all sites": lambda score: f"{score.spills:.0f}",
    "Spilled, in MB": lambda score: f"{score.spilled_bytes / 1e6:.0f}",
    "Results left to the cleanup, in thousands": lambda score: f"{score.cleanup_results / 1e3:.0f}",
    "Cost of the cleanup: MB read, and of intermediate results made": lambda score: f"{score.cleanup_bytes / 1e6:.0f}",
}


class SpillReport(msgspec.Struct, frozen=True):
    """All cells, what is promised, and where the papers' order of strategies holds."""

    cells: tuple[Cell, ...]
    verdicts: tuple[Verdict, ...]
    orders: tuple[Order, ...]
    quick: bool = False

    @property
    def ok(self) -> bool:
        """Whether all that is promised holds; tiny sizes are not judged."""
        return self.quick or all(verdict.met for verdict in self.verdicts)

    def text(self) -> str:
        """Tables and the verdict."""
        tables = [line for title, show in _COLUMNS.items() for line in (title, "", *_table(self.cells, show), "")]
        return "\n".join([*tables, *_orders(self.orders), "", *self._verdict()])

    def to_builtins(self) -> dict[str, object]:
        """Everything, for JSON."""
        fields: dict[str, object] = msgspec.to_builtins(self)
        verdicts = [msgspec.to_builtins(verdict) | {"met": verdict.met} for verdict in self.verdicts]
        orders = [msgspec.to_builtins(order) | {"holds": order.holds} for order in self.orders]
        return fields | {"ok": self.ok, "verdicts": verdicts, "orders": orders}

    def _verdict(self) -> list[str]:
        missed = [verdict for verdict in self.verdicts if not verdict.met]
        kept = f"{len(self.verdicts) - len(missed)} of {len(self.verdicts)} bounds hold."
        if self.quick:
            return [kept, "Sizes are too small to judge."]
        return [kept, *(_missed(verdict) for verdict in missed)]


def _table(cells: Sequence[Cell], show: Callable[[Score], str]) -> list[str]:
    heads = ["setting", "budget", *(_SHORT.get(name, name) for name in NAMES)]
    rows = [[cell.setting, f"{cell.budget:.0%}", *(show(cell.scores[name]) for name in NAMES)] for cell in cells]
    return table([heads, *rows])


def _orders(orders: Sequence[Order]) -> list[str]:
    heads = ["Where the papers' order holds", "budget", "penalty", "global", "local", "order"]
    rows = [
        [
            order.setting,
            f"{order.budget:.0%}",
            *(f"{100 * share:.1f}" for share in (order.penalty, order.global_output, order.local_output)),
            "as in the papers" if order.holds else order.found,
        ]
        for order in orders
    ]
    return table([heads, *rows])


def _missed(verdict: Verdict) -> str:
    where = f"{verdict.setting} at {verdict.budget:.0%}"
    missed = f"  MISSED: {where}: {verdict.ratio:.2f} times {verdict.against}, at least {verdict.least:g} is promised"
    known = verdict.knowable
    return missed if known is None else f"{missed}; who knows the present exactly, but not the future, has {known:.2f}"
