"""`watersmeet bench ring`, beside the suites on Spark: an expensive function on more sites; PSP against ATR and CTR.

All run in this process (`local`): what a site does is counted and timed by itself. Pairs are counted exactly and
judged; times are shown, as they are those of a machine that does the work of all sites.
"""

from collections.abc import Callable

from watersmeet.lab.bench.report import Comparison, Count, Section, Target
from watersmeet.lab.bench.suite import share
from watersmeet.lab.ring.local import Ran, Size, images, run_ring
from watersmeet.lab.ring.state import LONG, QUICK_LONG, SHORT, run_states
from watersmeet.operators.ring.schemes import NAMES, Scheme

FULL = Size(epochs=12, rows=120, pixels=1_000, window_s=5)
QUICK = Size(epochs=3, rows=20, pixels=50, window_s=2)
SITES = (1, 2, 4)
SCHEME_SITES = 4


def run_sites(quick: bool, progress: Callable[[str], None]) -> list[Section]:  # noqa: FBT001 -- the seam
    """The comparisons."""
    size = QUICK if quick else FULL
    epochs = images(size)
    psp = {}
    for sites in SITES:
        psp[sites] = run_ring(size, epochs, Scheme(), sites)
        progress(f"ring-sites: {sites} sites looked at {sum(psp[sites].pairs.values()):,} pairs")
    others: dict[str, Ran] = {
        name: run_ring(size, epochs, Scheme(name), SCHEME_SITES) for name in NAMES if name != "psp"
    }
    progress(f"ring-schemes: {', '.join(others)} ran on {SCHEME_SITES} sites")
    states = [_state(size, run_states(size)) for size in (SHORT, QUICK_LONG if quick else LONG)]
    progress(f"ring-state: {', '.join(map(str, SITES))} sites have held rows")
    schemes = _schemes(size, {"psp": psp[SCHEME_SITES], **others})
    return [_sites(size, psp), *states, schemes]


def _state(size: Size, runs: dict[int, Ran]) -> Section:
    """Rows, and bytes of files, which are judged where windows have many epochs (`state`)."""
    comparisons = []
    rows = {sites: ran.mean_rows(size) for sites, ran in runs.items()}
    sizes = {sites: ran.mean_bytes(size) for sites, ran in runs.items()}
    for sites in SITES[1:]:
        by = f"by 1 and {sites} sites, more of less"
        most, least = max(rows[1], rows[sites]), min(rows[1], rows[sites])
        comparisons.append(share(f"rows held {by}", most, least, "rows", at_most=1.02))
        most, least = max(sizes[1], sizes[sites]), min(sizes[1], sizes[sites])
        judged = None if size is SHORT else 1.02
        comparisons.append(share(f"bytes of files {by}", most, least, "bytes", at_most=judged))
    counts = Count("results", {f"{sites} sites": ran.results for sites, ran in runs.items()})
    title = f"{size.rows:,} rows a second of each of two streams, {size.window_s} s together, on 1, 2 and 4 sites"
    name = "ring-state-short" if size is SHORT else "ring-state"
    return Section(name, title, (), tuple(comparisons), (counts,))


def _sites(size: Size, runs: dict[int, Ran]) -> Section:
    alone, comparisons = runs[1], list[Comparison]()
    whole = sum(alone.pairs.values())
    for sites in SITES[1:]:
        ran = runs[sites]
        most, total = max(ran.pairs.values()), sum(ran.pairs.values())
        busiest, busy = max(ran.busy_s.values()), sum(ran.busy_s.values())
        comparisons += [
            share(f"pairs of the busiest of {sites} sites, all of one / {sites}", most, whole / sites, "pairs", 1.25),
            share(f"pairs of all {sites} sites, of one", total, whole, "pairs", at_most=1.1),
            share(f"time of the busiest of {sites} sites, of one", busiest, sum(alone.busy_s.values()), "s"),
            share(f"time of all {sites} sites, of one", busy, sum(alone.busy_s.values()), "s", at_most=1.1),
        ]
    counts = Count("results", {f"{sites} sites": ran.results for sites, ran in runs.items()})
    return Section("ring-sites", f"{_title(size)}, on 1, 2 and 4 sites", (), tuple(comparisons), (counts,))


def _schemes(size: Size, runs: dict[str, Ran]) -> Section:
    """The paper's verdicts (PSP, figure 7), as far as they can be counted: times are shown.

    - *State*: PSP holds nothing twice, the others do.
    - *Routing and network*: a row visits all sites of PSP, so these look at more rows than those of the others.
    - *Duplicates*: of none a pair is found twice, so all look at as many. Here it takes no removal.
    - *Balance*: PSP's busiest site has hardly more than its part, and no more than the others' busiest.
    """
    psp, comparisons = runs["psp"], list[Comparison]()
    busiest, total = max(psp.pairs.values()), sum(psp.pairs.values())
    comparisons.append(share("pairs of the busiest site, of its part", busiest, total / SCHEME_SITES, "pairs", 1.25))
    for name in ("atr", "ctr"):
        other = runs[name]
        more = Target(1, at_least=True)
        comparisons += [
            share(f"rows held, by {name}", psp.held_rows, other.held_rows, "rows", at_most=1),
            Comparison(
                f"rows that sites look at, by {name}", psp.probes, other.probes, "rows", is_gain=False, target=more
            ),
            share(f"pairs of all sites, by {name}", total, sum(other.pairs.values()), "pairs", at_most=1.1),
            share(f"pairs of all sites by {name}, by psp", sum(other.pairs.values()), total, "pairs", at_most=1.1),
            share(f"pairs of the busiest site, by {name}", busiest, max(other.pairs.values()), "pairs", at_most=1.1),
            share(f"time of the busiest site, by {name}", max(psp.busy_s.values()), max(other.busy_s.values()), "s"),
            share(f"time of all sites, by {name}", sum(psp.busy_s.values()), sum(other.busy_s.values()), "s"),
        ]
    counts = Count("results", {name: ran.results for name, ran in runs.items()})
    title = f"{_title(size)}, on {SCHEME_SITES} sites: psp beside others"
    return Section("ring-schemes", title, (), tuple(comparisons), (counts,))


def _title(size: Size) -> str:
    return f"{size.rows} images of {size.pixels:,} pixels a second from each of two cameras, {size.window_s} s together"
