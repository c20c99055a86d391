#!/usr/bin/env python3
"""Extracts chat template suites of other projects and renders them with jinja2, for
tests/model/jinja_suites_test.cpp.

usage: chat_suites.py LLAMA_CPP HUGGINGFACE_JS OUT

LLAMA_CPP is a checkout of llama.cpp: the cases of tests/test-jinja.cpp and
tests/test-chat-template.cpp, and conversations of all kinds for models/templates/*.jinja.
HUGGINGFACE_JS is the folder of packages/jinja/test in huggingface.js (templates.test.js,
interpreter.test.js, e2e.test.js), which node evaluates. OUT gets one JSON file for each source.

The expectation of a case is the rendering of jinja2 with the settings of transformers; null: it
raises an error. Cases in which a project expects something else are printed: they are extensions
of that project, or use other settings. What the project expects is "theirs". Nothing of the sources is kept in the repository.
"""
import copy
import datetime
import json
import pathlib
import re
import subprocess
import sys

import jinja2
import jinja2.ext
import jinja2.nodes

import chat_templates


class Generation(jinja2.ext.Extension):
    """{% generation %}, which transformers defines; here it renders its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


# A filter such as select gives a generator, which has no length and no JSON form; in the engine it
# is a list, which has both.
GENERATOR = object()


def environment():
    env = chat_templates.environment(Generation)
    env.globals["strftime_now"] = datetime.datetime(2024, 7, 26).strftime
    return env


def rendering(template, variables):
    try:
        return environment().from_string(template).render(**copy.deepcopy(variables))
    except Exception as error:  # whatever a template raises, it does not render
        return GENERATOR if "generator" in str(error) else None


class CppReader:
    """Reads initialisers of nlohmann::json and string literals from C++ sources."""

    def __init__(self, text, at):
        self.text, self.at = text, at

    def skip(self):
        while True:
            match = re.compile(r"\s+|//[^\n]*|/\*.*?\*/", re.S).match(self.text, self.at)
            if not match:
                return
            self.at = match.end()

    def take(self, pattern):
        self.skip()
        match = re.compile(pattern, re.S).match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def string(self):
        parts = []
        while True:
            if match := self.take(r'(?:u8|U8C\()?R"(\w*)\((.*?)\)\1"\)?'):
                parts.append(match[2])
            elif match := self.take(r'(?:u8)?"((?:[^"\\]|\\.)*)"'):
                parts.append(self.unescape(match[1]))
            else:
                return "".join(parts) if parts else None

    @staticmethod
    def unescape(text):
        text = re.sub(r"\\\n", "", text)
        named = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
        def one(match):
            escape = match[1]
            if escape[0] in "xuU":
                return chr(int(escape[1:], 16))
            return named.get(escape, escape)
        return re.sub(r"\\(x[0-9a-fA-F]+|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", one, text, flags=re.S)

    def value(self):
        if (text := self.string()) is not None:
            return text
        if self.take(r"(?:json::)?object\(\)"):
            return {}
        if self.take(r"json::array\(\)"):
            return []
        is_array = self.take(r"json::array\(")
        if self.take(r"json::object\(") or self.take(r"json\("):
            value = self.value()
            assert self.take(r"\)")
            return value
        if self.take(r"\{"):
            items = []
            while not self.take(r"\}"):
                items.append(self.value())
                self.take(",")
            if is_array:
                assert self.take(r"\)")
                return items
            pairs = all(isinstance(i, list) and len(i) == 2 and isinstance(i[0], str) for i in items)
            return dict(map(tuple, items)) if pairs and items else items
        match = self.take(r"nullptr|true|false|-?[\d.]+(?:e-?\d+)?|std::numeric_limits[^,)}]*")
        names = {"nullptr": None, "true": True, "false": False}
        return names[match[0]] if match[0] in names else json.loads(match[0])


def engine_cases(source):
    """test_template(t, NAME, TEMPLATE, VARIABLES, EXPECTED);"""
    text = source.read_text()
    for match in re.finditer(r"\n    test_template\(t,", text):
        reader = CppReader(text, match.end())
        name = reader.string()
        reader.take(",")
        template = reader.string()
        reader.take(",")
        try:
            variables = reader.value() or {}
            reader.take(",")
            yield name, template, variables, reader.string() or ""
        except (ValueError, TypeError, AssertionError, KeyError) as error:
            print(f"test-jinja.cpp: '{name}' was not understood: {error}")


CONVERSATION = [
    {"role": "system", "content": "You are a helpful assistant"},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi there"},
    {"role": "user", "content": "Who are you"},
    {"role": "assistant", "content": "   I am an assistant   "},
    {"role": "user", "content": "Another question"},
]


def legacy_cases(source):
    """The table of test-chat-template.cpp."""
    text = source.read_text()
    for match in re.finditer(r"/\* \.name= \*/", text):
        reader = CppReader(text, match.end())
        fields = []
        while len(fields) < 6:
            field = reader.string()
            if field is None:
                break
            fields.append(field)
            reader.take(",")
        fields += [""] * (6 - len(fields))
        name, template, expected, with_jinja, bos, eos = fields
        variables = {"messages": CONVERSATION, "bos_token": bos, "eos_token": eos,
                     "add_generation_prompt": True}
        yield name, template, variables, with_jinja or expected


def script_cases(folder):
    """The tables of huggingface.js, evaluated by node."""
    program = r"""
const fs = require("fs");
function body(file) {
  const text = fs.readFileSync(process.argv[1] + "/" + file, "utf8");
  return text.replace(/^import [^;]*;$/gm, "").split(/^describe\(/m)[0];
}
const out = [];
const run = (file, names) => new Function(body(file) + "; return {" + names + "};")();
const t = run("templates.test.js", "TEST_STRINGS, TEST_CONTEXT, EXPECTED_OUTPUTS");
for (const [name, text] of Object.entries(t.TEST_STRINGS))
  out.push([name, text, t.TEST_CONTEXT[name] ?? {}, t.EXPECTED_OUTPUTS[name] ?? null]);
const e = run("e2e.test.js", "TEST_DEFAULT_TEMPLATES, TEST_CUSTOM_TEMPLATES");
for (const [name, c] of Object.entries({...e.TEST_DEFAULT_TEMPLATES, ...e.TEST_CUSTOM_TEMPLATES}))
  out.push([name, c.chat_template, c.data, c.target]);
const json = JSON.stringify(out, (key, value) => typeof value === "function" ? "FUNCTION" : value);
process.stdout.write(json);
"""
    text = subprocess.run(["node", "-e", program, str(folder)], check=True, capture_output=True,
                          text=True).stdout
    for name, template, variables, expected in json.loads(text):
        functions = "FUNCTION" in json.dumps(variables)
        if template is None or functions:
            print(f"huggingface.js: '{name}' needs functions of its test, or a download")
            continue
        yield name, template, variables, expected


TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a <city> & 'more'.",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Its name, \u00e9."},
        "days": {"type": "integer", "default": 1, "minimum": 0.5},
        "unit": {"type": "string", "enum": ["C", "F"]}}}}}]
CALL = {"id": "call00001", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}}


def with_text_arguments(call):
    call = copy.deepcopy(call)
    call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return call


def conversations():
    user, hello = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": " Hello. \n"}
    system = {"role": "system", "content": " Be brief.\n"}
    again = {"role": "user", "content": "And 2 < 3 & \"x\"?\n\n"}
    yield "question", [user], {}
    yield "turns", [user, hello, again, {"role": "assistant", "content": "Yes."}], {}
    yield "system", [system, user, hello, again], {}
    yield "trained", [system, user, hello], {"add_generation_prompt": False}
    yield "two users", [user, again], {}
    yield "assistant first", [hello, user], {}
    yield "empty", [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}], {}
    typed = [{"type": "text", "text": "Look"}, {"type": "text", "text": " here"}]
    yield "typed", [{"role": "user", "content": typed}, hello], {}
    yield "image", [{"role": "user", "content": [{"type": "image"}, typed[0]]}], {}
    for thinking in (True, False):
        for key in ("reasoning_content", "reasoning", "thinking"):
            thought = {"role": "assistant", "content": "4", key: "2+2"}
            yield f"{key} {thinking}", [user, thought, again, thought], {"enable_thinking": thinking}
    inside = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nanswer"}
    yield "reasoning inside", [user, inside, again], {}
    yield "reasoning inside, last", [user, inside], {"add_generation_prompt": False}
    result = {"role": "tool", "content": "{\"t\": 21}", "name": "get_weather",
              "tool_call_id": "call00001"}
    for text in (False, True):
        call = with_text_arguments(CALL) if text else CALL
        for content in (None, "", "Let me look."):
            calls = {"role": "assistant", "content": content, "tool_calls": [call]}
            end = {"role": "assistant", "content": "21 degrees."}
            name = f"tools {'text' if text else 'object'} {content}"
            yield name, [user, calls, result, end], {"tools": TOOLS}
            yield name + ", asks", [system, user, calls, result], {"tools": TOOLS}
        two = {"role": "assistant", "content": "", "tool_calls": [call, call]}
        yield f"two calls {text}", [user, two, result, result], {"tools": TOOLS}
        bare = {"role": "assistant", "tool_calls": [call]}
        yield f"no content {text}", [user, bare, result], {"tools": TOOLS}
    yield "tools, no call", [system, user], {"tools": TOOLS}
    yield "documents", [user], {"documents": [{"title": "A", "text": "B", "doc_id": 1}]}
    yield "effort", [user, hello, again], {"reasoning_effort": "high", "date_string": "1 Jan 2025"}


def template_cases(folder):
    for path in sorted(folder.glob("*.jinja")):
        for name, messages, more in conversations():
            variables = {"messages": messages, "tools": None, "documents": None, "bos_token": "<s>",
                         "eos_token": "</s>", "add_generation_prompt": True, **more}
            yield f"{path.stem}: {name}", [path.stem], variables, None


def write(out, cases, templates):
    rows, generators = [], 0
    for name, template, variables, theirs in cases:
        text = templates[template[0]] if isinstance(template, list) else template
        expected = rendering(text, variables)
        if expected is GENERATOR:
            generators += 1
            if theirs is None:
                continue
            expected = theirs
        if theirs is not None and theirs != expected:
            print(f"{out.name}: '{name}': jinja2 renders {expected!r:.120}, not {theirs!r:.120}")
        rows.append({"name": name, "template": template, "variables": variables,
                     "expected": expected, "theirs": theirs})
    out.write_text(json.dumps({"templates": templates, "cases": rows}))
    refused = sum(row["expected"] is None for row in rows)
    print(f"{out.name}: {len(rows)} cases, of which jinja2 refuses {refused}; {generators} use "
          "a generator as a list")


def main():
    llama, script, out = (pathlib.Path(arg) for arg in sys.argv[1:4])
    out.mkdir(parents=True, exist_ok=True)
    templates = {p.stem: p.read_bytes().decode() for p in (llama / "models/templates").glob("*.jinja")}
    write(out / "llama_cpp_engine.json", engine_cases(llama / "tests/test-jinja.cpp"), {})
    write(out / "llama_cpp_templates.json",
          legacy_cases(llama / "tests/test-chat-template.cpp"), {})
    write(out / "huggingface_js.json", script_cases(script), {})
    write(out / "published.json", template_cases(llama / "models/templates"), templates)


if __name__ == "__main__":
    main()
