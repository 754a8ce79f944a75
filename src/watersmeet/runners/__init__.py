"""How the tasks of a step are carried out: on Spark, in this process, or on counts alone."""
