"""Side-by-side measurements. `make bench` runs all of them; docs/benchmarks.md shows the figures."""
