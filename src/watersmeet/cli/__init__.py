"""The command line: thin commands over the layers below. Spark is loaded only by those that need it."""
