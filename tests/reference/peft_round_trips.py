"""Tests round trips of adapters between PEFT and clora, on tiny random models of transformers.

Each case is an adapter that PEFT creates, fills with random values and saves. clora loads it: its
logits must equal PEFT's, or it must refuse the adapter and name a key. If it loads the adapter,
clora saves it again, and both PEFT and clora load the copy: the logits must be the same again.

Needs torch, transformers and peft (tools/setup/install_peers torch) and libclora.so:
    PYTHON tests/reference/peft_round_trips.py --library build/release/libclora.so
Prints a line for each case and model; exits with 1 if one of them fails."""
import argparse
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig,  # noqa: E402
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)
from transformers.utils import logging  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable_progress_bar()
logging.set_verbosity_error()
TOLERANCE = 1e-5  # relative to the largest logit
IDS = [1, 17, 42, 5, 63, 8, 8, 30, 2, 55, 11]
LAYERS = 12  # "1" is a prefix of other layers' numbers
QV = ["q_proj", "v_proj"]
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Clora:
    """The calls of libclora.so that this program needs."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        self.lib.clora_last_error.restype = ctypes.c_char_p
        self.context = self.made("clora_context_create", None)

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.clora_last_error().decode())

    def made(self, function, *arguments):
        handle = ctypes.c_void_p()
        self.check(getattr(self.lib, function)(*arguments, ctypes.byref(handle)))
        return handle

    def load_model(self, folder):
        model = self.made("clora_model_load", self.context, str(folder).encode(), None)
        return model, self.made("clora_session_create", model, None)

    def load_adapter(self, model, folder):
        return self.made("clora_adapter_load", model, str(folder).encode())

    def save_adapter(self, adapter, folder):
        self.check(self.lib.clora_adapter_save(adapter, str(folder).encode()))

    def logits(self, session, vocabulary, adapter=None):
        if adapter is None:
            self.check(self.lib.clora_session_detach(session))
        else:
            self.check(self.lib.clora_session_attach(session, adapter))
        ids = (ctypes.c_int32 * len(IDS))(*IDS)
        out = (ctypes.c_float * (len(IDS) * vocabulary))()
        self.check(self.lib.clora_forward(session, ids, ctypes.c_size_t(len(IDS)), 0, out,
                                          ctypes.c_size_t(len(out))))
        return torch.tensor(list(out), dtype=torch.float64).reshape(len(IDS), vocabulary)


def tiny_models():
    sizes = dict(vocab_size=67, hidden_size=32, intermediate_size=48, num_hidden_layers=LAYERS,
                 num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    yield "llama", LlamaForCausalLM, LlamaConfig(**sizes)
    yield "qwen2", Qwen2ForCausalLM, Qwen2Config(**sizes, tie_word_embeddings=True)
    yield "qwen3", Qwen3ForCausalLM, Qwen3Config(**sizes, head_dim=16)
    yield "mistral", MistralForCausalLM, MistralConfig(**sizes, sliding_window=5)


def cases():
    """Yields the name, the arguments of LoraConfig, and "refused" or "loaded" for clora."""
    yield "plain", dict(r=4, lora_alpha=7, target_modules=QV), "loaded"
    yield "all linear", dict(r=4, lora_alpha=7, target_modules="all-linear"), "loaded"
    yield "default targets", dict(r=4, lora_alpha=7), "loaded"
    yield "dropout", dict(r=4, lora_alpha=7, lora_dropout=0.3, target_modules=QV), "loaded"
    yield "rslora", dict(r=4, lora_alpha=7, use_rslora=True, target_modules=ALL), "loaded"
    for targets in (QV, ALL):
        yield f"dora {targets}", dict(r=4, lora_alpha=7, use_dora=True, target_modules=targets,
                                      lora_dropout=0.1), "loaded"
    yield "dora, rslora", dict(r=4, lora_alpha=7, use_dora=True, use_rslora=True,
                               target_modules=ALL), "loaded"
    for start in (False, "gaussian", "orthogonal", "eva"):
        yield f"init {start}", dict(r=4, init_lora_weights=start, target_modules=QV), "loaded"
    for kind, pattern in patterns():
        for stabilised in (False, True):
            name = f"{kind}{', rslora' if stabilised else ''}"
            more = dict(r=4, lora_alpha=7, use_rslora=stabilised, target_modules=ALL)
            yield f"rank: {name}", dict(more, rank_pattern={k: 2 + i for i, k in
                                                            enumerate(pattern)}), "loaded"
            yield f"alpha: {name}", dict(more, alpha_pattern={k: 2.5 + 9 * i for i, k in
                                                              enumerate(pattern)}), "loaded"
    both = dict(rank_pattern={r".*\.1\..*": 3, "q_proj": 2}, alpha_pattern={"(q|k)_proj": 30})
    yield "rank and alpha", dict(r=4, lora_alpha=7, target_modules=ALL, **both), "loaded"
    for regex in (r".*\.(q|v)_proj", r"model\.layers\.(1|10)\..*_proj", r".*mlp.*_proj",
                  r".*\.\d\.self_attn\.[qk]_proj", r"(?:.*)layers\.(?!1\.).*down_proj"):
        yield f"targets {regex}", dict(r=4, lora_alpha=7, target_modules=regex,
                                       alpha_pattern={"q_proj": 20}), "loaded"
    yield "whole paths", dict(r=4, target_modules=["model.layers.1.self_attn.q_proj",
                                                   "model.layers.10.mlp.up_proj"]), "loaded"
    for layers in (1, [1], [0, 1, 11], []):
        for pattern in (None, "layers", ["h", "layers"], "lay[a-z]+"):
            if layers == [] and pattern is None:
                continue
            yield f"layers {layers} after {pattern}", dict(
                r=4, target_modules=QV, layers_to_transform=layers, layers_pattern=pattern), \
                "refused" if layers == [] else "loaded"
    for excluded in (["v_proj"], ["model.layers.1.self_attn.v_proj", "k_proj"], r".*\.1\..*",
                     r"model\.layers\.\d\..*q_proj"):
        yield f"without {excluded}", dict(r=4, target_modules=ALL,
                                          exclude_modules=excluded), "loaded"
    yield "regex without regex", dict(r=4, target_modules=r".*_proj",
                                      exclude_modules=r".*(up|down)_proj"), "loaded"
    for start in ("pissa", "pissa_niter_2", "olora"):
        yield f"init {start}", dict(r=4, init_lora_weights=start, target_modules=QV), "refused"
    for bias in ("all", "lora_only"):
        yield f"bias {bias}", dict(r=4, bias=bias, target_modules=QV), "loaded"
        yield f"bias {bias} in one layer", dict(r=4, bias=bias, target_modules=QV,
                                                layers_to_transform=[1]), "loaded"
    yield "bias all next to modules", dict(r=4, bias="all", target_modules=QV,
                                           modules_to_save=["k_proj", "norm"]), "loaded"
    yield "lora_bias", dict(r=4, lora_bias=True, target_modules=QV), "refused"
    for tying in (False, True):
        for ends in (["lm_head"], ["embed_tokens"], ["embed_tokens", "lm_head"],
                     ["model.embed_tokens"], r".*(q_proj|lm_head|embed_tokens)"):
            targets = ends if isinstance(ends, str) else ["q_proj"] + ends
            yield f"ends {ends}{' tied' if tying else ''}", dict(
                r=4, lora_alpha=7, lora_dropout=0.1, target_modules=targets,
                ensure_weight_tying=tying), "loaded"
    yield "ends with their own ranks", dict(
        r=4, lora_alpha=7, use_rslora=True, target_modules=QV + ["lm_head", "embed_tokens"],
        rank_pattern={"lm_head": 2, "embed_tokens": 3}, alpha_pattern={"lm_head": 9}), "loaded"
    yield "head of one layer", dict(r=4, target_modules=["q_proj", "lm_head"],
                                    layers_to_transform=[1]), "loaded"
    yield "dora head", dict(r=4, use_dora=True, target_modules=["q_proj", "lm_head"]), "refused"
    yield "dora embeddings", dict(r=4, use_dora=True, target_modules=["embed_tokens"]), "refused"
    for modules in (["norm"], ["input_layernorm", "model.norm"], ["embed_tokens"],
                    ["lm_head", "embed_tokens"], ["k_proj"], ["o_proj", "1.mlp.down_proj"]):
        yield f"modules_to_save {modules}", dict(r=4, target_modules=QV,
                                                 modules_to_save=modules), "loaded"
    for modules in (["q_proj"], ["mlp"]):
        yield f"modules_to_save {modules}", dict(r=4, target_modules=QV,
                                                 modules_to_save=modules), "refused"
    yield "trainable tokens", dict(r=4, target_modules=QV,
                                   trainable_token_indices=[1, 2]), "refused"
    yield "alora", dict(r=4, target_modules=QV, task_type="CAUSAL_LM",
                        alora_invocation_tokens=[42, 5]), "refused"
    yield "layer replication", dict(r=4, target_modules=QV,
                                    layer_replication=[(0, LAYERS)]), "refused"
    yield "longer replication", dict(r=4, target_modules=QV,
                                     layer_replication=[(0, LAYERS), (2, 4)]), "refused"


def patterns():
    """Yields keys of rank_pattern and alpha_pattern. PEFT sorts them when it saves, and tries them
    in the order of the file when it loads: in another order it cannot load its own ranks."""
    yield "a part", ["q_proj"]
    yield "two parts", ["self_attn.q_proj", "mlp.up_proj"]
    yield "a path", ["model.layers.1.self_attn.q_proj"]
    yield "anchored", ["^model.layers.1.self_attn.q_proj", "^q_proj"]
    yield "escaped", [r"^model\.layers\.1\.mlp\.down_proj$"]
    yield "regex", [r"layers\.(0|1)\..*", r".*\.11\.mlp\..*"]
    yield "first wins", [".*mlp.*", ".*q_proj", "q_proj", "up_proj"]
    yield "alternatives", ["q_proj|v_proj", "up_proj|model.layers.0.mlp.down_proj"]
    yield "a class", [r"[qk]_proj", r"\d+\.mlp\.\w+"]
    yield "no match", ["lm_head", "proj", "self_attn"]


def fill(model):
    """Fills every matrix with random values, so that each of them affects the logits. The values
    are small enough for f32 to stay within TOLERANCE through all layers."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in sorted(model.named_parameters()):
        if "lora_" in name or "modules_to_save" in name:
            values = torch.randn(parameter.shape, generator=generator)
            # Magnitudes and full tensors are near the values with which they begin.
            is_factor = "lora_A" in name or "lora_B" in name or "lora_embedding" in name
            # In place: PEFT's matrices of a tied head are views of those of the embeddings.
            parameter.data.copy_(0.08 * values if is_factor else parameter * (1 + 0.2 * values))
        if name.endswith(".bias") and parameter.requires_grad:  # which begins at zero
            parameter.data.add_(0.2 * torch.randn(parameter.shape, generator=generator))


def logits_of(model):
    with torch.no_grad():
        return model.eval()(torch.tensor([IDS])).logits[0].double()


def difference(got, want):
    return float((got - want).abs().max() / want.abs().max())


def make_peft(base, arguments, folder):
    """Returns the adapter's logits from PEFT after it has loaded its own files."""
    model = get_peft_model(base(), LoraConfig(**arguments))
    fill(model)
    model.save_pretrained(folder, safe_serialization=True)
    return logits_of(PeftModel.from_pretrained(base(), folder))


def run_case(clora, loaded, base, arguments, wanted, folder):
    """Returns whether the case passed, the largest difference, and a description of the outcome."""
    model, session = loaded
    first, again = folder / "peft", folder / "clora"
    try:
        want = make_peft(base, arguments, first)
    except Exception as error:
        return True, 0.0, f"PEFT itself cannot do it: {type(error).__name__}: {error}"[:160]
    vocabulary = want.shape[1]
    try:
        adapter = clora.load_adapter(model, first)
        differences = {"load": difference(clora.logits(session, vocabulary, adapter), want)}
    except RuntimeError as error:
        return wanted == "refused", 0.0, f"refused: {error}"[:160]
    clora.save_adapter(adapter, again)
    second = clora.load_adapter(model, again)
    differences["again"] = difference(clora.logits(session, vocabulary, second), want)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        by_peft = logits_of(PeftModel.from_pretrained(base(), again))
    differences["by PEFT"] = difference(by_peft, want)
    missing = [str(w.message)[:80] for w in said if "missing adapter keys" in str(w.message)]
    moved = difference(clora.logits(session, vocabulary), want)
    worst = max(differences.values())
    good = (wanted == "loaded" and worst <= TOLERANCE and not missing and
            moved > 100 * TOLERANCE)
    text = ", ".join(f"{k} {v:.1e}" for k, v in differences.items())
    return good, worst, f"{text}, without it {moved:.1e} {missing or ''}"


def run_conversion(program, clora, loaded, base, start, folder):
    """As run_case(), of an adapter with changed base weights, which `clora adapters convert`
    converts with its matrices before training."""
    model, session = loaded
    changed = get_peft_model(base(), LoraConfig(r=4, lora_alpha=7, init_lora_weights=start,
                                                target_modules=QV))
    changed.save_pretrained(folder / "initial")
    fill(changed)
    changed.save_pretrained(folder / "trained")
    want = logits_of(changed)
    subprocess.run([program, "adapters", "convert", folder / "trained", "--initial",
                    folder / "initial", "--out", folder / "plain"], check=True,
                   stdout=subprocess.DEVNULL)
    adapter = clora.load_adapter(model, folder / "plain")
    differences = {"converted": difference(clora.logits(session, want.shape[1], adapter), want),
                   "by PEFT": difference(
                       logits_of(PeftModel.from_pretrained(base(), folder / "plain")), want)}
    worst = max(differences.values())
    return worst <= TOLERANCE, worst, ", ".join(f"{k} {v:.1e}" for k, v in differences.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libclora.so")
    parser.add_argument("--program", help="clora, to test conversions as well")
    parser.add_argument("--model", help="only this one: llama, qwen2, qwen3, mistral")
    parser.add_argument("--case", default="", help="only the cases with this in their name")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    clora = Clora(arguments.library)
    failed = total = 0
    worst = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for name, kind, config in tiny_models():
            if arguments.model not in (None, name):
                continue
            torch.manual_seed(1)
            folder = pathlib.Path(scratch) / name
            kind(config).save_pretrained(folder / "model", safe_serialization=True)

            def base(kind=kind, folder=folder):
                return kind.from_pretrained(folder / "model", dtype=torch.float32)
            loaded = clora.load_model(folder / "model")
            plain = difference(clora.logits(loaded[1], config.vocab_size), logits_of(base()))
            print(f"{name}: the model alone {plain:.1e}", flush=True)
            failed += not plain <= TOLERANCE
            for case, keys, wanted in cases():
                if arguments.case not in case:
                    continue
                shutil.rmtree(folder / "case", ignore_errors=True)
                try:
                    good, most, text = run_case(clora, loaded, base, keys, wanted, folder / "case")
                except Exception as error:
                    good, most, text = False, 0.0, f"{type(error).__name__}: {error}"[:160]
                total += 1
                failed += not good
                worst = max(worst, most)
                print(f"{'ok    ' if good else 'FAILED'} {name}: {case}: {text}", flush=True)
            for start in ("pissa", "pissa_niter_2", "olora") if arguments.program else ():
                shutil.rmtree(folder / "case", ignore_errors=True)
                good, most, text = run_conversion(arguments.program, clora, loaded, base, start,
                                                  folder / "case")
                total += 1
                failed += not good
                worst = max(worst, most)
                print(f"{'ok    ' if good else 'FAILED'} {name}: convert {start}: {text}", flush=True)
    print(f"{total} cases, {failed} failed, largest difference {worst:.1e} of the largest logit")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
