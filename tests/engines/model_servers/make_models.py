"""Makes two tiny Llamas and their GGUF files, once: `python make_models.py FOLDER` in an environment with torch.

`bos` begins every text with <s>, `nobos` does not; the two are otherwise alike: 128 hidden, 2 layers, a byte-level
vocabulary of 1,500 tokens. They are trained for some steps on Python's own sources, so that answers are not all noise.
"""

import argparse
import typing
from pathlib import Path

import gguf
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HIDDEN, LAYERS, HEADS, LENGTH, VOCABULARY = 128, 2, 4, 1024, 1500
CHAT = (
    "{{ bos_token if bos_token }}{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def tokenizer_of(lines: list[str], bos: bool) -> tuple[Tokenizer, PreTrainedTokenizerFast]:
    tokens = Tokenizer(models.BPE())
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<pad>"] if bos else ["</s>", "<pad>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokens.train_from_iterator(lines, trainer)
    plain = processors.ByteLevel(trim_offsets=False)
    begun = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])
    tokens.post_processor = processors.Sequence([plain, begun]) if bos else plain
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        eos_token="</s>",
        pad_token="<pad>",
        clean_up_tokenization_spaces=False,
        **({"bos_token": "<s>"} if bos else {}),
    )
    fast.chat_template = CHAT
    return tokens, fast


def trained(
    tokens: Tokenizer, fast: PreTrainedTokenizerFast, lines: list[str], steps: int
) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=HIDDEN // HEADS,
        max_position_embeddings=LENGTH,
        bos_token_id=fast.bos_token_id,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        tie_word_embeddings=False,
        initializer_range=0.05,
        dtype="float32",
    )
    model = LlamaForCausalLM(config).float()
    ids = torch.tensor([i for text in tokens.encode_batch(lines) for i in [*text.ids, fast.eos_token_id]])
    step = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(steps):
        batch = torch.stack([ids[at : at + 96] for at in torch.randint(0, len(ids) - 96, (16,)).tolist()])
        model(input_ids=batch, labels=batch).loss.backward()
        step.step()
        step.zero_grad()
    return model.eval()


def write_gguf(path: Path, tokens: Tokenizer, fast: PreTrainedTokenizerFast, model: LlamaForCausalLM) -> None:
    """Write the same weights and the same vocabulary for llama.cpp, all in float32."""
    import json

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(LENGTH)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    vocabulary = sorted(tokens.get_vocab().items(), key=lambda item: item[1])
    special = set(fast.all_special_tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in vocabulary])
    types = [gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token, _ in vocabulary]
    writer.add_token_types(types)
    merges = json.loads(tokens.to_str())["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_eos_token_id(fast.eos_token_id)
    writer.add_pad_token_id(fast.pad_token_id)
    if fast.bos_token_id is not None:
        writer.add_bos_token_id(fast.bos_token_id)
    writer.add_add_bos_token(fast.bos_token_id is not None)
    writer.add_chat_template(CHAT)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    for name, tensor in model.state_dict().items():
        array = tensor.detach().float().numpy()
        if name.endswith(
            ("q_proj.weight", "k_proj.weight")
        ):  # llama.cpp pairs the halves of a rotation otherwise
            shape = array.shape
            array = array.reshape(HEADS, 2, shape[0] // HEADS // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), array.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=150)
    arguments = parser.parse_args()
    sources = [Path(typing.__file__), Path(argparse.__file__)]
    lines = [line for path in sources for line in path.read_text().splitlines() if line.strip()]
    for name in ("bos", "nobos"):
        tokens, fast = tokenizer_of(lines, name == "bos")
        model = trained(tokens, fast, lines, arguments.steps)
        folder = arguments.folder / name
        model.save_pretrained(folder)
        fast.save_pretrained(folder)
        (arguments.folder / f"{name}-gguf").mkdir(exist_ok=True)
        write_gguf(arguments.folder / f"{name}-gguf" / f"{name}.gguf", tokens, fast, model)


if __name__ == "__main__":
    main()
