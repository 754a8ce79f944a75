"""Spark's own log of a streaming query's batches, in its checkpoint."""

from dataclasses import dataclass

from watersmeet.storage.open import open_storage


@dataclass(frozen=True)
class SparkOffsets:
    """The log below ``<checkpointLocation>/spark``."""

    location: str

    def planned(self) -> int:
        """The last batch Spark has planned, finished or not; -1 where there is none."""
        return _last(f"{self.location}/offsets")

    def finished(self) -> int:
        """The last batch Spark has finished."""
        return _last(f"{self.location}/commits")

    def repair(self) -> None:
        """Remove what a driver has left that was killed while Spark wrote the offsets of its first batch.

        Spark takes a half-written file for another query's, and would never start again.
        """
        if self.planned() < 0:
            open_storage(f"{self.location}/offsets").sweep(older_than_s=0)


def _last(log: str) -> int:
    names = (path.rsplit("/", 1)[-1] for path in open_storage(log).list(""))
    return max((int(name) for name in names if name.isdigit()), default=-1)
