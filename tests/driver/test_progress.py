"""What a step tells of its sites."""

from tests.support.states import JOIN, empty_manifest

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.driver.progress import step_metrics
from watersmeet.driver.step import Taken
from watersmeet.model.ids import SiteId
from watersmeet.site.effects import Effects


def sites_of(taken, sites):
    told = [Effects(0, SiteId(site), (), {"A": 10 + site}, {JOIN: site}, busy_ms=5.0) for site in range(taken)]
    return step_metrics(empty_manifest(sites=sites), Taken(told, {}), MemoryOptions()).sites


def test_a_step_after_which_there_are_fewer_sites_tells_of_all_that_took_part():
    assert [(each.site, each.rows_in) for each in sites_of(taken=4, sites=2)] == [(0, 10), (1, 11), (2, 12), (3, 13)]


def test_a_new_site_has_done_nothing_yet():
    assert [(each.site, each.rows_in) for each in sites_of(taken=1, sites=2)] == [(0, 10), (1, 0)]
