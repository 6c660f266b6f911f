"""How fast the evaluation engine is, beside a bare aiohttp loop and the ideal: `python -m benchmarks.evaluation`."""
