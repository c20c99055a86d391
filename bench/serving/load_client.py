#!/usr/bin/env python3
"""Sends completion requests to a server of OpenAI's API and measures the replies, which must all be
complete and of the given length. Uses Python's standard library only.

  bench/serving/load_client.py --url http://127.0.0.1:8080 --model base --prompts 64 --concurrency 8
  bench/serving/load_client.py --model sql --model tidy --request-rate 4     (adapters in turn)

Prompts are random token ids, and all of them, the arrivals and the order of the models follow from
the seed. --request-rate R: requests arrive as a Poisson process of R per second, whether earlier
ones have ended or not, and at most --concurrency run at once; without it, all arrive at the start:
with --concurrency N, N clients send one request after another. load_figures.py defines the figures.
"""

import argparse
import json
import random
import sys
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import exchanges  # noqa: E402
import load_figures  # noqa: E402
import streamed_reply  # noqa: E402


@dataclass(frozen=True)
class Load:
    prompts: int = 32              # requests
    input_tokens: int = 128
    output_tokens: int = 64
    models: tuple = ()             # names in turn; empty: requests without a model
    fields: tuple = ()             # more fields of the requests (dictionaries), in turn
    concurrency: int = 1 << 20     # requests at once
    request_rate: float = 0.0      # per second; 0: all at once
    seed: int = 0
    first_token: int = 1000        # prompts are of ids from here
    token_count: int = 20000       # to here
    timeout_s: float = 600.0
    headers: dict = field(default_factory=dict)


def arrivals(load):
    """The seconds after the start at which requests arrive."""
    generator = random.Random(f"arrivals {load.seed}")
    due, times = 0.0, []
    for _ in range(load.prompts):
        times.append(due)
        due += generator.expovariate(load.request_rate) if load.request_rate else 0.0
    return times


def bodies(load):
    """The request bodies, as dictionaries."""
    generator = random.Random(f"prompts {load.seed}")
    for number in range(load.prompts):
        prompt = [generator.randrange(load.first_token, load.first_token + load.token_count)
                  for _ in range(load.input_tokens)]
        body = {"prompt": prompt, "max_tokens": load.output_tokens, "temperature": 0,
                "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
        if load.models:
            body["model"] = load.models[number % len(load.models)]
        if load.fields:
            body.update(load.fields[number % len(load.fields)])
        yield body


def run(url, load):
    """Runs the load against the server at `url`. Returns its replies and the figures."""
    address = urllib.parse.urlsplit(url)
    host, port = address.hostname, address.port or 80
    path = address.path.rstrip("/") + "/v1/completions"
    made = [exchanges.Exchange(exchanges.post(host, port, path, json.dumps(body).encode(),
                                              load.headers), due_s=due)
            for body, due in zip(bodies(load), arrivals(load))]
    exchanges.run(host, port, made, load.concurrency, load.timeout_s)
    replies = [streamed_reply.parse(exchange, load.input_tokens, load.output_tokens)
               for exchange in made]
    duration = max(each.end_s for each in made) - min(each.sent_s for each in made)
    return replies, load_figures.figures_of(replies, max(duration, 1e-9))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--model", action="append", default=[], metavar="NAME",
                        help="model or adapter; several are used in turn")
    parser.add_argument("--fields", action="append", default=[], type=json.loads, metavar="JSON",
                        help="more fields of a request; several are used in turn")
    parser.add_argument("--prompts", type=int, default=32, help="requests (default 32)")
    parser.add_argument("--input-len", type=int, default=128, help="tokens of a prompt (128)")
    parser.add_argument("--output-len", type=int, default=64, help="tokens of a reply (64)")
    parser.add_argument("--concurrency", type=int, default=1 << 20, help="requests at once")
    parser.add_argument("--request-rate", type=float, default=0.0, metavar="PER_SECOND")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first-token", type=int, default=1000,
                        help="prompts are of token ids from here (1000)")
    parser.add_argument("--token-count", type=int, default=20000, help="and of as many (20000)")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a request (600)")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--json", metavar="FILE", help="write the figures; - for stdout only")
    return parser.parse_args()


def load_of(args):
    headers = {"Authorization": f"Bearer {args.api_key}"} if args.api_key else {}
    return Load(prompts=args.prompts, input_tokens=args.input_len, output_tokens=args.output_len,
                models=tuple(args.model), fields=tuple(args.fields), concurrency=args.concurrency,
                request_rate=args.request_rate, seed=args.seed, first_token=args.first_token,
                token_count=args.token_count, timeout_s=args.timeout, headers=headers)


def main():
    args = arguments()
    replies, figures = run(args.url, load_of(args))
    if args.json != "-":
        print(load_figures.text_of(figures))
    if args.json:
        text = json.dumps({**vars(args), "api_key": bool(args.api_key), **figures}, indent=1)
        sys.stdout.write(text + "\n") if args.json == "-" else Path(args.json).write_text(text)
    for error in sorted({reply.error for reply in replies if reply.error}):
        print(f"failed: {error}", file=sys.stderr)
    return 1 if figures["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
