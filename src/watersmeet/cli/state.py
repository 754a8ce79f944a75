"""`watersmeet state`: what a checkpoint holds, read without Spark."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from watersmeet.cli.output import Output, OutputOption, print_json, reporting, size

if TYPE_CHECKING:
    from rich.table import Table

    from watersmeet.state.manifest import Manifest
    from watersmeet.state.versions import VersionStore

LARGEST_GROUPS = 10

Row = dict[str, Any]
Checkpoint = Annotated[str, typer.Argument(help="The query's checkpointLocation: a path or a URL.")]


def state(checkpoint: Checkpoint, output: OutputOption = Output.text) -> None:
    """Show the state of a query by operator and site, and its largest partition groups.

    Reads the last committed version of the checkpoint. Needs neither Spark nor Java, and does not disturb a query
    that is running.
    """
    with reporting(output):
        from watersmeet.state.inspect import state_table

        _, manifest = open_state(checkpoint)
        rows = state_table(manifest).to_pylist()
        if output is Output.json:
            print_json({**_head(checkpoint, manifest), "rows": rows})
        else:
            _show(checkpoint, manifest, rows)


def open_state(checkpoint: str) -> "tuple[VersionStore, Manifest]":
    """The versions of a checkpoint and its last manifest, or an error where there is none."""
    from watersmeet.model.errors import CheckpointError
    from watersmeet.state.versions import VersionStore
    from watersmeet.storage.open import open_storage

    store = VersionStore(open_storage(f"{checkpoint.rstrip('/')}/state"))
    manifest = store.latest()
    if manifest is None:
        raise CheckpointError(
            f"{checkpoint} is not a Watersmeet checkpoint",
            why="its folder state/manifest is missing or empty",
            how="give the checkpointLocation of a query that has been started",
        )
    return store, manifest


def _head(checkpoint: str, manifest: "Manifest") -> dict[str, object]:
    return {
        "checkpoint": checkpoint,
        "version": manifest.version,
        "batch": manifest.batch,
        "queryId": manifest.query_id,
        "groups": manifest.groups,
        "sites": manifest.sites,
        "runs": len(manifest.runs),
        "stateRows": manifest.rows,
        "stateBytes": manifest.bytes,
    }


def _show(checkpoint: str, manifest: "Manifest", rows: list[Row]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    held = f"{manifest.rows:,} rows, {size(manifest.bytes)} in {len(manifest.runs):,} runs"
    console.print(f"version {manifest.version} of {checkpoint}: {held}", markup=False, soft_wrap=True)
    if rows:
        largest = sorted(rows, key=lambda row: row["bytes"], reverse=True)[:LARGEST_GROUPS]
        console.print("", _by_operator_and_site(manifest, rows), sep="\n")
        console.print(f"\nthe largest of {len(rows):,} partition groups", _by_group(largest), sep="\n")


def _by_operator_and_site(manifest: "Manifest", rows: list[Row]) -> "Table":
    inputs = _inputs(manifest)
    table = _table("operator", "joins", "site", "tier", "groups", "rows", "bytes", "output")
    for key, mine in _grouped(rows).items():
        operator, site, tier = key
        here = "" if site < 0 else str(site)
        output = {row["group"]: row["output"] for row in mine}
        held = (sum(row["rows"] for row in mine), sum(row["bytes"] for row in mine))
        counts = (f"{len(output):,}", f"{held[0]:,}", size(held[1]), f"{sum(output.values()):,}")
        table.add_row(operator, inputs.pop(operator, ""), here, tier, *counts)
    return table


def _grouped(rows: list[Row]) -> dict[tuple[str, int, str], list[Row]]:
    grouped: dict[tuple[str, int, str], list[Row]] = {}
    placed = [{**row, "site": -1 if row["site"] is None else row["site"]} for row in rows]  # promises are at none
    for row in sorted(placed, key=lambda row: (row["operator"], row["site"], row["tier"])):
        grouped.setdefault((row["operator"], row["site"], row["tier"]), []).append(row)
    return grouped


def _by_group(rows: list[Row]) -> "Table":
    table = _table("operator", "group", "site", "tier", "generation", "rows", "bytes", "output", "productivity")
    for row in rows:
        told = (row[name] for name in ("operator", "group", "site", "tier", "generation"))
        place = ("" if value is None else str(value) for value in told)
        counts = (f"{row['rows']:,}", size(row["bytes"]), f"{row['output']:,}", f"{row['productivity']:.3f}")
        table.add_row(*place, *counts)
    return table


def _table(*names: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for name in names:
        is_text = name in {"operator", "joins", "tier"}
        table.add_column(name, justify="left" if is_text else "right", no_wrap=name != "joins")
    return table


def _inputs(manifest: "Manifest") -> dict[str, str]:
    """The inputs of each operator, from the plan in the manifest."""
    return {each.id: ", ".join(source.name for source in each.inputs) for each in manifest.plan.operators}
