"""PSP, Figures 8(a) and 8(b): response time and state of a ring by its length."""

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome
from watersmeet.lab.reproduce.experiments.psp import (
    STABLE,
    Courses,
    exact,
    experiment,
    held,
    ms,
    nodes_of,
    outcome,
    response,
    state,
    told,
    work,
)
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.ring.state import LONG, QUICK_LONG, SHORT, run_states
from watersmeet.lab.simulator.rings import psp

SELECTIVITIES, PIXELS = (0.05, 0.1, 0.5), (5_000, 10_000, 20_000)


def _courses(bench: Bench) -> Courses:
    return {
        f"selectivity {share}": {nodes: psp(work(bench, share), nodes) for nodes in nodes_of(bench)}
        for share in SELECTIVITIES
    }


def _best(courses: Courses) -> dict[str, int]:
    return {name: min(found, key=lambda nodes: found[nodes].response_s) for name, found in courses.items()}


def _response(bench: Bench) -> Outcome:
    courses = _courses(bench)
    best, nodes = _best(courses), nodes_of(bench)
    at = [found[nodes[0]].response_s for found in courses.values()]
    sizes = {f"{p:,} pixels": {n: psp(work(bench, 0.5, p), n) for n in nodes} for p in PIXELS}
    ways = {f"{m}-way": {n: psp(work(bench, 0.002, ways=m), n) for n in nodes} for m in (3, 5, 7, 9)}
    findings = [
        Finding(
            "The average response time increases with the join selectivity.",
            told(courses, ms),
            at == sorted(at),
        ),
        Finding(
            "When the cluster grows the response time does not always fall: it has a minimum, and may then rise.",
            ", ".join(f"{name}: least with {count} nodes" for name, count in best.items()),
            any(nodes[0] < count < nodes[-1] for count in best.values()),
        ),
        Finding(
            "For smaller selectivities more nodes are best.",
            ", ".join(f"{name}: {count}" for name, count in best.items()),
            list(best.values()) == sorted(best.values(), reverse=True) and len(set(best.values())) > 1,
        ),
        Finding(
            "(5.2) The more a pair costs, the more nodes are best.",
            ", ".join(f"{name}: {count}" for name, count in _best(sizes).items()),
            list(_best(sizes).values()) == sorted(_best(sizes).values()),
        ),
        Finding(
            "(8.2) Joins of more ways take longer.",
            told(ways, ms),
            all(
                ways[f"{less}-way"][n].response_s < ways[f"{more}-way"][n].response_s
                for less, more in ((3, 5), (5, 7), (7, 9))
                for n in nodes
            ),
        ),
    ]
    return outcome(bench, findings, {**courses, **sizes, **ways}, response(courses, "PSP: response time"), None)


def _state(bench: Bench) -> Outcome:
    size = QUICK_LONG if bench.quick else LONG
    courses, runs, short = _courses(bench), run_states(size), run_states(SHORT)
    least, most = (
        bound(course.held for found in courses.values() for course in found.values()) for bound in (min, max)
    )
    rows = {sites: ran.mean_rows(size) for sites, ran in runs.items()}
    few = {sites: ran.mean_rows(SHORT) for sites, ran in short.items()}
    sizes = {sites: ran.mean_bytes(size) for sites, ran in runs.items()}
    findings = [
        Finding(
            "Memory is stable among all settings: no state is held twice.",
            told(courses, held),
            most <= least * (1 + STABLE),
        ),
        Finding(
            "(the engine) Rows held are the same on 1, 2 and 4 sites within 2 per cent, in windows of four epochs.",
            ", ".join(f"{sites} sites: {few[sites]:,.1f} rows" for sites in short),
            max(few.values()) <= (1 + STABLE) * min(few.values()),
        ),
        Finding(
            "(the engine) Rows held, and the bytes of their files, are, in windows of many epochs.",
            ", ".join(f"{sites} sites: {rows[sites]:,.0f} rows, {sizes[sites]:,.0f} bytes" for sites in runs),
            all(max(each.values()) <= (1 + STABLE) * min(each.values()) for each in (rows, sizes)),
        ),
    ]
    return outcome(bench, findings, courses, state(courses, "PSP: state"), exact(runs))


EXPERIMENTS = (
    experiment("a", "Response time of a ring by its length", _response),
    experiment("b", "State of a ring by its length", _state),
)
