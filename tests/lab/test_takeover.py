import pytest

from watersmeet.lab.bench import takeover
from watersmeet.lab.bench.takeover import Size, measure, run_takeover
from watersmeet.state import parts


@pytest.mark.long
def test_all_ways_give_the_same_results():
    [section] = run_takeover(True, print)  # noqa: FBT003
    assert all(count.right for count in section.counts)
    assert len(section.comparisons) == 5


@pytest.mark.slow
def test_a_host_that_takes_few_groups_over_fetches_little_and_less_if_it_was_announced(monkeypatch):
    monkeypatch.setattr(parts, "SAVED_LEAST", 0)
    size = Size(epochs=3, rows=20_000, characters=100)
    whole, part, announced = (measure(way, size) for way in ("whole", "part", "announced"))
    assert whole.waited_bytes == whole.fetched_bytes
    assert part.fetched_bytes < whole.fetched_bytes / 3, "a tenth of the groups of a site move"
    assert announced.waited_bytes < part.waited_bytes
    assert whole.results == part.results == announced.results > 0
    assert pytest.approx(0.05) == takeover.MOVED / takeover.GROUPS
