"""Where groups live."""
