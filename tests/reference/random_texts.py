#!/usr/bin/env python3
"""Encodes many random texts with Hugging Face's tokenizers, for tests/tokenizer_random_texts_test.cpp.

usage: random_texts.py FOLDER TEST_DATA

Installs the package "tokenizers" from PyPI (3 MB) into FOLDER/packages, unless it is there, and
writes FOLDER/added.json, the cases of small tokenizers with added tokens, and FOLDER/index.json, the
cases of each tokenizer.json in TEST_DATA: [{"tokenizer": PATH, "cases": [...]}, ...].
"""
import json
import pathlib
import subprocess
import sys

PACKAGE = "tokenizers==0.21.0"
TEXTS, SEED = 1000, 2


def install(packages):
    if (packages / "tokenizers").exists():
        return
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
                           "--disable-pip-version-check", "--root-user-action=ignore",
                           "--target", packages, PACKAGE],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"random_texts: pip install {PACKAGE} failed; check the network and the package "
                 f"index, then run this again\n{done.stderr}")


def main():
    folder, data = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    install(folder / "packages")
    sys.path.insert(0, str(folder / "packages"))
    sys.dont_write_bytecode = True
    import added_tokens  # imports the package

    paths = sorted(data.rglob("tokenizer.json"))
    if not paths:
        sys.exit(f"random_texts: {data} contains no tokenizer.json; pass -DCLORA_TEST_DATA=FOLDER, "
                 "the folder of models and reference values, to cmake")
    added_tokens.write_rows(folder / "added.json", added_tokens.added_cases(TEXTS, SEED))
    rows = [{"tokenizer": str(path), "cases": added_tokens.random_cases(path, TEXTS, SEED)}
            for path in paths]
    (folder / "index.json").write_text(json.dumps(rows), encoding="utf-8")
    print(f"{TEXTS} texts for each of {len(paths)} tokenizers of {data}")


if __name__ == "__main__":
    main()
