"""What is stored of the other input: of remote runs, what each batch asks about is not fetched batch by batch."""

import numpy as np
import pytest
from tests.state.test_parts import GROUPS, numbers, written

from watersmeet.model.ids import RunId
from watersmeet.site.partners import Partners
from watersmeet.state import parts
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import RowSet, Slice
from watersmeet.state.parts import Wanted, part_path
from watersmeet.state.rows import SortedRows
from watersmeet.storage.remote import FsspecStorage

WHOLE = GroupSet.of(range(2, 8))
COUNTED = GroupSet.of(range(4, 12))


@pytest.fixture
def storage(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "SAVED_LEAST", 0)
    return FsspecStorage(f"file://{tmp_path}/state", str(tmp_path / "cache"))


def test_a_run_is_asked_for_all_that_a_site_may_ask_of_it_whatever_a_batch_brings(storage):
    rows = numbers()
    run = written(storage, rows)
    partners = Partners(storage, GROUPS, None, [(run, Slice(RunId(run.id), RowSet(COUNTED)))], WHOLE)
    for group in (5, 4, 6):
        [batch] = rows.of_groups(GroupSet.of([group]), GROUPS)
        other = SortedRows(batch.hashes + np.uint64(1), batch.rows)
        assert partners.may_have_keys_of(batch).all()
        assert not partners.may_have_keys_of(other).any()
        assert storage.copied("") == [part_path(run, Wanted(COUNTED & WHOLE, GROUPS))]


def test_of_groups_that_miss_results_any_key_may_be_stored_and_of_others_what_counts(storage):
    rows = numbers()
    partners = Partners(storage, GROUPS, None, [(run := written(storage, rows), Slice(run.id, RowSet(COUNTED)))], WHOLE)
    told = {
        group: partners.may_have_keys_of(rows.of_groups(GroupSet.of([group]), GROUPS)[0]) for group in range(GROUPS)
    }
    assert {group for group, each in told.items() if each.all()} == {*range(GROUPS)} - {2, 3}
    assert not any(told[group].any() for group in (2, 3)), "their rows do not count"
