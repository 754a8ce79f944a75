"""Which state can go because nothing can be joined with it any more."""
