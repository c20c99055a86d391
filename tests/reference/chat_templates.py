#!/usr/bin/env python3
"""Renders conversations with published chat templates, for tests/model/chat_template_test.cpp and
tests/model/chat_random_texts_test.cpp (random_texts.py).

usage: chat_templates.py FOLDER OUT.json [RANDOM_CONVERSATIONS [SEED]]

FOLDER holds one folder for each style (model/text/named_chat_templates.cpp), with the published
templates of that style as *.jinja. jinja2 renders them with the settings of Hugging Face's
transformers; all templates of a style must agree on every conversation. Without
RANDOM_CONVERSATIONS, the few conversations below are rendered; the results are stored as
tests/reference/chat_renderings.json.
"""
import json
import pathlib
import random
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

BOS, EOS, DATE = "<|bos|>", "<|im_end|>", "26 Jul 2024"


def turns(*contents, system=None):
    messages = [] if system is None else [{"role": "system", "content": system}]
    for i, content in enumerate(contents):
        messages.append({"role": ("user", "assistant")[i % 2], "content": content})
    return messages


CONVERSATIONS = [
    turns("Hi"),
    turns(" Hi\n", "\n Yo \t", "And?"),
    turns("Hi", "Yo", system="\u00a0Be brief. "),
    turns("a", "b", "c", "d", system=""),
    turns("", ""),
    turns(system="Alone"),
    turns("q", "<think>\nhm\n\n</think>\n\n\nanswer", "r", "<think>x</think>y"),
    turns("<tool_response>1</tool_response>", "a</think>b</think>\n c"),
    turns("Hi", "<think>never closed"),
    [{"role": "assistant", "content": "first"}, {"role": "user", "content": "second"}],
    [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}],
    turns("Hi", "Yo") + [{"role": "system", "content": "late"}],
]
PARTS = ["", " ", "\n", "\t", "\n\n", "Hi", "word", "<think>", "</think>", "<tool_response>",
         "</tool_response>", "[INST]", "<|im_end|>", "\u00e9", "\u00a0", "\u2003", "\u3000", "\x1c",
         "\x0b", "\u200b", "\ufeff", "{{ x }}", "'", "\"", "\\n", "<s>"]


def random_conversation(rng):
    def content():
        return "".join(rng.choice(PARTS) for _ in range(rng.randrange(7)))
    if rng.random() < 0.7:
        system = content() if rng.random() < 0.5 else None
        messages = turns(*(content() for _ in range(rng.randrange(1, 7))), system=system)
    else:
        messages = [{"role": rng.choice(["system", "user", "assistant"]), "content": content()}
                    for _ in range(rng.randrange(1, 6))]
    return messages


def environment(*extensions):
    """jinja2 as transformers sets it up, with further extensions."""
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[*extensions, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: DATE
    return env


def rendering(template, messages, generation, thinking):
    try:
        return template.render(messages=messages, tools=None, documents=None, bos_token=BOS,
                               eos_token=EOS, add_generation_prompt=generation,
                               enable_thinking=thinking)
    except jinja2.exceptions.TemplateError:
        return None


def renderings(folder, conversations):
    templates = [environment().from_string(path.read_bytes().decode())
                 for path in sorted(folder.glob("*.jinja"))]
    rows = []
    for index, messages in enumerate(conversations):
        for generation in (False, True):
            for thinking in ((True, False) if folder.name.startswith("qwen3") else (True,)):
                texts = {rendering(t, messages, generation, thinking) for t in templates}
                if len(texts) != 1:
                    sys.exit(f"{folder.name}: the templates disagree on {messages}: {texts}")
                rows.append([index, generation, thinking, texts.pop()])
    return rows


def write(folder, out, conversations):
    styles = sorted(p for p in folder.iterdir() if p.is_dir() and p.name != "others")
    lines = [f'"{style.name}": [\n' + ",\n".join(
        json.dumps(row) for row in renderings(style, conversations)) + "]" for style in styles]
    out.write_text('{"conversations": [\n' + ",\n".join(json.dumps(c) for c in conversations) +
                   '],\n"renderings": {\n' + ",\n".join(lines) + "}}\n")


def write_random(folder, out, count, seed):
    rng = random.Random(seed)
    write(folder, out, [random_conversation(rng) for _ in range(count)])


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if len(sys.argv) > 3:
        write_random(folder, out, int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    else:
        write(folder, out, CONVERSATIONS)


if __name__ == "__main__":
    main()
