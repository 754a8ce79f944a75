"""The symmetric m-way join on one key: probe, gather, product (`task` shows how they go together)."""
