"""The services behind the API: aggregator, sinks, orchestrator, informer."""
