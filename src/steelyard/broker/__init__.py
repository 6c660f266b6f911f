"""The event log: topics of records, in order per key, at least once, replayable."""
