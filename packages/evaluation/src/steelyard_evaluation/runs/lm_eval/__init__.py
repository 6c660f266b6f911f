"""Tasks of lm-eval: its requests are asked by this engine, its scores computed by lm-eval in a process of its own."""
