"""The papers' data, their experiments, and the benchmarks against peers."""
