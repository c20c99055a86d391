"""Malformed requests, by a seed: bodies whose JSON has wrong values, bytes that are wrong, and
heads that are not those of HTTP."""
import json
import random

PATHS = ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize",
         "/v1/load_lora_adapter", "/v1/unload_lora_adapter")
COMPLETION = {"model": "base", "prompt": "the llo", "max_tokens": 2}
CHAT = {"model": "one", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
FIELDS = ("model", "prompt", "messages", "max_tokens", "temperature", "top_p", "top_k", "min_p",
          "seed", "n", "stop", "stream", "stream_options", "logprobs", "top_logprobs", "logit_bias",
          "response_format", "tools", "tool_choice", "adapters", "echo", "best_of", "input",
          "pooling", "lora_name", "lora_path", "tokens", "ignore_eos", "presence_penalty", "typo")
VALUES = (None, True, -1, 2 ** 63, -2 ** 63, 10 ** 40, 1.5, float("1e308"), "", "x", "\u0000",
          "\ud800", "../../etc/passwd", "x" * 20000, [], [[]], [None], [-1], [2 ** 31], {}, {"": 0},
          {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}},
          {"type": "json_schema", "json_schema": {"schema": {"pattern": "(a*)*b"}}},
          {"name": "one", "scale": 1e39}, [{"name": "one"}] * 9, {"999999999": 5}, {"a": "b"})
HEADS = (
    b"POST {} HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{{}}",
    b"POST {} HTTP/1.1\r\nContent-Length: -1\r\n\r\n{{}}",
    b"POST {} HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n{{}}",
    b"POST {} HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nzz\r\n",
    b"POST {} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
    b"POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 200-maybe\r\n\r\n{{}}",
    b"POST {} HTTP/9.9\r\n\r\n", b"post {} http/1.1\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02",
    b"POST {} HTTP/1.1\r\nA\x00B: c\r\nContent-Length: 2\r\n\r\n{{}}",
    b"POST {} HTTP/1.1\r\n" + b"A: b\r\n" * 3000 + b"\r\n",
    b"DELETE {} HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}", b"\r\n" * 50,
    b"POST {}%00%ff/../.. HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}")


def wrong_values(generator):
    """The bytes of a body of valid JSON, with one to three fields that have wrong values."""
    body = dict(generator.choice((COMPLETION, CHAT)))
    for _ in range(generator.randint(1, 3)):
        body[generator.choice(FIELDS)] = generator.choice(VALUES)
    return json.dumps(body, ensure_ascii=generator.random() < 0.5).encode("utf-8", "surrogatepass")


def wrong_bytes(generator):
    body = bytearray(json.dumps(generator.choice((COMPLETION, CHAT))).encode())
    for _ in range(generator.randint(1, 5)):
        body[generator.randrange(len(body))] = generator.randrange(256)
    return bytes(body[:generator.randint(1, len(body))])


def with_head(path, body, generator):
    """The body after a valid head; sometimes the head promises more than arrives."""
    missing = generator.choice((0, 0, 0, 1, 1000))
    return (f"POST {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
            f"Content-Length: {len(body) + missing}\r\n\r\n").encode() + body


def request(number):
    """The bytes of a connection to the server; the same for the same number."""
    generator = random.Random(number)
    path = generator.choice(PATHS[:2] if generator.random() < 0.7 else PATHS)
    kind = number % 3
    if kind == 2:
        head = bytearray(generator.choice(HEADS).replace(b"{{}}", b"{}", 1)
                         .replace(b"{}", path.encode(), 1))
        if generator.random() < 0.3:
            head[generator.randrange(len(head))] = generator.randrange(256)
        return bytes(head)
    body = wrong_values(generator) if kind == 0 else wrong_bytes(generator)
    return with_head(path, body, generator)
