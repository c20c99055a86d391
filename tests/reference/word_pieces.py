#!/usr/bin/env python3
"""Encodes texts by WordPiece with Hugging Face's tokenizers, for tests/model/word_piece_test.cpp.

usage: word_pieces.py vectors OUT.json [TEXTS [SEED]]
       word_pieces.py characters OUT.json
       word_pieces.py random TOKENIZER.json OUT.json TEXTS [SEED]

"vectors" makes small tokenizers of the BERT family; its output for 20 texts is stored as
tests/reference/word_pieces.json. "characters" normalises and splits every character; its output is
stored as tests/reference/bert_characters.json. "random" encodes random texts with an existing
tokenizer. The stored files were made with tokenizers 0.23.3.

A case is [text, ids, ids if special tokens are plain text, ids with the frame, decoded text, decoded
text with special tokens]; the first two lists are without the special tokens before and after. The texts
are null where an added token is normalised: releases differ in whether they decode it so.
"""
import json
import random
import sys

from tokenizers import Tokenizer, normalizers, pre_tokenizers

from added_tokens import write_rows

SPACES = [" ", " ", " ", "  ", "\n", "\t", "\u00a0", "\u3000", "\r\n", "\u2028", "\u200b", "\u0000"]
WORDS = ["the", "The", "tokenizing", "tokens", "unaffable", "don't", "12345", "3.14", "caf\u00e9",
         "Cafe\u0301", "na\u00efve", "\u00c5ngstr\u00f6m", "\u212b", "\u1e9b\u0323", "stra\u00dfe",
         "STRASSE", "\u0130stanbul", "\u0131\u015f\u0131k", "\u039f\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2",
         "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3", "\u041c\u043e\u0441\u043a\u0432\u0430", "\u0439\u043e\u0433\u0443\u0440\u0442",
         "\u0441\u044a\u0451\u043c", "\u6f22\u5b57", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "\ud55c\uad6d\uc5b4",
         "\uf900", "\U00020000", "\u0627\u0644\u0639\u0631\u0628\u064a\u064e\u0651\u0629", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
         "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22", "ti\u1ebfng Vi\u1ec7t", "\U0001f999",
         "\U0001f468\u200d\U0001f469", "\u24b6", "\u2167", "\u00bd", "\ufb01n", "x\u00b2", "_", "-", "'", ".",
         "!?", ",", "$5", "a+b=c", "\u00a1hola!", "\u00abmot\u00bb", "\u201cquoted\u201d", "\u3002", "\u2581", "##",
         "##ing", "[x]", "\u00ad", "soft\u00adhyphen", "\ue000", "\ufffd", "\ufeff", "a" * 99, "b" * 101,
         "\u00e9" * 100]
# Lower case since Unicode 16, and a decomposition since Unicode 13: they are of different versions.
EXCLUDED = [[0x1C89, 0x1C89], [0xA7CB, 0xA7DC], [0x10D50, 0x10D65], [0x11938, 0x11938],
            [0x16EA0, 0x16EB8]]
FLAGS = ["clean_text", "handle_chinese_chars", "strip_accents", "lowercase"]


def random_text(rng, tokens):
    parts = []
    for _ in range(rng.randrange(14)):
        kind = rng.random()
        parts.append(rng.choice(SPACES) if kind < 0.4 else
                     rng.choice(WORDS) if kind < 0.8 else
                     rng.choice(tokens) if kind < 0.95 else chr(rng.randrange(0x20, 0xd7ff)))
    return "".join(parts)


def vocabulary(rng, special, lowercase):
    """Special tokens, each character of most words by itself, and some longer pieces."""
    rules = normalizers.BertNormalizer(lowercase=lowercase)
    pieces = set()
    for word in rng.sample(WORDS, 60):
        for part, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(rules.normalize_str(word)):
            pieces.update([part[0]] + ["##" + c for c in part])
            for _ in range(2):
                begin = rng.randrange(len(part))
                piece = part[begin:rng.randrange(begin, min(len(part), begin + 9)) + 1]
                pieces.add(piece if begin == 0 else "##" + piece)
    kept = [piece for piece in sorted(pieces) if rng.random() < 0.95]  # else words are never unknown
    return {text: i for i, text in enumerate(special + kept)}


def added(id_, content, special, **flags):
    return {"id": id_, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special, **flags}


def tokenizer_json(vocab, special, normalizer, post_processor, extra=(), longest=100):
    tokens = [added(vocab[text], text, True, lstrip=text == "<mask>") for text in special]
    new = [text for text, _ in extra if text not in vocab]
    tokens += [added(vocab[text] if text in vocab else len(vocab) + new.index(text), text, False,
                     **flags) for text, flags in extra]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "normalizer": {"type": "BertNormalizer", "clean_text": True,
                           "handle_chinese_chars": True, "strip_accents": None, "lowercase": True,
                           **normalizer},
            "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": post_processor,
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": longest, "vocab": vocab}}


def template(vocab, cls, sep):
    def token(text, kind):
        return {"SpecialToken": {"id": text, "type_id": kind}}

    def part(name, kind):
        return {"Sequence": {"id": name, "type_id": kind}}

    return {"type": "TemplateProcessing",
            "single": [token(cls, 0), part("A", 0), token(sep, 0)],
            "pair": [token(cls, 0), part("A", 0), token(sep, 0), part("B", 1), token(sep, 1)],
            "special_tokens": {t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in (cls, sep)}}


def pair(kind, vocab, cls, sep):
    more = {"trim_offsets": True, "add_prefix_space": False} if kind == "RobertaProcessing" else {}
    return {"type": kind, "sep": [sep, vocab[sep]], "cls": [cls, vocab[cls]], **more}


def pipelines(seed):
    rng = random.Random(seed)
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    mpnet = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
    vocab = vocabulary(rng, bert, True)
    yield "bert, uncased", tokenizer_json(vocab, bert, {}, template(vocab, "[CLS]", "[SEP]"))
    vocab = vocabulary(rng, bert, False)
    yield "bert, cased", tokenizer_json(vocab, bert, {"lowercase": False},
                                        pair("BertProcessing", vocab, "[CLS]", "[SEP]"))
    vocab = vocabulary(rng, mpnet, True)
    yield "mpnet", tokenizer_json(vocab, mpnet, {},
                                  pair("RobertaProcessing", vocab, "<s>", "</s>"))
    vocab = vocabulary(rng, bert, True)
    yield "bert, accents kept", tokenizer_json(vocab, bert, {"strip_accents": False}, None)
    vocab = vocabulary(rng, bert, True)
    extra = [("<x>", {}), ("newword", {"normalized": True}),
             ("Caf\u00e9", {"normalized": True, "single_word": True}), ("\u6f22", {"rstrip": True}),
             ("the", {"lstrip": True, "single_word": True})]
    yield "bert, other rules", tokenizer_json(
        vocab, bert, {"clean_text": False, "handle_chinese_chars": False, "lowercase": False,
                      "strip_accents": True},
        template(vocab, "[CLS]", "[SEP]"), extra, 10)


def cases_of(tokenizer, count, rng, tokens):
    parsing, plain = Tokenizer.from_str(tokenizer), Tokenizer.from_str(tokenizer)
    plain.encode_special_tokens = True
    added_tokens = parsing.get_added_tokens_decoder().values()
    any_normalized = any(token.normalized for token in added_tokens)
    for each in (parsing, plain):
        each.no_truncation()
        each.no_padding()
    cases = []
    for _ in range(count):
        text = random_text(rng, tokens)
        framed = plain.encode(text).ids
        texts = [plain.decode(framed), plain.decode(framed, skip_special_tokens=False)]
        cases.append([text, parsing.encode(text, add_special_tokens=False).ids,
                      plain.encode(text, add_special_tokens=False).ids, framed,
                      *([None, None] if any_normalized else texts)])
    return cases


def vectors(count, seed):
    rng, rows = random.Random(seed), []
    for name, file in pipelines(seed):
        tokens = [token["content"] for token in file["added_tokens"]]
        rows.append({"name": name, "tokenizer": file,
                     "cases": cases_of(json.dumps(file), count, rng, tokens)})
    return rows


def fnv1a(text):
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:016x}"


def characters():
    """For each rule, a hash of what it makes of each block of 4096 characters; blocks that it does
    not change are left out. "words" splits "a", the character and "b"."""
    split = pre_tokenizers.BertPreTokenizer()
    rules = {}
    for flag in FLAGS:
        one = normalizers.BertNormalizer(**{name: name == flag for name in FLAGS})
        rules[flag] = one.normalize_str
    rules["words"] = lambda c: "|".join(word for word, _ in split.pre_tokenize_str("a" + c + "b"))
    result = {"excluded": EXCLUDED, "blocks": {}}
    for name, rule in rules.items():
        blocks = {}
        for first in range(0, 0x110000, 0x1000):
            block = [chr(c) for c in range(first, first + 0x1000) if not 0xd800 <= c < 0xe000 and
                     not any(low <= c <= high for low, high in EXCLUDED)]
            made = "\n".join(rule(c) for c in block)
            same = "\n".join(f"a{c}b" if name == "words" else c for c in block)
            if made != same:
                blocks[f"{first:x}"] = fnv1a(made)
        result["blocks"][name] = blocks
    return result


def main():
    kind, args = sys.argv[1], sys.argv[2:]
    if kind == "vectors":
        write_rows(args[0], vectors(int(args[1]) if len(args) > 1 else 20,
                                    int(args[2]) if len(args) > 2 else 1))
    elif kind == "characters":
        with open(args[0], "w", encoding="utf-8") as file:
            json.dump(characters(), file, separators=(",", ":"))
            file.write("\n")
    else:
        with open(args[0], encoding="utf-8") as file:
            tokenizer = file.read()
        tokens = [token["content"] for token in json.loads(tokenizer)["added_tokens"]]
        rng = random.Random(int(args[3]) if len(args) > 3 else 1)
        write_rows(args[1], cases_of(tokenizer, int(args[2]), rng, tokens))


if __name__ == "__main__":
    main()
