import re
from pathlib import Path

import pytest
from tests.cli.commands import EXAMPLES

from watersmeet.cli.query_file import OverTable, load
from watersmeet.model.errors import QueryError, WatersmeetError

GUIDE = EXAMPLES.parent / "docs" / "how-to" / "run-a-file.md"
GOOD = """
where = "A.x > 1"
[streams.A]
format = "json"
path = "data/a"
schema = "x INT"
[streams.B]
format = "rate"
options = { rowsPerSecond = 3, path = "s3://bucket/b" }
[streams.C]
format = "rate"
[[joins]]
name = "ab"
inputs = ["A", "B"]
on = "A.x = B.value"
[[joins]]
inputs = ["ab", "C"]
on = "A.x = C.value"
[sink]
format = "noop"
[options]
checkpointLocation = "ck"
sites = 2
[spark]
conf = { "spark.ui.enabled" = true }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "query.toml"
    path.write_text(text)
    return path


def test_a_file_becomes_a_query_with_paths_seen_from_its_folder(tmp_path):
    query = load(written(tmp_path, GOOD))
    assert query.streams["A"].path == str(tmp_path / "data/a")
    assert query.streams["B"].options == {"rowsPerSecond": 3, "path": "s3://bucket/b"}
    assert query.options == {"checkpointLocation": str(tmp_path / "ck"), "sites": 2}
    assert query.spark.settings == {"spark.ui.enabled": "true"}
    assert (query.where, query.select, query.trigger) == ("A.x > 1", None, None)


def test_streams_have_times_and_joins_kinds(tmp_path):
    timed = (
        'format = "rate"\ntime = "timestamp"\nwindow = "1 hour"\nwatermark = "0 seconds"\n[[joins]]\nhow = "left_outer"'
    )
    query = load(written(tmp_path, GOOD.replace('format = "rate"\n[[joins]]', timed)))
    stream = query.streams["C"]
    assert (stream.time, stream.window, stream.watermark) == ("timestamp", "1 hour", "0 seconds")
    assert [join.how for join in query.joins] == ["left_outer", None]


PUNCTUATIONS = """
[punctuations.B]
format = "json"
path = "data/closed"
schema = "id BIGINT"
select = ["id AS value"]
"""


@pytest.mark.parametrize(("unique", "found"), [('"x"', "x"), ('["x", "y"]', ["x", "y"])])
def test_streams_have_unique_columns_and_punctuations(tmp_path, unique, found):
    query = load(written(tmp_path, GOOD.replace(STREAM, f"unique = {unique}") + PUNCTUATIONS))
    assert query.streams["A"].unique == found
    [(stream, source)] = query.punctuations.items()
    assert (stream, source.path, source.select) == ("B", str(tmp_path / "data/closed"), ["id AS value"])


PUNCTUATION_MISTAKES = {
    "no such stream": ("[punctuations.B]", "[punctuations.b]", r"\[punctuations.b\] and no \[streams.b\]: .*mean 'B'"),
    "unknown key": ("select", "selects", r"\[punctuations.B\] has the key 'selects': .*mean 'select'"),
    "time": ("schema", "time", r"\[punctuations.B\] has the key 'time'"),
    "no format": ('format = "json"', "", r"\[punctuations.B\] cannot be used: it has no key format"),
    "wrong type": ('["id AS value"]', '"id"', r"\[punctuations.B\] cannot be used: select: expected array"),
    "below its stream": (
        "[punctuations.B]",
        "[streams.B.punctuations]",
        r"key 'punctuations': .*\[punctuations.NAME\]",
    ),
}


@pytest.mark.parametrize(("line", "mistake", "message"), PUNCTUATION_MISTAKES.values(), ids=PUNCTUATION_MISTAKES)
def test_a_mistake_about_punctuations_is_named(tmp_path, line, mistake, message):
    with pytest.raises(WatersmeetError, match=message):
        load(written(tmp_path, GOOD + PUNCTUATIONS.replace(line, mistake, 1)))


STREAM, JOIN, SINK, TOP = 'schema = "x INT"', 'name = "ab"', 'format = "noop"', 'where = "A.x > 1"'
"""A line of each table, which a mistake takes the place of."""

MISTAKES = {
    "no TOML": ("[streams.A", "[", r"is not TOML"),
    "unknown table": ("[sink]", "[sinc]", r"has the key 'sinc': .*did you mean 'sink'"),
    "unknown key": (STREAM, 'shema = "x INT"', r"\[streams.A\] has the key 'shema': .*mean 'schema'"),
    "no sink": (f"[sink]\n{SINK}", "", r"it has no key sink"),
    "no format": (SINK, "", r"\[sink\] cannot be used: it has no key format"),
    "wrong type": (SINK, "format = 7", r"\[sink\] cannot be used: format: expected str, got int"),
    "one input": ('inputs = ["A", "B"]', 'inputs = ["A"]', r"\[\[joins\]\] number 1 cannot be used: inputs: .* >= 2"),
    "select in a table": (JOIN, 'select = ["A.x"]', r"write select above the first table"),
    "unknown input": ('["ab", "C"]', '["abc", "C"]', r"has the input 'abc': .*did you mean 'ab'"),
    "input used twice": ('["ab", "C"]', '["ab", "A"]', r"A is joined twice"),
    "window that is no length": (STREAM, 'time = "t"\nwindow = "soon"', r"window of \[streams.A\] is 'soon'"),
    "window that is a number": (STREAM, "window = 5", r"\[streams.A\] cannot be used: window: expected str"),
    "watermark of months": (STREAM, 'time = "t"\nwatermark = "1 month"', r"a month is not always as long"),
    "window without time": (STREAM, 'window = "1 hour"', r'\[streams.A\] has a window and no time.*time = "ts"'),
    "misspelt window": (STREAM, 'widow = "1 hour"', r"has the key 'widow': .*mean 'window'"),
    "unknown kind of join": (JOIN, 'how = "sideways"', r"how is 'sideways': there is no such join.*'anti'"),
    "cross join": (JOIN, 'how = "cross"', r"how is 'cross': rows are found by an equality"),
    "group_by without an aggregate": (TOP, 'group_by = ["A.x"]', r"has group_by and no aggregate.*count"),
    "having without an aggregate": (TOP, 'having = "n > 1"', r"has having and no aggregate"),
    "aggregate that is no list": (TOP, 'aggregate = "count(*)"', r"aggregate: expected array"),
    "aggregate in a table": (JOIN, 'aggregate = ["count(*)"]', r"write aggregate above the first table"),
    "misspelt group_by": (TOP, 'groupby = ["A.x"]', r"has the key 'groupby': .*mean 'group_by'"),
    "over without an aggregate": (TOP, f"over = {{ rows = 1 }}\n{TOP}", r"has over and no aggregate"),
    "over of no rows": (
        TOP,
        f'aggregate = ["count(*)"]\nover = {{ rows = 0 }}\n{TOP}',
        r"over was given rows=0.*one at least",
    ),
    "over with a misspelt key": (TOP, f"over = {{ row = 1 }}\n{TOP}", r"over has the key 'row'.*mean 'rows'"),
    "unknown output mode": (
        SINK,
        f'{SINK}\noutput_mode = "complete"',
        r"output_mode of \[sink\] is 'complete'.*update",
    ),
    "unique that is a number": (STREAM, "unique = 5", r"\[streams.A\] cannot be used: unique: expected str \| array"),
    "same name twice": (JOIN, 'name = "C"', r"two things are called C"),
}


@pytest.mark.parametrize(("line", "mistake", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_file_is_named_with_its_table(tmp_path, line, mistake, message):
    assert line in GOOD
    with pytest.raises(WatersmeetError, match=message):
        load(written(tmp_path, GOOD.replace(line, mistake, 1)))


def test_a_stream_in_no_join_is_refused(tmp_path):
    with pytest.raises(QueryError, match="stream D is in no join"):
        load(written(tmp_path, GOOD + '[streams.D]\nformat = "rate"\n'))


ALONE = """
group_by = ["A.k"]
aggregate = ["count(*) AS n"]
having = "n > 1"
[streams.A]
format = "json"
path = "data"
schema = "k STRING"
[sink]
format = "json"
path = "out"
output_mode = "append"
[options]
checkpointLocation = "checkpoint"
rejectedPath = "rejected"
"""


def test_a_single_stream_may_be_aggregated(tmp_path):
    query = load(written(tmp_path, ALONE))
    assert (query.joins, query.group_by, query.aggregate) == ([], ["A.k"], ["count(*) AS n"])
    assert (query.having, query.sink.output_mode) == ("n > 1", "append")
    assert query.options["rejectedPath"] == str(tmp_path / "rejected")


def test_rows_of_a_single_stream_may_be_distinct(tmp_path):
    alone = "\n".join(ALONE.splitlines()[4:])
    assert load(written(tmp_path, "distinct = true\n" + alone)).distinct is True
    assert load(written(tmp_path, 'distinct = ["k"]\n' + alone)).distinct == ["k"]
    with pytest.raises(QueryError, match="distinct and aggregate"):
        load(written(tmp_path, "distinct = true\n" + ALONE))


def test_all_paths_start_at_the_file(tmp_path):
    query = load(written(tmp_path, ALONE + 'copyLocation = "copies"\n'))
    assert query.options["copyLocation"] == str(tmp_path / "copies")


def test_groups_may_be_told_of_over_their_last_rows(tmp_path):
    query = load(written(tmp_path, 'over = { time = "10 minutes" }\n' + ALONE))
    assert query.over == OverTable(time="10 minutes")


def test_a_stream_that_is_neither_joined_nor_aggregated_is_refused(tmp_path):
    alone = "\n".join(ALONE.splitlines()[4:])
    with pytest.raises(QueryError, match=r"no \[\[joins\]\].*aggregate"):
        load(written(tmp_path, alone))
    with pytest.raises(QueryError, match=r"no \[\[joins\]\]"):
        load(written(tmp_path, ALONE + '[streams.B]\nformat = "rate"\n'))


def test_the_files_of_the_guide_are_queries(tmp_path):
    texts = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    assert [len(load(written(tmp_path, text)).joins) for text in texts] == [2, 1, 0, 1]
