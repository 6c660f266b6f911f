"""One module per kind of resource, each with one pure `reconcile(resource, children, now, settings) -> Desired`."""
