"""Pure Arrow kernels, one folder for each kind of operator (`kinds`)."""
