"""Pure Arrow kernels: probe, gather, product, join."""
