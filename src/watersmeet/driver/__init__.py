"""The driver: epochs, cleanup, decisions and commits of one run of a query. It knows no Spark."""
