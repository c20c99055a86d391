#!/usr/bin/env python3
"""Encodes texts with Hugging Face's tokenizers, for tests/model/tokenizer_vectors_test.cpp.

usage: added_tokens.py added OUT.json [TEXTS [SEED]]
       added_tokens.py random TOKENIZER.json OUT.json TEXTS [SEED]

"added" creates small tokenizers of each supported pipeline with added tokens of all kinds; its
output for 12 texts is stored as tests/reference/added_tokens.json. "random" encodes random texts with an
existing tokenizer; its output for 40 texts and the tokenizers of the test data is stored as
tests/reference/random_texts_NAME.json. random_texts.py makes many more. A case is [text, ids, ids
if special tokens are plain text].
"""
import json
import random
import sys

from tokenizers import Tokenizer

MARK = "\u2581"
SPACES = [" ", "  ", "\n", "\t", "\u00a0", "\u3000", "\r\n"]
WORDS = ["a", "b", "ab", "ba", "A", "the", "don't", "12345", "caf\u00e9", "cafe\u0301", "\u00e9",
         "e\u0301", "\u1e9b\u0323", "\u6f22\u5b57", "\U0001f999", "\u24b6", "\u200d", "_", "-", "'",
         "\u0939\u093f", "\u00bd", "\u2167", ".", "!?", MARK, "\u0130", "\ud55c", "\u212b"]


def random_text(rng, tokens):
    parts = []
    for _ in range(rng.randrange(12)):
        kind = rng.random()
        parts.append(rng.choice(SPACES) if kind < 0.35 else
                     rng.choice(WORDS) if kind < 0.7 or not tokens else rng.choice(tokens))
    return "".join(parts)


def cases_of(path_or_text, count, rng, tokens):
    load = Tokenizer.from_str if path_or_text.lstrip().startswith("{") else Tokenizer.from_file
    parsing, plain = load(path_or_text), load(path_or_text)
    plain.encode_special_tokens = True
    cases = []
    for _ in range(count):
        text = random_text(rng, tokens)
        cases.append([text, parsing.encode(text, add_special_tokens=False).ids,
                      plain.encode(text, add_special_tokens=False).ids])
    return cases


def byte_alphabet():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in own]
    return [chr(b) for b in own] + [chr(256 + i) for i in range(len(others))]


def added_tokens(vocab):
    texts = ["<x>", "<xy>", "ab", "[NW]", " lead", "<caf\u00e9>", "<cafe\u0301>", "\u24b6"]
    out, next_id = [], len(vocab)
    for i, text in enumerate(texts):
        out.append({"id": vocab.get(text, next_id), "content": text, "single_word": False,
                    "lstrip": False, "rstrip": False, "normalized": False, "special": i % 2 == 0})
        next_id += text not in vocab
    return out


def tokenizer_json(normalizer, pre_tokenizer, byte_level, seed):
    if byte_level:
        alphabet = byte_alphabet()
        merges = [["a", "b"], ["\u0120", "ab"], ["t", "h"], ["th", "e"], ["\u0120", "the"]]
    else:
        alphabet = ["<unk>"] + sorted(set("".join(WORDS) + MARK + "ABtheab12345.\n\t"))
        merges = [["a", "b"], [MARK, "ab"], ["t", "h"], ["th", "e"], [MARK, "the"], [MARK, MARK]]
    vocab = {text: i for i, text in enumerate(alphabet)}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    random.seed(seed)
    added = added_tokens(vocab)
    flags = ["normalized", "single_word", "lstrip", "rstrip"]
    for token in added[1:]:
        for flag in flags:
            token[flag] = random.random() < 0.4
    if not byte_level:
        added.insert(0, {"id": 0, "content": "<unk>", "single_word": False, "lstrip": False,
                         "rstrip": False, "normalized": False, "special": True})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
            "decoder": None,
            "model": {"type": "BPE", "dropout": None,
                      "unk_token": None if byte_level else "<unk>",
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": not byte_level, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": merges}}


def pipelines():
    def byte_level(prefix):
        return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True,
                "use_regex": True}

    def metaspace(scheme, split):
        return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}

    marks = [{"type": "Prepend", "prepend": MARK},
             {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]
    yield "byte-level", None, byte_level(False), True
    yield "byte-level, prefix space", None, byte_level(True), True
    yield "byte-level, NFC", {"type": "NFC"}, byte_level(False), True
    yield "Prepend", {"type": "Sequence", "normalizers": marks}, None, False
    yield "Replace", marks[1], None, False
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield f"Metaspace {scheme} {split}", None, metaspace(scheme, split), False


def random_cases(path, count, seed):
    """Cases of an existing tokenizer."""
    with open(path, encoding="utf-8") as file:
        tokens = [token["content"] for token in json.load(file)["added_tokens"]]
    return cases_of(str(path), count, random.Random(seed), tokens)


def added_cases(count, seed):
    """Small tokenizers with added tokens, each with its cases."""
    rng, result = random.Random(seed), []
    for index, (name, normalizer, pre_tokenizer, byte_level) in enumerate(pipelines()):
        file = tokenizer_json(normalizer, pre_tokenizer, byte_level, 100 * seed + index)
        tokens = [token["content"] for token in file["added_tokens"]]
        result.append({"name": name, "tokenizer": file,
                       "cases": cases_of(json.dumps(file), count, rng, tokens)})
    return result


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(x, separators=(",", ":")) for x in rows) + "\n]\n")


def main():
    kind, args = sys.argv[1], sys.argv[2:]
    if kind == "random":
        seed = int(args[3]) if len(args) > 3 else 1
        write_rows(args[1], random_cases(args[0], int(args[2]), seed))
    else:
        count = int(args[1]) if len(args) > 1 else 12
        write_rows(args[0], added_cases(count, int(args[2]) if len(args) > 2 else 1))


if __name__ == "__main__":
    main()
