#!/usr/bin/env python3
"""Makes reference values of many random texts, for tests/model/tokenizer_random_texts_test.cpp and
tests/model/chat_random_texts_test.cpp.

usage: random_texts.py FOLDER TEST_DATA

Installs packages from PyPI (6 MB) into FOLDER/packages, unless they are installed, and writes
  FOLDER/added.json             cases of small tokenizers with added tokens (added_tokens.py)
  FOLDER/pre_tokenizers.json    pieces of every pre-tokeniser of GGUF files (pre_tokenizers.py)
  FOLDER/word_pieces.json       cases of small tokenizers of the BERT family (word_pieces.py)
  FOLDER/index.json             cases of each tokenizer.json in TEST_DATA, by Hugging Face's
                                tokenizers: [{"tokenizer": PATH, "cases": [...]}, ...]
  FOLDER/chat_templates/        the published chat templates of axolotl and TEST_DATA, by style
  FOLDER/conversations.json     random conversations, rendered with them (chat_templates.py)
"""
import json
import pathlib
import shutil
import subprocess
import sys

PACKAGES = ["tokenizers==0.21.0", "jinja2==3.1.6", "markupsafe==3.0.4", "axolotl==0.19.0"]
TEXTS, CONVERSATIONS, SEED = 1000, 500, 2
# The style of each template of axolotl that clora supports (model/text/named_chat_templates.cpp).
STYLES = {"chatml": "chatml", "llama3": "llama3", "mistral_v1": "mistral-v1",
          "mistral_v2v3": "mistral-v3", "mistral_v3_tekken": "mistral-nemo", "qwen_25": "qwen2.5", "gemma": "gemma",
          "gemma3": "gemma3"}


def install(packages):
    """All packages, or none if that fails."""
    if packages.exists():
        return
    part = packages.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
                           "--disable-pip-version-check", "--root-user-action=ignore",
                           "--target", part, *PACKAGES],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"random_texts: pip install {' '.join(PACKAGES)} failed; check the network and "
                 f"the package index, then run this again\n{done.stderr}")
    part.rename(packages)


def copy_templates(packages, data, folder):
    """One folder for each style; "others" contains those that clora does not support."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted((packages / "axolotl/utils/chat_templates/templates").glob("*.jinja")):
        style = folder / STYLES.get(path.stem, "others")
        style.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, style)
    config = json.loads((data / "tokenizers/qwen2.5/tokenizer_config.json").read_text("utf-8"))
    (folder / "qwen2.5").mkdir(exist_ok=True)
    (folder / "qwen2.5/published.jinja").write_bytes(config["chat_template"].encode())


def main():
    folder, data = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    install(folder / "packages")
    sys.path.insert(0, str(folder / "packages"))
    sys.dont_write_bytecode = True
    import added_tokens  # these import the packages
    import chat_templates
    import pre_tokenizers
    import word_pieces

    paths = sorted(data.rglob("tokenizer.json"))
    if not paths:
        sys.exit(f"random_texts: {data} contains no tokenizer.json; pass -DCLORA_TEST_DATA=FOLDER, "
                 "the folder of models and reference values, to cmake")
    added_tokens.write_rows(folder / "added.json", added_tokens.added_cases(TEXTS, SEED))
    pre_tokenizers.write(folder / "pre_tokenizers.json", TEXTS, SEED)
    added_tokens.write_rows(folder / "word_pieces.json", word_pieces.vectors(TEXTS, SEED))
    rows = [{"tokenizer": str(path), "cases": added_tokens.random_cases(path, TEXTS, SEED)}
            for path in paths]
    (folder / "index.json").write_text(json.dumps(rows), encoding="utf-8")
    copy_templates(folder / "packages", data, folder / "chat_templates")
    chat_templates.write_random(folder / "chat_templates", folder / "conversations.json",
                                CONVERSATIONS, SEED)
    print(f"{TEXTS} texts for each of {len(paths)} tokenizers of {data}")


if __name__ == "__main__":
    main()
