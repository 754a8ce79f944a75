"""PSP, Figures 8(c) to 8(f): aligned and coordinated tuple routing by nodes, segments and copies."""

from collections.abc import Sequence

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome
from watersmeet.lab.reproduce.experiments.psp import (
    STABLE,
    Courses,
    engine,
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
from watersmeet.lab.ring.local import Ran
from watersmeet.lab.simulator.rings import atr, ctr, psp
from watersmeet.operators.ring.schemes import Scheme

SEGMENTS_S, COPIES = (10.0, 20.0, 50.0), (2, 4, 9)


def _atr(bench: Bench) -> Courses:
    return {
        f"segments of {length:.0f} s": {nodes: atr(work(bench), nodes, length) for nodes in nodes_of(bench)}
        for length in SEGMENTS_S
    }


def _ctr(bench: Bench) -> Courses:
    found = {
        f"{copies} copies": {nodes: ctr(work(bench), nodes, copies) for nodes in nodes_of(bench) if nodes >= 2 * copies}
        for copies in COPIES
    }
    return {name: courses for name, courses in found.items() if courses}


def _psp(bench: Bench) -> Courses:
    return {"psp": {nodes: psp(work(bench), nodes) for nodes in nodes_of(bench)}}


def _below(bench: Bench, courses: Courses) -> bool:
    ring = _psp(bench)["psp"]
    return all(ring[n].response_s < each.response_s for found in courses.values() for n, each in found.items())


def _atr_response(bench: Bench) -> Outcome:
    courses, ring = _atr(bench), _psp(bench)
    ratios = [found[max(found)].response_s / found[min(found)].response_s for found in courses.values()]
    findings = [
        Finding(
            "The average response time does not fall with more nodes: all the work of a tuple is done by one.",
            told(courses, ms),
            all(ratio > 1 - 0.1 for ratio in ratios),
        ),
        Finding("PSP answers sooner.", told({**ring, **courses}, ms), _below(bench, courses)),
    ]
    return outcome(bench, findings, {**ring, **courses}, response({**ring, **courses}, "ATR: response time"), None)


def _grown(runs: dict[int, Ran]) -> str:
    return ", ".join(f"{sites} sites: {ran.held_rows:,} rows" for sites, ran in runs.items())


def _atr_state(bench: Bench) -> Outcome:
    courses, runs = _atr(bench), engine(bench, Scheme("atr"))
    findings = [
        Finding(
            "State grows steadily with the number of nodes, as more segments are held twice.",
            f"{told(courses, held)}; a segment overlaps with its neighbours only, however many nodes there are",
            all(found[max(found)].held > 1.1 * found[min(found)].held for found in courses.values()),
        ),
        Finding(
            "(the engine, whose segments are single moments) State grows with the number of sites.",
            _grown(runs),
            _rises([ran.held_rows for ran in runs.values()]),
        ),
        Finding(
            "PSP holds less.",
            told({**_psp(bench), **courses}, held),
            all(_psp(bench)["psp"][n].held < each.held for found in courses.values() for n, each in found.items()),
        ),
    ]
    return outcome(bench, findings, courses, state({**_psp(bench), **courses}, "ATR: state"), exact(runs))


def _ctr_response(bench: Bench) -> Outcome:
    courses, ring = _ctr(bench), _psp(bench)
    largest = nodes_of(bench)[-1]
    by_copies = [found[largest].response_s for found in courses.values()]
    findings = [
        Finding(
            "The response time falls as nodes are added.",
            told(courses, ms),
            all(
                found[max(found)].response_s < found[min(found)].response_s
                for found in courses.values()
                if len(found) > 1
            ),
        ),
        Finding(
            "More copies make it longer, as fewer nodes work on a tuple.",
            f"with {largest} nodes: "
            + ", ".join(f"{name} {found[largest].response_s * 1e3:,.1f} ms" for name, found in courses.items()),
            _rises(by_copies),
        ),
        Finding("PSP answers sooner.", told({**ring, **courses}, ms), _below(bench, courses)),
    ]
    return outcome(bench, findings, {**ring, **courses}, response({**ring, **courses}, "CTR: response time"), None)


def _ctr_state(bench: Bench) -> Outcome:
    courses, runs, ring = _ctr(bench), engine(bench, Scheme("ctr")), engine(bench, Scheme())
    spread = [max(c.held for c in found.values()) / min(c.held for c in found.values()) for found in courses.values()]
    findings = [
        Finding("State is stable as nodes are added.", told(courses, held), all(each <= 1 + STABLE for each in spread)),
        Finding(
            "It grows with the number of copies.",
            told(courses, held),
            _rises([next(iter(found.values())).held for found in courses.values()]),
        ),
        Finding(
            "(the engine, with two copies) Two and four sites hold twice what they do by PSP.",
            f"{_grown(runs)}; by PSP {_grown(ring)}",
            all(abs(runs[sites].held_rows / ring[sites].held_rows - 2) <= 2 * STABLE for sites in (2, 4)),
        ),
    ]
    return outcome(bench, findings, courses, state({**_psp(bench), **courses}, "CTR: state"), exact(runs))


def _rises(values: Sequence[float]) -> bool:
    return list(values) == sorted(values) and len(set(values)) == len(values)


EXPERIMENTS = (
    experiment("c", "Response time of aligned tuple routing", _atr_response),
    experiment("d", "State of aligned tuple routing", _atr_state),
    experiment("e", "Response time of coordinated tuple routing", _ctr_response),
    experiment("f", "State of coordinated tuple routing", _ctr_state),
)
