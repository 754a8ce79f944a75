"""The planner: a logical query in, a physical plan out. It is a pure function, and it is where mistakes are told.

1. Check the names of streams and columns.
2. Grow the tree of joins from the equalities (`tree`), and choose each input's key (`keys`).
3. Give every filter its place, and every operator its name and level (`placement`).
4. Keep only the columns that are read (`pruning`), and those that tell when a row lives (`lives`).
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa
from msgspec.structs import replace

from watersmeet.model.errors import QueryError, UnsupportedError
from watersmeet.model.plan import Column, Operator, Plan, Stream
from watersmeet.model.query import AggregateNode, FilterNode, Query, StreamNode
from watersmeet.planning.aggregates import aggregate_name, aggregated
from watersmeet.planning.classes import TermClass
from watersmeet.planning.dialect import is_repeatable_text
from watersmeet.planning.expressions import Conjunct
from watersmeet.planning.keys import KeyTypes, TypeOf
from watersmeet.planning.lives import check_times, time_column, with_lives
from watersmeet.planning.matching import Tests, matchable
from watersmeet.planning.names import Scope, check_names
from watersmeet.planning.placement import Placed, operators_of, place
from watersmeet.planning.predicates import has_predicate
from watersmeet.planning.promises import named_columns
from watersmeet.planning.pruning import prune
from watersmeet.planning.reach import Reach, closed, is_exact, reach_of
from watersmeet.planning.ring import check_rings, refuse_on_one_stream, with_ring_tests
from watersmeet.planning.tree import Branch, grow, streams_of
from watersmeet.planning.windows import time_window


def plan(query: Query, type_of: TypeOf | None = None, *, endless: bool = False) -> Plan:
    """The plan of a query.

    ``type_of`` tells the type of a key that is an expression, as ``lower(A.x)``; it is asked for nothing else.
    A ring may be ``endless``, without any window, where something else bounds its memory.

    >>> import pyarrow as pa
    >>> from watersmeet.model.query import JoinNode, StreamNode
    >>> a = StreamNode("A", pa.schema([("x", pa.int32()), ("v", pa.string())]))
    >>> b = StreamNode("B", pa.schema([("y", pa.int64()), ("w", pa.string())]))
    >>> join = plan(Query(JoinNode((a, b), on="A.x = B.y AND B.w > 'm'"), needed=("A.v",)))
    >>> [key.sql for source in join.root.inputs for key in source.keys]
    ['CAST(`A`.`x` AS BIGINT)', '`B`.`y`']
    >>> join.stream("B").filters
    ("`B`.`w` > 'm'",)
    >>> [source.state for source in join.root.inputs]
    [(Column(stream='A', field='v'),), ()]
    """
    top = query.node if isinstance(query.node, AggregateNode) else None
    node = top.input if top else query.node
    streams = streams_of(node)
    check_names(streams, case_sensitive=query.case_sensitive)
    scope = Scope(streams, case_sensitive=query.case_sensitive)
    types = KeyTypes(type_of)
    grown = grow(node, scope, types)
    if top is not None and (condition := _in_windows(top, grown.branch, streams, scope)):
        grown = grow(FilterNode(node, condition), scope, types)
    times = {each.name: time for each in streams if (time := time_column(each, scope))}
    told = [each for each in grown.filters if _is_told(each, grown.branch, times)]
    placed = place([each for each in grown.filters if each not in told], grown.branch, grown.after)
    refuse_on_one_stream(placed)
    planned = tuple(_stream(each, scope, placed) for each in streams)
    check_times(planned)
    tests = tuple(each for each in grown.branch.tests if not _is_told(each, grown.branch, times))
    promised = any(each.punctuated is not None or each.unique for each in planned)
    drafts, kinds = _drafts(replace(grown.branch, tests=tests), placed, scope, types, promised=promised)
    if top is not None:
        _refuse_promised(grown.branch, planned)
        _refuse_changing(top, grown.filters)
        operators, made = aggregated(top, drafts, planned, scope, _padded(grown.branch))
        kinds = {**kinds, **made}
    else:
        if not drafts:
            raise _no_join(grown.branch.streams[0])
        operators = prune(drafts, scope, query.needed)
    keyed = [each for each in operators if each.kind != "aggregate"]
    computed = {key.column: key.type for each in keyed for part in each.inputs for key in part.keys if key.column}
    reach = _reach(grown.branch, grown.filters, times)
    operators = tuple(_with_time_conditions(each, told) for each in operators)
    made_plan = Plan(planned, operators, tuple({**computed, **kinds, **scope.types}.items()))
    made_plan = with_lives(made_plan, reach)
    return made_plan if endless else check_rings(made_plan, scope)


def plan_name(streams: Sequence[StreamNode]) -> str:
    """What an aggregate over some streams is called in their plan."""
    return aggregate_name([stream.name for stream in streams])


def _drafts(
    branch: Branch, placed: Placed, scope: Scope, types: KeyTypes, *, promised: bool
) -> tuple[tuple[Operator, ...], dict[Column, pa.DataType]]:
    """The operators of the joins, still without the columns they keep; none where there is one stream."""
    if not branch.inputs:
        return (), {}
    rings, made = with_ring_tests(operators_of(branch, placed, types, promised=promised), scope, types)
    operators, kinds = with_tests(rings, branch, scope, types) if branch.how != "inner" else (rings, {})
    return operators, {**made, **kinds}


def _refuse_promised(branch: Branch, streams: Sequence[Stream]) -> None:
    named = [each.name for each in streams if each.punctuated is not None or each.unique]
    if branch.how != "inner" and named:
        raise UnsupportedError(
            f"a {branch.how} join is aggregated, and {' and '.join(named)} has punctuations or unique columns",
            why="the rows that a group still waits for are not known by promised keys",
            how="leave punctuations and unique out, or use an inner join",
        )


def _refuse_changing(top: AggregateNode, filters: Sequence[Conjunct]) -> None:
    """Refuse groups that another evaluation would make otherwise; results alone may have such values."""
    told = [*(key.sql for key in top.keys), *(each.sql for each in top.aggregates if each.sql is not None)]
    changing = [each.sql for each in filters if not each.repeatable]
    changing += [sql for sql in told if not is_repeatable_text(sql)]
    if changing:
        raise UnsupportedError(
            f"groups are made by {changing[0]}",
            why="its value changes when Spark evaluates a row again, as for a task that is repeated, and a group could "
            "then count a row twice or not at all",
            how="derive the value from the row, as with xxhash64(A.id) % 3",
        )


def _in_windows(top: AggregateNode, branch: Branch, streams: Sequence[StreamNode], scope: Scope) -> str:
    """That rows lie in the windows they are grouped by, as in Spark: those without a time do not."""
    windows = [window.column for key in top.keys if (window := time_window(key.sql, scope))]
    known = {time_column(each, scope) for each in streams if each.name not in _padded(branch)}
    return " AND ".join(f"{column.sql} IS NOT NULL" for column in windows if column not in known)


def _padded(branch: Branch) -> frozenset[str]:
    """The streams whose columns are null in results of the other side alone."""
    places = {"left": (1,), "right": (0,), "full": (0, 1)}.get(branch.how, ())
    return frozenset(stream for place in places for stream in branch.inputs[place].streams)


def with_tests(
    operators: tuple[Operator, ...], root: Branch, scope: Scope, types: KeyTypes
) -> tuple[tuple[Operator, ...], dict[Column, pa.DataType]]:
    """The operators with the tests of the outer join at the root, and the columns that are computed for these."""
    *below, last = operators
    own = [[each for each in root.tests if _is_of_side(each, branch)] for branch in root.inputs]
    tests = Tests(last.id, scope, types)
    found = tests.of([each for each in root.tests if not any(each in some for some in own)])
    inputs = tuple(
        replace(
            source,
            keys=matchable(source.keys, some),
            computed=tuple((c, sql) for c, sql in tests.computed.items() if c.stream in branch.streams),
        )
        for source, branch, some in zip(last.inputs, root.inputs, own, strict=True)
    )
    return (*below, replace(last, inputs=inputs, tests=found)), tests.kinds


def _is_of_side(condition: Conjunct, branch: Branch) -> bool:
    """Whether a condition says of rows of one side alone if they can match."""
    return condition.repeatable and condition.streams <= set(branch.streams) and not has_predicate(condition.sql)


def _is_told(condition: Conjunct, branch: Branch, times: dict[str, Column]) -> bool:
    """Whether a condition is decided by the times of two streams where these are joined with each other."""
    return condition.repeatable and is_exact(condition, times) and _meet(condition.streams, branch)


def _meet(streams: frozenset[str], branch: Branch) -> bool:
    own = {each.streams[0] for each in branch.inputs if not each.inputs}
    return streams <= own or any(_meet(streams, each) for each in branch.inputs)


def _with_time_conditions(operator: Operator, told: Iterable[Conjunct]) -> Operator:
    own = {each.stream for each in operator.inputs}
    return replace(operator, time_conditions=tuple(dict.fromkeys(each.sql for each in told if each.streams <= own)))


def _reach(root: Branch, filters: Sequence[Conjunct], times: dict[str, Column]) -> Reach:
    """What is said of the times of two streams; by what an outer join is on, only of streams of both its sides."""
    if root.how == "inner":
        return closed(reach_of(filters, times, _keys_of(root)))
    below = [key for each in root.inputs for key in _keys_of(each)]
    inner = closed(reach_of(filters, times, below))
    side = {stream: number for number, each in enumerate(root.inputs) for stream in each.streams}
    both = closed(reach_of([*filters, *root.tests], times, [*below, *root.keys]))
    return inner | {pair: later for pair, later in both.items() if side[pair[0]] != side[pair[1]]}


def _keys_of(branch: Branch) -> tuple[TermClass, ...]:
    """The keys of all joins of a branch."""
    return (*branch.keys, *(key for each in branch.inputs for key in _keys_of(each)))


def _stream(node: StreamNode, scope: Scope, placed: Placed) -> Stream:
    return Stream(
        node.name,
        node.schema,
        placed.get((node.name,), ()),
        time_column(node, scope),
        node.window_us,
        node.delay_us,
        None if node.punctuated is None else named_columns(node, node.punctuated, scope),
        named_columns(node, node.unique, scope),
    )


def _no_join(stream: str) -> QueryError:
    return QueryError(
        f"the query reads stream {stream} and joins it with nothing",
        why="only joins are planned here",
        how=f"join {stream} with another stream, or write its DataFrame with Spark's own writeStream",
    )
