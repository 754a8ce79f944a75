"""The cost model of rings against the paper's own closed forms, and against trying all lengths."""

import pytest

from watersmeet.adapt.ring.cost import (
    Step,
    Times,
    bandwidth,
    best_length,
    central_work,
    latency,
    output_gain,
    ring_work,
    service_rate,
    turning_point,
)

STEPS = [Step(1000, 0.002)] * 2
TIMES = Times(pair_s=1e-4, send_s=1e-4, hop_s=1e-3)


def test_work_at_one_site_is_that_of_a_nested_loop():
    assert central_work(STEPS, TIMES) == pytest.approx(1e-4 * (1000 + 1000 * 2))


def test_with_inputs_that_are_alike_the_closed_forms_of_the_paper_hold():
    for sites in (1, 4, 20):
        factor = 1 + TIMES.send_s * sites / (1000 * TIMES.pair_s)
        assert ring_work(STEPS, TIMES, sites) == pytest.approx(central_work(STEPS, TIMES) * factor)
        assert output_gain(STEPS, TIMES, sites) == pytest.approx(sites / factor)
        assert service_rate(STEPS, TIMES, sites) == pytest.approx(1 / (central_work(STEPS, TIMES) * factor))


def test_output_grows_with_every_site():
    gains = [output_gain(STEPS, TIMES, sites) for sites in range(1, 30)]
    assert gains == sorted(gains)
    assert best_length(STEPS, TIMES, most=30, goal="output") == 30


@pytest.mark.parametrize("hop_s", [1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("pair_s", [1e-5, 1e-4, 1e-3])
def test_latency_is_least_near_the_turning_point(pair_s, hop_s):
    times = Times(pair_s=pair_s, send_s=1e-6, hop_s=hop_s)
    best = best_length(STEPS, times, most=500)
    assert latency(STEPS, times, best) <= min(latency(STEPS, times, sites) for sites in range(1, 500))
    assert best == pytest.approx(turning_point(STEPS, times), rel=0.1, abs=1)


def test_cheaper_pairs_need_more_bandwidth():
    assert bandwidth(STEPS, TIMES, 4, 100) == pytest.approx(100 / (1e-4 * 250))
    assert bandwidth(STEPS, Times(1e-5, 0), 4, 100) > bandwidth(STEPS, TIMES, 4, 100)
