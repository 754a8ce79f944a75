"""Ids are types, so that a group is never passed where a site is meant.

| id | why it exists |
|---|---|
| ``EpochId`` | a step of the query: epoch *n* reads version *n* and commits *n+1*; by it sinks know a replay |
| ``Version`` | names a manifest |
| ``BatchId`` | Spark's number for the input of an epoch; tells a replay from new input |
| ``GroupId`` | a partition group: the smallest thing that is counted, spilled or moved |
| ``SiteId`` | a sticky task slot; groups are routed to sites |
| ``OperatorId`` | a stateful operator of the plan, as ``join1`` |
| ``InputName`` | one input of an operator: a stream's name or the id of the operator below |
| ``RunId`` | one immutable Arrow file of sorted rows |
"""

from typing import NewType

EpochId = NewType("EpochId", int)
Version = NewType("Version", int)
BatchId = NewType("BatchId", int)
GroupId = NewType("GroupId", int)
SiteId = NewType("SiteId", int)
OperatorId = NewType("OperatorId", str)
InputName = NewType("InputName", str)
RunId = NewType("RunId", str)
