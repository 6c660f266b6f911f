"""Real model servers: vLLM and llama.cpp on processors, with a tiny model that was trained once."""
