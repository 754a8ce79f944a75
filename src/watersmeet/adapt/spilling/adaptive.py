"""Our own strategy, and the default: expected results for the bytes they take, within a horizon found by trying.

The papers' productivity looks back: results so far for the bytes held. What a group is worth is what it will yield, and
the bytes it takes are also those it is about to send downstream. With a model of the query (`model`):

1. If a group is spilled now, then for the next H epochs the results its operator makes from it are fewer: of all
   combinations of live and arriving rows, only those of arriving rows alone are left. Each of the lost results would
   have brought so many final results (its *value*), and so many bytes that would have stayed downstream (its *cost*).
2. ``worth = lost * value / (live bytes + lost * cost)``. The least go first.
3. Two forces are balanced by H. The longer it is, the more the flow of intermediate results counts against the bytes
   that are held now; with the whole past as its horizon, as in the papers' penalty, the bottom groups all go. Which H
   is best depends on the data. So the model plays the next epochs for some of them, spills included, and the one with
   the most results is taken (`foresight`).
"""

import numpy as np

from watersmeet.adapt.spilling.candidates import Pool, Pressure, Worth
from watersmeet.adapt.spilling.foresight import best_horizon
from watersmeet.adapt.spilling.model import facts_of, live_of
from watersmeet.adapt.spilling.worth import worths


def adaptive(pool: Pool, pressure: Pressure) -> Worth:
    """The worth of each group at the horizon that serves best."""
    order = sorted(range(len(pool.candidates)), key=lambda place: pool.candidates[place].level)
    candidates = [pool.candidates[place] for place in order]
    facts, live = facts_of(candidates), [live_of(candidate) for candidate in candidates]
    worth = np.zeros(len(pool.group))
    found = worths(facts, live, best_horizon(facts, live, candidates, pressure))
    for number, place in enumerate(order):
        mine = pool.place == place
        worth[mine] = found[number][pool.group[mine]]
    return worth
