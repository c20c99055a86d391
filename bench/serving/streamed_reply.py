"""Parses the reply to one streamed completion request: the times of its tokens, its counts, and
what is wrong with it. An event has the time at which its last byte arrived.
"""

import bisect
import json
from dataclasses import dataclass, field


class Malformed(Exception):
    """The answer is not what a server of OpenAI's API sends; the message is one line."""


@dataclass
class Reply:
    sent_s: float
    text_times: list = field(default_factory=list)  # of the events that have text
    last_s: float = 0.0                             # of the last event with a choice
    text: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    error: str = ""                                 # empty: the reply is complete

    @property
    def ttft_s(self):
        return self.text_times[0] - self.sent_s

    @property
    def latency_s(self):
        return self.last_s - self.sent_s

    @property
    def tpot_s(self):
        """Without the first token; None for a reply of one token."""
        if self.output_tokens < 2:
            return None
        return (self.latency_s - self.ttft_s) / (self.output_tokens - 1)

    @property
    def itl_s(self):
        return [after - before for before, after in zip(self.text_times, self.text_times[1:])]


def _head(data):
    """(status, header fields in lower case, size of the head)."""
    head, blank, _ = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if not blank or len(words) < 2 or not words[1].isdigit():
        raise Malformed("the connection ended without an answer")
    fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    return int(words[1]), fields, len(head) + 4


def _chunks(data, at):
    """(bytes, end in `data`) of each chunk of a chunked body."""
    while True:
        line = data.find(b"\r\n", at)
        if line < 0:
            raise Malformed("the stream was cut off")
        size = int(data[at:line].split(b";")[0], 16)
        if size == 0:
            return
        at = line + 2 + size + 2
        if at > len(data):
            raise Malformed("the stream was cut off")
        yield data[line + 2:at - 2], at


def _body(data):
    """(status, body, the ends of its parts, the ends of these parts in `data`)."""
    status, fields, at = _head(data)
    if "chunked" not in fields.get("transfer-encoding", ""):
        return status, data[at:], [len(data) - at], [len(data)]
    body, ends, raw_ends = b"", [], []
    for part, raw_end in _chunks(data, at):
        body += part
        ends.append(len(body))
        raw_ends.append(raw_end)
    return status, body, ends, raw_ends


class _Clock:
    """When the byte before a position of the body arrived."""

    def __init__(self, arrivals, ends, raw_ends):
        self.times, self.arrived, total = [], [], 0
        for time, part in arrivals:
            total += len(part)
            self.times.append(time)
            self.arrived.append(total)
        self.ends, self.raw_ends = ends, raw_ends

    def at(self, position):
        raw = self.raw_ends[bisect.bisect_left(self.ends, position)]
        return self.times[bisect.bisect_left(self.arrived, raw)]


def _events(body, clock):
    """(time, text after "data: ") of each event."""
    at = 0
    while (end := body.find(b"\n\n", at)) >= 0:
        for line in body[at:end].split(b"\n"):
            if line.startswith(b"data:"):
                yield clock.at(end + 2), line[5:].strip()
        at = end + 2


def _take(reply, time, event):
    if "error" in event:
        raise Malformed(f"error event: {event['error'].get('message', event['error'])}")
    usage = event.get("usage")
    if usage:
        reply.input_tokens = usage["prompt_tokens"]
        reply.output_tokens = usage["completion_tokens"]
    for choice in event.get("choices", []):
        reply.last_s = time
        if choice.get("text"):
            reply.text += choice["text"]
            reply.text_times.append(time)
        if choice.get("finish_reason"):
            return choice["finish_reason"]
    return None


def _read(reply, exchange):
    status, body, ends, raw_ends = _body(exchange.data)
    if status != 200:
        raise Malformed(f"status {status}: {body.decode(errors='replace')[:200]}")
    reason, done = None, False
    for time, text in _events(body, _Clock(exchange.arrivals, ends, raw_ends)):
        if text == b"[DONE]":
            done = True
        else:
            reason = _take(reply, time, json.loads(text)) or reason
    if not done or reason is None:
        raise Malformed("the stream ended without a finish reason or [DONE]")
    if not reply.text_times:
        raise Malformed("the reply has no text")


def parse(exchange, input_tokens=None, output_tokens=None):
    """The reply; with token counts given, a reply with others is wrong."""
    reply = Reply(sent_s=exchange.sent_s)
    try:
        if exchange.error:
            raise Malformed(exchange.error)
        _read(reply, exchange)
        for name, wanted, got in (("prompt", input_tokens, reply.input_tokens),
                                  ("completion", output_tokens, reply.output_tokens)):
            if wanted is not None and wanted != got:
                raise Malformed(f"{wanted} {name} tokens were wanted, the usage has {got}")
    except Malformed as error:
        reply.error = str(error)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reply.error = f"an event is not of OpenAI's form: {error!r}"
    return reply
