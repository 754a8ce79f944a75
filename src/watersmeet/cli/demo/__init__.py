"""`watersmeet demo`: the papers' five-way join on generated streams, watched live, counted again and drawn."""
