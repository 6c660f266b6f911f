"""The aggregator: commands become states of entities."""
