"""`watersmeet events`: the adaptations of a query, read from its checkpoint without Spark."""

from typing import Any

from watersmeet.cli.output import Output, OutputOption, print_json, reporting
from watersmeet.cli.state import Checkpoint, open_state


def events(checkpoint: Checkpoint, output: OutputOption = Output.text) -> None:
    """List the adaptations of a query, oldest first: what changed, when, and why.

    Reads the checkpoint. Needs neither Spark nor Java, and does not disturb a query that is running.
    """
    with reporting(output):
        import msgspec

        from watersmeet.state.event_log import EventLog

        store, manifest = open_state(checkpoint)
        found = [msgspec.to_builtins(event) for event in EventLog(store).all()]
        if output is Output.json:
            print_json({"checkpoint": checkpoint, "version": manifest.version, "events": found})
        else:
            _show(checkpoint, found)


def _show(checkpoint: str, events: list[dict[str, Any]]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for event in events:
        console.print(_line(event), markup=False, soft_wrap=True)
    if not events:
        console.print(f"{checkpoint}: nothing has been adapted so far", markup=False, soft_wrap=True)


def _line(event: dict[str, Any]) -> str:
    """An event as a line.

    >>> before, after = {"sites": 2}, {"sites": 4}
    >>> _line({"epoch": 7, "kind": "reroute", "reason": "two joined", "before": before, "after": after, "groups": 150})
    'epoch 7: reroute, two joined (sites 2 -> 4; groups 150)'
    """
    before, after = event.get("before"), event.get("after")
    known = {"epoch", "kind", "reason", "before", "after"}
    changes = _changes(before, after) + [f"{name} {value}" for name, value in event.items() if name not in known]
    details = f" ({'; '.join(changes)})" if changes else ""
    return f"epoch {event['epoch']}: {event['kind']}, {event['reason']}{details}"


def _changes(before: object, after: object) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        names = dict.fromkeys([*before, *after])
        return [f"{name} {before.get(name, 'none')} -> {after.get(name, 'none')}" for name in names]
    return [] if before is None and after is None else [f"{before} -> {after}"]
