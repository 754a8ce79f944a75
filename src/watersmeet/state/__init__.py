"""Runs, groups, manifests, changes, versions and garbage: a query's state is the runs its manifest names."""
