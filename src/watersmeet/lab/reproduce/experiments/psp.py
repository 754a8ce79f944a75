"""What the experiments of PSP have in common: section 8, in the simulator (`watersmeet.lab.simulator.rings`).

What the engine itself does on up to four sites, by the same three schemes, is beside it where state is concerned
(`watersmeet.lab.ring`), and in `watersmeet bench ring`.
"""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Experiment, Outcome
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.tables import Table
from watersmeet.lab.ring.local import Ran, Size, images, run_ring
from watersmeet.lab.simulator.rings import RingCourse, RingWork
from watersmeet.operators.ring.schemes import Scheme

NODES = (4, 6, 8, 10, 12, 14, 16, 19)
STABLE = 0.02
"""Our reading of "pretty stable": within 2 per cent."""

Courses = Mapping[str, Mapping[int, RingCourse]]
"""By a line's name, and the number of nodes."""

_SITES = (1, 2, 4)
_SIZE, _QUICK = Size(epochs=8, rows=60, pixels=200, window_s=4), Size(epochs=3, rows=12, pixels=20, window_s=2)


def work(bench: Bench, selectivity: float = 0.1, pixels: int = 10_000, ways: int = 3) -> RingWork:
    """The paper's setting, for a minute; a quick run takes ten seconds."""
    seconds = 12.0 if bench.quick else 60.0
    return RingWork(ways=ways, selectivity=selectivity, pixels=pixels, seconds=seconds)


def nodes_of(bench: Bench) -> Sequence[int]:
    """From 4 to 19; a quick run has three sizes."""
    return NODES[::3] if bench.quick else NODES


def engine(bench: Bench, scheme: Scheme) -> dict[int, Ran]:
    """The engine's own rings, on one, two and four sites in this process."""
    size = _QUICK if bench.quick else _SIZE
    epochs = images(size)
    return {sites: run_ring(size, epochs, scheme, sites) for sites in _SITES}


def exact(runs: Mapping[int, Ran]) -> Finding:
    """All numbers of sites give the same."""
    found = {ran.results for ran in runs.values()}
    seen = f"{', '.join(f'{count:,}' for count in sorted(found))} results on {', '.join(map(str, runs))} sites"
    return Finding("The engine's results are the same on any number of sites.", seen, len(found) == 1)


def outcome(
    bench: Bench, findings: Sequence[Finding], courses: Courses, figure: Figure, checked: Finding | None
) -> Outcome:
    """No claim is judged by a quick run, but that results are right."""
    claims = [each.unjudged() if bench.quick else each for each in findings]
    rows = [
        (name, nodes, course.response_s * 1e6, round(course.held))
        for name, by_nodes in courses.items()
        for nodes, course in by_nodes.items()
    ]
    tables = {"nodes": Table(("run", "nodes", "response_us", "held"), rows)}
    return Outcome(
        [*claims, *([checked] if checked else [])], tables, figure, exact=checked is None or bool(checked.held)
    )


def response(courses: Courses, title: str) -> Figure:
    """Response time by nodes."""
    series = {name: (list(found), [course.response_s for course in found.values()]) for name, found in courses.items()}
    return lines(series, title, "nodes", "response time in seconds", log=True)


def state(courses: Courses, title: str) -> Figure:
    """State by nodes."""
    series = {name: (list(found), [course.held for course in found.values()]) for name, found in courses.items()}
    return lines(series, title, "nodes", "tuples held by all nodes")


def told(courses: Courses, value: Callable[[RingCourse], str]) -> str:
    """A number of each line, at its first and its last number of nodes."""
    return "; ".join(
        f"{name}: {value(found[min(found)])} with {min(found)} nodes, {value(found[max(found)])} with {max(found)}"
        for name, found in courses.items()
    )


def ms(course: RingCourse) -> str:
    """A response time."""
    return f"{course.response_s * 1e3:,.1f} ms"


def held(course: RingCourse) -> str:
    """What is held."""
    return f"{course.held:,.0f} tuples"


def experiment(letter: str, title: str, measure: Callable[[Bench], Outcome]) -> Experiment:
    """An experiment of figure 8."""
    return Experiment(f"psp-8{letter}", f"PSP, Figure 8({letter})", title, measure, needs_spark=False)
