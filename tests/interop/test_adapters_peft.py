"""The peft package loads the adapters that clora writes, and clora those that peft writes."""
import numpy
import pytest
from conftest import VARIANTS, Sizes, Variant, relative_difference

IDS = [1, 17, 42, 5, 63, 8, 8, 30, 2, 55, 11]
TOLERANCE = 1e-5  # relative to the largest logit; both compute in f32
CONFIGS = {"plain": {"r": 4, "lora_alpha": 7, "target_modules": ["q_proj", "v_proj"]},
           "all_linear": {"r": 4, "lora_alpha": 7, "target_modules": "all-linear"},
           "rslora": {"r": 6, "lora_alpha": 7, "use_rslora": True,
                      "target_modules": ["k_proj", "o_proj"]},
           "dora": {"r": 4, "lora_alpha": 7, "use_dora": True,
                    "target_modules": ["q_proj", "down_proj"]},
           "patterns": {"r": 4, "lora_alpha": 7, "target_modules": ["q_proj", "up_proj"],
                        "rank_pattern": {"q_proj": 3}, "alpha_pattern": {"up_proj": 30}},
           "one_layer": {"r": 4, "lora_alpha": 7, "target_modules": ["q_proj"],
                         "layers_to_transform": [1]}}


@pytest.fixture(scope="module", params=["tiny_llama3", "tiny_qwen3"])
def base(request, models):
    return models / request.param


def through(convert, base, adapter, formats, folder):
    """The adapter after conversions to each of the formats in turn."""
    folder.mkdir()
    for number, to in enumerate(formats):
        out = folder / f"{number}-{to}"
        convert(base, adapter, to, out)
        adapter = out
    return adapter


def test_peft_loads_what_clora_writes(base, clora, convert, peft, write_adapter, tmp_path):
    """Written by clora convert, from PEFT's format and back from the two others."""
    sizes = Sizes.of_folder(base)
    jobs, wanted = [], {}
    model = clora.model(base)
    for name, variant in {**VARIANTS, "dora": Variant(dora=True)}.items():
        original = write_adapter(tmp_path / name, sizes, variant)
        for middle in ("mlx",) if variant.dora else ("mlx", "gguf"):
            back = through(convert, base, original, [middle, "peft"], tmp_path / f"{name}-{middle}")
            logits = tmp_path / f"{name}-{middle}.npy"
            jobs.append({"model": str(base), "adapter": str(back), "ids": IDS,
                         "logits": str(logits)})
            wanted[logits] = model.logits(IDS, sizes.vocabulary, original)
    peft(jobs)
    for logits, expected in wanted.items():
        assert relative_difference(numpy.load(logits), expected) < TOLERANCE, logits


def test_clora_loads_what_peft_writes(base, clora, convert, peft, tmp_path):
    """Also after a conversion to the two other formats."""
    sizes = Sizes.of_folder(base)
    peft([{"model": str(base), "config": config, "save": str(tmp_path / name), "ids": IDS,
           "logits": str(tmp_path / f"{name}.npy")} for name, config in CONFIGS.items()])
    model = clora.model(base)
    for name in CONFIGS:
        wanted = numpy.load(tmp_path / f"{name}.npy")
        adapters = [tmp_path / name]
        for to in ("mlx",) if name == "dora" else ("mlx", "gguf"):
            adapters.append(through(convert, base, adapters[0], [to], tmp_path / f"{name}-{to}"))
        for adapter in adapters:
            got = model.logits(IDS, sizes.vocabulary, adapter)
            assert relative_difference(got, wanted) < TOLERANCE, adapter
