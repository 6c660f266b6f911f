"""The reaper: removes the deleted, the expired and leftovers."""
