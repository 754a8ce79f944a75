"""Distributions that take less time: executors first, and then the sites of each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.adapt.moving.levelling import LEVEL, SITES_LEVEL, Machines, Work, level_out

ANY = np.full(4, np.inf)


def hot_site(pieces=40, rate=(1.0,) * 4) -> Work:
    """Four sites with as many pieces each; those of the first have four fifths of the tuples."""
    site = np.arange(4 * pieces) // pieces
    tuples = np.where(site == 0, 12.0, 1.0)
    return Work(tuples, site, np.ones(len(site)), np.array(rate))


def loads_of(work: Work, site) -> np.ndarray:
    return Work(work.tuples, site, work.live_bytes, work.ms_per_tuple).by_site


def test_executors_are_level_and_so_are_the_sites_of_each():
    machines = Machines.of("aabb", {"a": 1, "b": 1})
    work = hot_site()
    loads = loads_of(work, level_out(work, machines, ANY))
    assert machines.times(loads).max() <= LEVEL * loads.sum() / 2
    assert loads.max() <= SITES_LEVEL * loads.mean() * LEVEL


def test_nothing_moves_if_executors_are_level():
    work = Work(np.array([9.0, 1.0, 5.0, 5.0]), np.arange(4), np.ones(4), np.ones(4))
    assert level_out(work, Machines.of("aabb", {}), ANY).tolist() == [0, 1, 2, 3]


def test_sites_of_an_executor_with_processes_for_all_are_what_it_waits_for():
    work = Work(np.array([6.0, 3.0, 1.0]), np.array([0, 0, 1]), np.ones(3), np.ones(2))
    assert level_out(work, Machines.of("aa", {"a": 2}), np.full(2, np.inf)).tolist() == [0, 1, 1]


def test_what_an_executor_gains_by_its_quicker_sites_is_shared_out():
    machines = Machines.of("aabb", {"a": 1, "b": 1})
    work = hot_site(rate=(1.0, 9.0, 1.0, 1.0))
    times = machines.times(loads_of(work, level_out(work, machines, ANY)))
    assert times.max() <= 1.05 * times.mean()


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_no_distribution_takes_longer_or_more_room(seed, executors, sites_each, processes):
    rng = np.random.default_rng(seed)
    sites, pieces = executors * sites_each, 50
    machines = Machines.of([str(n % executors) for n in range(sites)], {str(n): processes for n in range(executors)})
    rate = rng.uniform(0.5, 3.0, sites)
    work = Work(rng.pareto(1.2, pieces), rng.integers(0, sites, pieces), rng.uniform(0, 5, pieces), rate)
    room = rng.uniform(0, 40, sites)
    chosen = level_out(work, machines, room)
    assert machines.times(loads_of(work, chosen)).max() <= LEVEL * machines.times(work.by_site).max()
    given_bytes = np.bincount(chosen, work.live_bytes * (chosen != work.site), sites)
    assert (given_bytes <= room + 1e-9).all()
