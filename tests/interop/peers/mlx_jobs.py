"""Jobs for mlx-lm: a JSON list on stdin. Each has the path of a model, token ids and an .npy file for
the logits, and either `adapter`, the path of an adapter to load, or `parameters`, the
lora_parameters of one that gets random values and is saved to `save`, with `num_layers` and, for
DoRA, `dora`."""
import json
import pathlib
import sys

import mlx.core as mx
import numpy
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.utils import linear_to_lora_layers, load_adapters
from mlx_lm.utils import load_model

mx.set_default_device(mx.cpu)


def make(model, job):
    """As mlx_lm.lora does."""
    dora = job.get("dora", False)
    model.freeze()
    linear_to_lora_layers(model, job["num_layers"], job["parameters"], use_dora=dora)
    mx.random.seed(5)
    values = []
    for name, value in tree_flatten(model.trainable_parameters()):
        if name.endswith(".m"):
            value = value * (1 + 0.2 * mx.random.normal(value.shape))
        else:
            value = 0.2 * mx.random.normal(value.shape)
        values.append((name, value))
    model.update(tree_unflatten(values))
    folder = pathlib.Path(job["save"])
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "adapters.safetensors"),
                        dict(tree_flatten(model.trainable_parameters())))
    (folder / "adapter_config.json").write_text(json.dumps({
        "fine_tune_type": "dora" if dora else "lora", "num_layers": job["num_layers"],
        "lora_parameters": job["parameters"], "model": job["model"], "iters": 10}))


def run(job):
    model, _ = load_model(pathlib.Path(job["model"]))
    model.set_dtype(mx.float32)
    if "parameters" in job:
        make(model, job)
    elif "adapter" in job:
        load_adapters(model, job["adapter"])
    model.eval()
    logits = model(mx.array([job["ids"]]))[0].astype(mx.float32)
    numpy.save(job["logits"], numpy.array(logits))


for each in json.load(sys.stdin):
    run(each)
