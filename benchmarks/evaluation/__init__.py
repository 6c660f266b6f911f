"""Benchmark of the evaluation engine, beside a bare aiohttp loop and the ideal: `python -m
benchmarks.evaluation`.
"""
