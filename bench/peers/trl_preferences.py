#!/usr/bin/env python3
"""Times steps of DPO with a LoRA adapter by TRL and by `clora train` in turns on a CPU or a GPU: the
shape of a real model with random weights, the same pairs, the same first adapter. Prints one JSON
line for each program and round, and the ratio of their medians.

    pip install 'trl==1.16.0' peft torch
    bench/peers/trl_preferences.py build/release/tools/clora TOKENIZER.json --dtype f32
    bench/peers/trl_preferences.py build/release/tools/clora TOKENIZER.json --dtype bf16 \
        --device gpu --shape qwen2.5-0.5b --batch 8 --prompt 768 --answer 128

TOKENIZER.json is that of GPT-2 (50,257 tokens). Every step has all pairs, so that the order in
which a program takes them makes no difference, and the losses of both must agree. Both compute the
log-probabilities of the reference once, before the first step; that time is not counted.
  f32   everything in f32
  bf16  TRL: frozen weights in bf16, products in bf16 through autocast; clora: --precision auto.
        Losses in bf16 differ by rounding, and AdamW's first steps follow the signs of gradients,
        also of those that rounding changes: the largest difference of each from clora's losses
        in f32 is printed; those in f32 must agree to 1e-3
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import peft
import torch
import transformers
import trl
from datasets import Dataset

from peer_lines import print_line, spread_of
from model_shapes import LINEARS, SHAPES, random_model

END = "<|endoftext|>"
VOCABULARY = 50304  # GPT-2's, rounded up
BETA = 0.1
WORDS = ("the", "tree", "of", "a", "river", "stone", "runs", "under", "light", "every", "cold")


def text_of(tokens: int, seed: int) -> str:
    """A text of so many tokens: each word with its space is one of GPT-2's."""
    return "".join(f" {WORDS[(i * i + seed * i + seed) % len(WORDS)]}" for i in range(tokens))


def pairs_of(args) -> list[dict[str, str]]:
    return [{"prompt": text_of(args.prompt, 3 * i + 1), "chosen": text_of(args.answer - 1, 3 * i + 2),
             "rejected": text_of(args.answer - 1, 3 * i + 3)} for i in range(args.batch)]


def tokenizer_of(file: str) -> transformers.PreTrainedTokenizerFast:
    return transformers.PreTrainedTokenizerFast(tokenizer_file=file, eos_token=END, pad_token=END)


def write_inputs(folder: pathlib.Path, args) -> None:
    """The model, the first adapter and the pairs."""
    model = random_model(VOCABULARY, args.shape)
    end = tokenizer_of(args.tokenizer).convert_tokens_to_ids(END)
    model.config.eos_token_id = model.config.bos_token_id = end
    model.generation_config = transformers.GenerationConfig.from_model_config(model.config)
    model.save_pretrained(folder / "model")
    tokenizer_of(args.tokenizer).save_pretrained(folder / "model")
    config = peft.LoraConfig(r=args.rank, lora_alpha=2 * args.rank, lora_dropout=0.0,
                             task_type="CAUSAL_LM", target_modules=list(LINEARS))
    peft.get_peft_model(model, config).save_pretrained(folder / "adapter")
    lines = [json.dumps(pair) for pair in pairs_of(args)]
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


class Clock(transformers.TrainerCallback):
    """When each step ended."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, *_args, **_kwargs):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())


def trl_steps(folder: pathlib.Path, args) -> tuple[list[float], list[float]]:
    """Losses, and seconds of the steps after the first ones."""
    bf16 = args.dtype == "bf16"
    base = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.bfloat16 if bf16 else torch.float32,
        attn_implementation="sdpa")
    model = peft.PeftModel.from_pretrained(base, folder / "adapter", is_trainable=True)
    clock = Clock()
    config = trl.DPOConfig(
        output_dir=str(folder / "trl"), per_device_train_batch_size=args.batch,
        max_steps=args.steps, learning_rate=args.lr, lr_scheduler_type="constant", weight_decay=0.0,
        max_grad_norm=1e9, logging_steps=1, report_to="none", use_cpu=args.device == "cpu", bf16=bf16,
        save_strategy="no", gradient_checkpointing=False, optim="adamw_torch_fused", beta=BETA,
        precompute_ref_log_probs=True, disable_tqdm=True, max_length=None)
    trainer = trl.DPOTrainer(model=model, args=config, train_dataset=Dataset.from_list(pairs_of(args)),
                             processing_class=tokenizer_of(args.tokenizer), callbacks=[clock])
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses, differences(clock.ends)


def clora_steps(folder: pathlib.Path, args, dtype: str | None = None) -> tuple[list[float], list[float]]:
    done = subprocess.run(
        [args.clora, "train", "--model", folder / "model", "--data", folder / "pairs.jsonl",
         "--adapter-init", folder / "adapter", "--adapter-out", folder / "clora", "--overwrite",
         "--loss", "dpo", "--beta", str(BETA), "--lr", str(args.lr), "--batch-size", str(args.batch),
         "--steps", str(args.steps), "--max-seq-length", str(args.prompt + args.answer),
         "--precision", "auto" if (dtype or args.dtype) == "bf16" else "f32", "--device", args.device, "--json"],
        check=True, stdout=subprocess.PIPE, text=True)
    steps = [event for event in map(json.loads, done.stdout.splitlines())
             if event["event"] == "step"]
    return [step["loss"] for step in steps], differences([step["seconds"] for step in steps])


def differences(ends: list[float]) -> list[float]:
    """Without the first two steps, which compile or warm up."""
    return [end - begin for begin, end in zip(ends[1:], ends[2:])]


def largest_difference(losses: list[float], others: list[float]) -> float:
    if len(losses) != len(others):
        sys.exit(f"{len(losses)} and {len(others)} losses cannot be compared")
    return max(abs(a - b) for a, b in zip(losses, others))


def check_losses(losses: dict[str, list[float]], folder: pathlib.Path, args) -> None:
    if args.dtype == "f32":
        if largest_difference(losses["clora"], losses["trl"]) > 1e-3:
            sys.exit(f"the losses differ: {losses}")
        return
    exact, _ = clora_steps(folder, args, "f32")
    print_line(peer="losses", dtype="bf16 against clora's in f32",
               **{f"{peer}_largest_difference": round(largest_difference(of_peer, exact), 5)
                  for peer, of_peer in losses.items()})


def versions_of(peer: str) -> dict[str, str]:
    return {} if peer == "clora" else {"version": trl.__version__, "torch": torch.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clora", type=pathlib.Path, help="the program")
    parser.add_argument("tokenizer", help="tokenizer.json of GPT-2")
    parser.add_argument("--batch", type=int, default=4, help="pairs per step (default 4)")
    parser.add_argument("--prompt", type=int, default=192, help="tokens of a prompt (default 192)")
    parser.add_argument("--answer", type=int, default=64, help="tokens of an answer (default 64)")
    parser.add_argument("--rank", type=int, default=8, help="rank of the adapter (default 8)")
    parser.add_argument("--steps", type=int, default=8, help="steps of a round (default 8)")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate (default 1e-4)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds in turns (default 2)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--shape", choices=SHAPES, default="smollm2-135m")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    args = parser.parse_args()
    args.clora = args.clora.resolve()
    all_seconds = {"trl": [], "clora": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_inputs(folder, args)
        for _ in range(args.rounds):
            losses = {}
            for peer, steps in (("clora", clora_steps), ("trl", trl_steps)):
                losses[peer], seconds = steps(folder, args)
                all_seconds[peer] += seconds
                print_line(peer=peer, **versions_of(peer), device=args.device, dtype=args.dtype,
                           model=f"{args.shape} shape, random weights",
                           work=f"dpo/{args.batch}x({args.prompt}+2x{args.answer})/r{args.rank}",
                           first_loss=losses[peer][0], last_loss=losses[peer][-1],
                           **spread_of("s_per_step", seconds, digits=3))
        check_losses(losses, folder, args)
    medians = {peer: statistics.median(seconds) for peer, seconds in all_seconds.items()}
    print_line(peer="clora against trl", dtype=args.dtype,
               ratio=round(medians["trl"] / medians["clora"], 2))


if __name__ == "__main__":
    main()
