"""mlx-lm loads the MLX adapters that clora writes, and clora those that mlx-lm saves."""
import numpy
import pytest
from conftest import LINEARS, VARIANTS, Sizes, Variant, relative_difference

IDS = [1, 17, 42, 5, 63, 8, 8, 30, 2, 55, 11]
TOLERANCE = 1e-5  # relative to the largest logit; both compute in f32
QV = ["self_attn.q_proj", "self_attn.v_proj"]
WRITTEN = {**VARIANTS, "dora": Variant(dora=True), "last_layer": Variant(layers=[1], targets=QV),
           "first_layer": Variant(layers=[0], targets=QV)}
SAVED = {"all": {"num_layers": -1, "parameters": {"rank": 4, "scale": 2.5, "dropout": 0.0,
                                                  "keys": LINEARS}},
         "last_layer": {"num_layers": 1, "parameters": {"rank": 8, "scale": 20.0, "dropout": 0.0,
                                                        "keys": QV}},
         "dora": {"num_layers": 2, "dora": True,
                  "parameters": {"rank": 3, "scale": 1.7, "dropout": 0.0, "keys": QV}}}


@pytest.fixture(scope="module", params=["tiny_llama3", "tiny_qwen3"])
def base(request, models):
    return models / request.param


def test_mlx_lm_loads_what_clora_writes(base, clora, convert, mlx, write_adapter, tmp_path):
    sizes = Sizes.of_folder(base)
    model = clora.model(base)
    jobs, wanted = [], {}
    for name, variant in WRITTEN.items():
        original = write_adapter(tmp_path / name, sizes, variant)
        convert(base, original, "mlx", tmp_path / f"{name}-mlx")
        logits = tmp_path / f"{name}.npy"
        jobs.append({"model": str(base), "adapter": str(tmp_path / f"{name}-mlx"), "ids": IDS,
                     "logits": str(logits)})
        wanted[logits] = model.logits(IDS, sizes.vocabulary, original)
    mlx(jobs)
    plain = model.logits(IDS, sizes.vocabulary)
    for logits, expected in wanted.items():
        assert relative_difference(expected, plain) > 0.01, logits
        assert relative_difference(numpy.load(logits), expected) < TOLERANCE, logits


def test_clora_loads_what_mlx_lm_saves(base, clora, convert, mlx, tmp_path):
    """Also after a conversion to PEFT's format."""
    sizes = Sizes.of_folder(base)
    mlx([{"model": str(base), "save": str(tmp_path / name), "ids": IDS,
          "logits": str(tmp_path / f"{name}.npy"), **job} for name, job in SAVED.items()])
    model = clora.model(base)
    for name in SAVED:
        convert(base, tmp_path / name, "peft", tmp_path / f"{name}-peft")
        wanted = numpy.load(tmp_path / f"{name}.npy")
        for adapter in (tmp_path / name, tmp_path / f"{name}-peft"):
            got = model.logits(IDS, sizes.vocabulary, adapter)
            assert relative_difference(got, wanted) < TOLERANCE, adapter
