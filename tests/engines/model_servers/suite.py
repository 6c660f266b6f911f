"""The suites of real model servers: `python -m tests.engines.model_servers.suite [vllm|llama.cpp] [--soak]`.

`make test-engines` runs what one vLLM and one llama.cpp show, `make soak` all of it: also a vLLM without BOS, kill -9
of one, and one as a Pod of the platform.
"""

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.model_servers import checks, prepared
from tests.engines.model_servers.platform import on_platform
from tests.engines.model_servers.serving import serving

VLLM = ("--enforce-eager",)
LLAMA_CPP = ("--n_ctx", "1024", "--type_k", "0", "--type_v", "0")
"""The cache in float32, as the weights: in float16 numbers differ from the third digit on."""
PARTS = ("local_choices", "local_endings")
WHOLE = ("local_glued", "local_texts", "local_nothing")
GENERATED = ("local_sums",)
NOBOS_EOS = 0
"""Id of the token that ends a text, of the model without BOS: `make_models.py` makes it the first."""


def vllm(*, soak: bool = False) -> int:
    """A real vLLM; 1 where something is not so, which is printed."""
    return _prepared("vllm", lambda models, scratch: _vllm(models, scratch, soak=soak))


def llama_cpp() -> int:
    """A real llama.cpp."""
    return _prepared("llama.cpp", _llama_cpp)


def _prepared(name: str, suite: Callable[[Path, Path], None]) -> int:
    began = time.monotonic()
    with checks.scratch_folder() as folder, prepared.surroundings(Path(folder)):
        prepared.runner("vllm")  # its torch trains the models
        prepared.runner(name)
        models = prepared.models()
        checks.say(f"{name}: prepared after {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        try:
            suite(models, Path(folder))
        except AssertionError as error:
            checks.say(f"{name}: FAILED: {''.join(traceback.format_exception(error))}")
            return 1
    checks.say(f"{name}: {time.monotonic() - began:.0f} s")
    return 0


def _vllm(models: Path, scratch: Path, *, soak: bool) -> None:
    with serving(models / "bos", *VLLM) as server:
        checks.chat_and_completions(server, scratch)
        checks.too_long_prompts(server, scratch)
        checks.wrong_parameter(server, scratch)
        checks.numbers_of_lm_eval(server, "bos", scratch, (*PARTS, *WHOLE, *GENERATED))
        # The run waits for it meanwhile: it comes back after a minute and more.
        checks.ended_in_the_middle(server, signal.SIGTERM, scratch, 64)
        if soak:
            checks.ended_in_the_middle(server, signal.SIGKILL, scratch, 64)
    if soak:
        with serving(models / "nobos", *VLLM) as server:
            checks.numbers_of_lm_eval(server, "nobos", scratch, (*PARTS, *GENERATED))
            # The server puts no token before a text, so that somebody has to name it: lm-eval takes the EOS.
            checks.numbers_of_lm_eval(server, "nobos", scratch, WHOLE, f"&prefix_token_id={NOBOS_EOS}")
        on_platform(models / "bos", "vllm", VLLM, scratch)


def _llama_cpp(models: Path, scratch: Path) -> None:
    with serving(models / "bos-gguf", *LLAMA_CPP) as server:
        checks.chat_and_completions(server, scratch)
        checks.too_long_prompts(server, scratch)
        checks.numbers_of_lm_eval(server, "bos", scratch, (*PARTS, *GENERATED))
        checks.ended_in_the_middle(server, signal.SIGTERM, scratch, 64)
        checks.ended_in_the_middle(server, signal.SIGKILL, scratch, 64)
    with serving(models / "nobos-gguf", *LLAMA_CPP) as server:
        checks.likelihoods_refused(server, scratch)
        checks.numbers_of_lm_eval(server, "nobos", scratch, GENERATED)
    on_platform(models / "bos-gguf", "llama.cpp", LLAMA_CPP, scratch)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", nargs="*", choices=["vllm", "llama.cpp", []])
    parser.add_argument("--soak", action="store_true")
    arguments = parser.parse_args()
    wanted = arguments.suite or ["llama.cpp", "vllm"]
    failed = 0
    for name in wanted:
        try:
            failed += vllm(soak=arguments.soak) if name == "vllm" else llama_cpp()
        except Missing as reason:
            print(f"left out: {name}: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
