"""llama.cpp, by the server of llama-cpp-python, for models in GGUF."""

from steelyard.runners.kind import GIB, Requirements, RunnerKind, Serving
from steelyard.runners.weights import gguf_model

# A service knows the folder of its model, and not the name of the file in it.
_START = (
    "import glob, runpy, sys\n"
    "at = sys.argv.index('--model') + 1\n"
    "sys.argv[at] = min(glob.glob(glob.escape(sys.argv[at]) + '/*.gguf'), default=sys.argv[at])\n"
    "runpy.run_module('llama_cpp.server', run_name='__main__')"
)


def _arguments(serving: Serving) -> list[str]:
    return [
        "--model", serving.model, "--model_alias", serving.name, "--host", serving.host, "--port", serving.port,
        # Without it there are no log-probabilities.
        "--logits_all", "true",
        *(["--root_path", serving.root_path] if serving.root_path else []),
        *(["--n_gpu_layers", "-1"] if serving.gpus else []),
    ]  # fmt: skip


LLAMA_CPP = RunnerKind(
    name="llama.cpp",
    title="llama.cpp",
    serves="models in GGUF",
    looked_for="*.gguf",
    find_model=gguf_model,
    command=lambda serving: ["python", "-c", _START],
    arguments=_arguments,
    base_memory=GIB // 4,
    least_cache=GIB // 4,
    ready_path="/v1/models",
    version_path="/openapi.json",
    stages={
        r"llama_model_loader: loaded meta data": "loading weights",
        r"llama_context: constructing|llama_new_context": "weights loaded",
        r"Application startup complete": "opening its port",
    },
    error_line=r"^(?=[\w.]*(?:Error|Exception): )|^(?=.*error loading model)",
    package="llama-cpp-python",
    module="llama_cpp.server",
    environments={
        "cpu": Requirements("llama.cpp.txt", GIB // 4),
        "cuda": Requirements("llama.cpp.txt", GIB, ("cmake.args=-DGGML_CUDA=on",)),
    },
)
