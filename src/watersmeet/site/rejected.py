"""Writes rejected rows to a parquet file: stream, epoch, reason, and the row as JSON, as all streams share the file.

Like results, they are hidden until the version that counts them is committed (`watersmeet.driver.publish`).
"""

import base64
import json
from collections.abc import Sequence
from datetime import date, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.model.ids import EpochId, SiteId
from watersmeet.site.admission import RejectedRow
from watersmeet.site.result_files import ResultFormat
from watersmeet.storage.failures import reported
from watersmeet.storage.open import open_files

SCHEMA = pa.schema({"stream": pa.string(), "epoch": pa.int64(), "reason": pa.string(), "row": pa.string()})


def write_rejected(path: str, rows: Sequence[RejectedRow], query: str, epoch: EpochId, site: SiteId) -> str:
    """Write the rejected rows of one attempt of a task; gives the name of the file."""
    name = ResultFormat(path, query=query).attempt_name(epoch, site)
    columns = {
        "stream": [each.stream for each in rows],
        "epoch": [epoch] * len(rows),
        "reason": [each.reason for each in rows],
        "row": [json.dumps(each.values, default=_plain) for each in rows],
    }
    with reported("write", f"{path}/{name}"):
        files, root = open_files(path)
        files.makedirs(root, exist_ok=True)
        with files.open(f"{root}/{name}", "wb") as file:
            pq.write_table(pa.table(columns, schema=SCHEMA), file)
    return name


def _plain(value: object) -> object:
    """What JSON has no word for."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
