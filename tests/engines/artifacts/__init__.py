"""An image pushed to an artifact by a real client of registries, pulled and run by a real node."""
