"""Steps as Spark jobs: the only place below the public API that imports pyspark."""
