"""docs/python.md and the example of the README say what the package does."""
import pathlib
import re

import numpy as np

import clora

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")


def blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.S)


def test_quoted_examples_are_those_of_the_files():
    quoted = re.findall(r"^`([^`\n]+)`:\n```python\n(.*?)```", PAGE, re.M | re.S)
    assert quoted
    for path, code in quoted:
        text = (ROOT / path).read_text(encoding="utf-8")
        text = text.replace("import sys\n\n", "")
        assert code in text, path


def test_the_example_of_ops_runs():
    code = next(block for block in blocks(PAGE) if "lora_linear" in block)
    values = np.ones((4, 32), dtype=np.float32)
    names = {"clora": clora, "x": values, "w": values, "a": values[:2], "bt": values[:2, :4].copy(),
             "array": values, "weight": values[0]}
    exec(code, names)
    assert names["y"].shape == (4, 32)


def test_the_example_of_the_readme_runs(stories_path, stories, tmp_path, monkeypatch):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = next(block for block in blocks(readme) if "import clora" in block)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.jsonl").write_text("".join(f'{{"text": "{story}"}}\n' for story in stories))
    exec(code.replace("MODEL.gguf", stories_path), {})


def test_every_named_function_and_setting_exists():
    for name in re.findall(r"`clora\.(\w+)", PAGE):
        assert hasattr(clora, name), name
    for name in re.findall(r"`model\.(\w+)", PAGE):
        assert hasattr(clora.Model, name), name
    table = PAGE[PAGE.index("## Interface"):PAGE.index("**Data**")]
    for name in ("lora_alpha", "use_rslora", "use_dora", "modules_to_save", "init_lora_weights"):
        assert name in table and name in clora.LoraConfig.__dataclass_fields__
