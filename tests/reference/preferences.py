#!/usr/bin/env python3
"""Ten steps of DPO, IPO, ORPO and KTO of a tiny random model, computed with TRL.

usage: preferences.py OUT_FILE

Made with trl 1.16.0, transformers 5.24.0, peft 0.21.2 and torch 2.15.0. The result is stored as
tests/reference/preferences.json: the versions, "family", the model of families.py (float32 on the
CPU), and for each loss

  records   prompt and answers as ids, in the order in which they are trained; an answer ends with
            the end token, the last id of the vocabulary
  batch     records of a step
  settings  beta and, of KTO, the weights
  head      with what the head is trained: "lora", "modules_to_save" or null
  steps     of each step what TRL logs: loss, grad_norm and its metrics. AdamW with betas 0.9 and
            0.999, eps 1e-8, a constant rate, no weight decay and no clipping; the adapter is that
            of families.py, A of the head that of a block with the number 7, and the reference is
            the model without it. The head is the embedding matrix, of which a trained one is a copy
"""
import json
import os
import sys
import tempfile
import warnings

import families
import peft
import tokenizers
import torch
import transformers
import trl
from datasets import Dataset
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

FAMILY = "qwen3"
END = families.VOCAB - 1
BATCH, STEPS, RATE = 3, 10, 1e-2
WEIGHTS = {"desirable_weight": 1.25, "undesirable_weight": 0.75}
METRICS = ["loss", "grad_norm", "rewards/chosen", "rewards/rejected", "rewards/accuracies",
           "rewards/margins", "logps/chosen", "logps/rejected", "nll_loss", "log_odds_ratio",
           "log_odds_chosen", "kl"]


def ids_of(count, seed):
    return [(i * 29 + seed * 7 + 3) % END for i in range(count)]


PAIRS = [{"prompt": ids_of(3 + i, i), "chosen": ids_of(2 + (i * 5) % 7, i + 20) + [END],
          "rejected": ids_of(1 + (i * 3) % 6, i + 40) + [END]} for i in range(2 * BATCH)]
ANSWERS = [{"prompt": pair["prompt"], "completion": pair["chosen" if i % 2 == 0 else "rejected"],
            "label": i % 2 == 0} for i, pair in enumerate(PAIRS)]


def tokenizer():
    vocabulary = {f"t{i}": i for i in range(END)} | {"</s>": END}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="t0"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="</s>", pad_token="</s>", unk_token="t0")


def text_of(ids):
    return "".join("</s>" if i == END else f"t{i} " for i in ids)


def data_of(records):
    return Dataset.from_list([{key: value if key == "label" else text_of(value)
                               for key, value in record.items()} for record in records])


def in_order(kind):
    class Trainer(kind):
        def _get_train_sampler(self, *args, **kwargs):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    return Trainer


def fill(model):
    """The adapter of families.py."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_A" not in name:
                continue
            i, j = torch.meshgrid(*[torch.arange(n, dtype=torch.float64) for n in value.shape],
                                  indexing="ij")
            block = 7 if "lm_head" in name else families.block_of(name)
            value.copy_(0.02 * torch.sin(0.37 * i + 0.11 * j + block))


def steps_of(trainer, config, records, head=None, **settings):
    kind, values, targets, _, _ = families.FAMILIES[FAMILY]
    with tempfile.TemporaryDirectory() as folder:
        arguments = config(
            output_dir=folder, per_device_train_batch_size=BATCH, max_steps=STEPS,
            learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1e9,
            logging_steps=1, report_to="none", use_cpu=True, bf16=False, save_strategy="no",
            gradient_checkpointing=False, optim="adamw_torch", adam_beta1=0.9, adam_beta2=0.999,
            adam_epsilon=1e-8, dataloader_drop_last=False, disable_tqdm=True,
            remove_unused_columns=False, **settings)
        run = in_order(trainer)(
            model=families.model_of(*families.saved(families.config_of(kind, values))),
            args=arguments, train_dataset=data_of(records), processing_class=tokenizer(),
            peft_config=peft.LoraConfig(
                r=3, lora_alpha=6, lora_dropout=0.0, task_type="CAUSAL_LM",
                target_modules=list(targets) + (["lm_head"] if head == "lora" else []),
                modules_to_save=["lm_head"] if head == "modules_to_save" else None))
        fill(run.model)
        run.train()
        logged = [entry for entry in run.state.log_history if "loss" in entry]
    if len(logged) != STEPS:
        raise RuntimeError(f"{len(logged)} steps were logged")
    return {"records": records, "batch": BATCH, "settings": settings, "head": head, "rank": 3,
            "alpha": 6, "lr": RATE, "steps": [{name: float(entry[name]) for name in METRICS if name in entry}
                                  for entry in logged]}


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    result = {
        "versions": {"trl": trl.__version__, "transformers": transformers.__version__,
                     "peft": peft.__version__, "torch": torch.__version__},
        "family": FAMILY,
        "dpo": steps_of(trl.DPOTrainer, trl.DPOConfig, PAIRS, beta=0.5),
        "ipo": steps_of(trl.DPOTrainer, trl.DPOConfig, PAIRS, beta=0.5, loss_type="ipo"),
        "orpo": steps_of(ORPOTrainer, ORPOConfig, PAIRS, beta=0.3),
        "kto": steps_of(trl.KTOTrainer, trl.KTOConfig, ANSWERS, beta=0.5, **WEIGHTS)}
    # TRL computes the other losses from lm_head.weight, and refuses a head with LoRA.
    result["orpo lora"] = steps_of(ORPOTrainer, ORPOConfig, PAIRS, "lora", beta=0.3)
    saved = "modules_to_save"
    result |= {
        f"dpo {saved}": steps_of(trl.DPOTrainer, trl.DPOConfig, PAIRS, saved, beta=0.5),
        f"ipo {saved}": steps_of(trl.DPOTrainer, trl.DPOConfig, PAIRS, saved, beta=0.5,
                                 loss_type="ipo"),
        f"orpo {saved}": steps_of(ORPOTrainer, ORPOConfig, PAIRS, saved, beta=0.3),
        f"kto {saved}": steps_of(trl.KTOTrainer, trl.KTOConfig, ANSWERS, saved, beta=0.5,
                                 **WEIGHTS)}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in result.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
