"""The evaluation engine: rows of Parquet in, calls to replicas, durable and verified Parquet out.

`engine.evaluate` and `verify.verify` are its two entry points; the steps and the command line call them.
"""
