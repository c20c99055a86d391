#!/usr/bin/env python3
"""Splits texts with Hugging Face's tokenizers, for tests/model/pre_tokenizers_test.cpp.

usage: pre_tokenizers.py OUT.json TEXTS [SEED]

PUBLISHED has, for names of tokenizer.ggml.pre, the pre_tokenizer of the models' tokenizer.json, and
for "default" the patterns of llama.cpp. The output for 120 texts, with tokenizers 0.21.0, is stored
as tests/reference/pre_tokenizers.json; random_texts.py makes many more.
{"tokenizers": VERSION, "texts": [...], "pre_tokenizers": [{"names": [...], "patterns": [...],
"lengths": [[bytes of each piece of a text, ...], ...]}, ...]}
"""
import json
import random
import sys

import tokenizers
from tokenizers import Regex, pre_tokenizers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
          r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
          r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SEED_CODER = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
              r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEFAULT = [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"]

BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
DIGITS = pre_tokenizers.Digits(individual_digits=True)


def split(*patterns):
    return [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]


PUBLISHED = [
    (["gpt-2", "gpt2", "granite-docling", "mpt", "olmo", "phi-2"], [BYTE_LEVEL], None),
    (["smollm", "refact", "starcoder"], [DIGITS, BYTE_LEVEL], None),
    (["llama-bpe", "llama3", "llama-v3", "lfm2", "dbrx", "smaug-bpe"], split(CL100K), [CL100K]),
    (["qwen2", "deepseek-r1-qwen"], split(QWEN2), [QWEN2]),
    (["qwen35"], split(QWEN35), [QWEN35]),
    (["seed-coder"], split(SEED_CODER), None),
    (["gpt-4o"], split(O200K), [O200K]),
    (["tekken"], split(TEKKEN), [TEKKEN]),
    (["default"], split(*DEFAULT), DEFAULT),
]

SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\r", " \n", "\u00a0", "\u3000",
          "\u2028", "\u0085", "\u200b"]
WORDS = ["the", "The", "HTTPServer", "iPhone", "McDonald's", "DON'T", "we'LL", "it's", "'Re", "o'ſ",
         "ſ", "\u212a", "ß", "ǅ", "ǆ", "ʰ", "ªb", "naïve", "cafe\u0301", "É", "E\u0301", "Straße",
         "Привет", "ДОМ", "Ελλάδα", "ΣΑΣ", "Երևան", "ქართული", "שָׁלוֹם", "مَرْحَبًا", "हिन्दी", "বাংলা", "தமிழ்",
         "ภาษาไทย", "မြန်မာ", "漢字", "かな", "カナ", "한국어", "\u1112\u1161\u11ab", "𐐀𐐨", "𝐀𝐛", "ﬁ", "Ⅷ"]
DIGITS_AND_SIGNS = ["0", "12", "123", "1234", "1234567", "3.14", "½", "²", "٣٤٥", "४५६", "Ⅻ", "①",
                    "𝟘𝟙", "x2", "2nd", ".", "...", "!?", "/", "//", "a/b", "/\n", "-", "--", "_",
                    "<|x|>", "{}", "'", "''", "\"", "$5", "€", "+=", "~", "^", "🦙", "👩\u200d👧", "\u0301",
                    "\u20dd", "\ufe0f", "\u200d", "\u00ad", "\x00", "\x1f", "\ufffd", "\ue000"]


def random_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 14)):
        kind = rng.random()
        parts.append(rng.choice(SPACES if kind < 0.3 else
                                WORDS if kind < 0.65 else DIGITS_AND_SIGNS))
    return "".join(parts)


def lengths(text, steps):
    pieces = pre_tokenizers.Sequence(steps).pre_tokenize_str(text)
    spans = [span for _, span in pieces]
    assert "".join(text[begin:end] for begin, end in spans) == text
    return [len(text[begin:end].encode()) for begin, end in spans]


def write(path, count, seed):
    rng = random.Random(seed)
    texts = [random_text(rng) for _ in range(count)]
    rows = [{"names": names, "patterns": patterns, "lengths": [lengths(t, steps) for t in texts]}
            for names, steps, patterns in PUBLISHED]
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"tokenizers": tokenizers.__version__, "texts": texts, "pre_tokenizers": rows},
                  out, separators=(",", ":"))


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
