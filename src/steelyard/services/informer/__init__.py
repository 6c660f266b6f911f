"""The informer: conditions of resources become statuses of entities."""
