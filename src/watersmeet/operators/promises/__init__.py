"""Punctuations: which values will not come any more, kept compactly and asked for many rows at once."""
