"""The sinks: states of entities are written to the view and to the backup."""
