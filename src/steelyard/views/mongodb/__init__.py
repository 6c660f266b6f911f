"""The view in MongoDB, for several sinks and API servers."""
