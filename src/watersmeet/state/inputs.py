"""What an input is made of: the streams it brings, the operators below it, and whether these miss results."""

from collections.abc import Iterator

from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Input
from watersmeet.state.manifest import Manifest


def streams_of(manifest: Manifest, source: Input) -> frozenset[str]:
    """The streams that an input brings."""
    if source.stream:
        return frozenset({source.stream})
    below = manifest.plan.operator(str(source.operator))
    return frozenset().union(*(streams_of(manifest, each) for each in below.inputs))


def operators_below(manifest: Manifest, source: Input) -> Iterator[OperatorId]:
    """The operators that an input is made of."""
    if source.operator:
        yield source.operator
        for each in manifest.plan.operator(source.operator).inputs:
            yield from operators_below(manifest, each)


def misses_results(manifest: Manifest, source: Input) -> bool:
    """Whether an operator that an input is made of has results missing."""
    return any(manifest.spilled(below) for below in operators_below(manifest, source))
