"""Our evaluation engine, and sessions of the platform, on a real vLLM."""
