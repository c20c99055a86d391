"""Tests bench/serving: replies with known times, a server that answers as asked, and adapter files.
CLORA_SOURCE_DIR names the repository."""
import contextlib
import http.server
import json
import os
import pathlib
import struct
import sys
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path[:0] = [str(SOURCE / "bench/serving"), str(SOURCE / "bench/peers")]
sys.dont_write_bytecode = True

import adapter_files  # noqa: E402
import exchanges  # noqa: E402
import llamacpp_server  # noqa: E402
import load_client  # noqa: E402
import load_figures  # noqa: E402
import streamed_reply  # noqa: E402

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(text="", reason=None, usage=None):
    body = {"choices": [] if usage else [{"text": text, "finish_reason": reason}]}
    return f"data: {json.dumps(body | ({'usage': usage} if usage else {}))}\n\n".encode()


def usage_of(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def exchange(*arrivals, sent_s=1.0):
    return exchanges.Exchange(b"", sent_s=sent_s, arrivals=list(arrivals))


END = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Replies(unittest.TestCase):
    def complete(self):
        """First text after 0.5 s, then after 0.1 and 0.3 s; the last token without a text."""
        return exchange((1.2, HEAD), (1.5, chunk(event("a"))), (1.6, chunk(event("b"))),
                        (1.9, chunk(event("c"))), (2.0, chunk(event("", "length"))),
                        (2.5, chunk(event(usage=usage_of(7, 4))) + END))

    def test_times_are_those_of_events_with_text(self):
        reply = streamed_reply.parse(self.complete(), 7, 4)
        self.assertEqual(reply.error, "")
        self.assertEqual(reply.text, "abc")
        self.assertAlmostEqual(reply.ttft_s, 0.5)
        self.assertAlmostEqual(reply.latency_s, 1.0)
        self.assertAlmostEqual(reply.tpot_s, 0.5 / 3)
        self.assertEqual([round(itl, 6) for itl in reply.itl_s], [0.1, 0.3])

    def test_an_event_has_the_time_of_its_last_byte(self):
        first = chunk(event("a"))
        rest = chunk(event("b", "stop")) + chunk(event(usage=usage_of(1, 2))) + END
        reply = streamed_reply.parse(exchange((1.1, HEAD + first[:9]), (1.4, first[9:] + rest[:20]),
                                              (1.7, rest[20:])))
        self.assertEqual(reply.error, "")
        self.assertEqual(reply.text_times, [1.4, 1.7])

    def test_other_counts_than_wanted_are_an_error(self):
        self.assertIn("8 prompt tokens", streamed_reply.parse(self.complete(), 8, 4).error)
        self.assertIn("5 completion tokens", streamed_reply.parse(self.complete(), 7, 5).error)

    def test_what_is_cut_off_or_refused_is_an_error(self):
        for arrivals, part in (
                ([], "without an answer"),
                ([(1.0, HEAD + chunk(event("a")))], "cut off"),
                ([(1.0, HEAD + chunk(event("a", "stop")) + b"0\r\n\r\n")], "[DONE]"),
                ([(1.0, HEAD + chunk(event("a")) + END)], "finish reason"),
                ([(1.0, HEAD + chunk(event("", "stop")) + END)], "no text"),
                ([(1.0, HEAD + chunk(b"data: {}}\n\n") + END)], "OpenAI's form"),
                ([(1.0, HEAD + chunk(b'data: {"error": {"message": "lost"}}\n\n') + END)], "lost"),
                ([(1.0, b"HTTP/1.1 429 Slow\r\nContent-Length: 2\r\n\r\n{}")], "status 429")):
            self.assertIn(part, streamed_reply.parse(exchange(*arrivals)).error)


class Figures(unittest.TestCase):
    def reply(self, times, tokens, error=""):
        return streamed_reply.Reply(sent_s=0, text_times=times, last_s=times[-1], input_tokens=10,
                                    output_tokens=tokens, error=error)

    def test_they_are_those_of_vllm(self):
        replies = [self.reply([0.1, 0.2, 0.4], 3), self.reply([0.3], 1),
                   self.reply([9.0], 50, "status 500")]
        figures = load_figures.figures_of(replies, 2.0)
        self.assertEqual((figures["completed"], figures["failed"]), (2, 1))
        self.assertEqual(figures["total_input_tokens"], 20)
        self.assertEqual(figures["output_throughput"], 2.0)
        self.assertEqual(figures["request_throughput"], 1.0)
        self.assertAlmostEqual(figures["mean_ttft_ms"], 200)
        self.assertAlmostEqual(figures["mean_tpot_ms"], 150)  # a reply of one token has none
        self.assertAlmostEqual(figures["mean_itl_ms"], 150)
        self.assertAlmostEqual(figures["p99_itl_ms"], 199)
        text = load_figures.text_of(figures)
        self.assertIn("Mean TPOT (ms):                          150.00", text)
        self.assertIn("Successful requests:                     2 ", text)

    def test_percentiles_are_interpolated(self):
        self.assertEqual(load_figures.percentile([3, 1, 2], 50), 2)
        self.assertAlmostEqual(load_figures.percentile(list(range(101)), 99), 99)
        self.assertEqual(load_figures.percentile([5], 99), 5)

    def test_no_complete_reply_gives_zeros(self):
        figures = load_figures.figures_of([self.reply([1.0], 1, "lost")], 1.0)
        self.assertEqual((figures["completed"], figures["mean_ttft_ms"]), (0, 0))


class Loads(unittest.TestCase):
    def test_everything_follows_from_the_seed(self):
        load = load_client.Load(prompts=5, request_rate=2, seed=3)
        self.assertEqual(load_client.arrivals(load), load_client.arrivals(load))
        self.assertEqual(list(load_client.bodies(load)), list(load_client.bodies(load)))
        other = load_client.Load(prompts=5, request_rate=2, seed=4)
        self.assertNotEqual(load_client.arrivals(load), load_client.arrivals(other))
        self.assertNotEqual(list(load_client.bodies(load)), list(load_client.bodies(other)))

    def test_arrivals_have_the_rate_of_a_poisson_process(self):
        times = load_client.arrivals(load_client.Load(prompts=20001, request_rate=4))
        gaps = [after - before for before, after in zip(times, times[1:])]
        self.assertAlmostEqual(times[-1] / 20000, 0.25, delta=0.01)
        self.assertAlmostEqual(sum(gap > 0.25 for gap in gaps) / 20000, 0.368, delta=0.02)  # 1 / e
        self.assertEqual(set(load_client.arrivals(load_client.Load())), {0.0})

    def test_models_and_fields_come_in_turn(self):
        bodies = list(load_client.bodies(load_client.Load(
            prompts=4, input_tokens=3, models=("a", "b"), fields=({"lora": 0}, {"lora": 1}))))
        self.assertEqual([body["model"] for body in bodies], ["a", "b", "a", "b"])
        self.assertEqual([body["lora"] for body in bodies], [0, 1, 0, 1])
        self.assertEqual({len(body["prompt"]) for body in bodies}, {3})


class Answers(http.server.BaseHTTPRequestHandler):
    """Streams as many tokens as are wanted, 10 ms each; the model "broken" gets status 500."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["model"] == "broken":
            self.send_error(500)
            return
        with self.server.counted():
            self.wfile.write(HEAD)
            for number in range(body["max_tokens"]):
                time.sleep(0.01)
                last = number == body["max_tokens"] - 1
                self.wfile.write(chunk(event("x", "length" if last else None)))
        usage = usage_of(len(body["prompt"]), body["max_tokens"])
        self.wfile.write(chunk(event(usage=usage)) + END)


class AnswerServer(http.server.ThreadingHTTPServer):
    """Counts the most requests that it answered at once."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.lock, self.at_once, self.most = threading.Lock(), 0, 0

    @contextlib.contextmanager
    def counted(self):
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        try:
            yield
        finally:
            with self.lock:
                self.at_once -= 1

    def handle_error(self, *_):
        pass  # a client that leaves


class Runs(unittest.TestCase):
    def setUp(self):
        self.server = AnswerServer()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def test_clients_send_one_request_after_another(self):
        replies, figures = load_client.run(self.url, load_client.Load(
            prompts=9, input_tokens=4, output_tokens=5, models=("good",), concurrency=3))
        self.assertEqual((figures["completed"], figures["failed"]), (9, 0))
        self.assertEqual(figures["total_output_tokens"], 45)
        self.assertEqual({reply.text for reply in replies}, {"xxxxx"})
        self.assertEqual(self.server.most, 3)
        self.assertGreater(figures["median_itl_ms"], 5)
        self.assertGreater(figures["duration"], 3 * 5 * 0.01)

    def test_requests_arrive_when_they_are_due(self):
        load = load_client.Load(prompts=6, input_tokens=4, output_tokens=1, models=("good",),
                                request_rate=40)
        replies, _ = load_client.run(self.url, load)
        for reply, due in zip(replies, load_client.arrivals(load)):
            self.assertGreaterEqual(reply.sent_s, due)

    def test_failures_are_counted_and_named(self):
        replies, figures = load_client.run(self.url, load_client.Load(
            prompts=4, input_tokens=4, output_tokens=2, models=("good", "broken")))
        self.assertEqual((figures["completed"], figures["failed"]), (2, 2))
        self.assertIn("status 500", replies[1].error)

    def test_a_server_that_is_not_there_is_a_failure(self):
        self.server.server_close()
        _, figures = load_client.run(self.url, load_client.Load(prompts=2, models=("good",)))
        self.assertEqual(figures["failed"], 2)

    def test_a_reply_that_does_not_end_is_ended(self):
        replies, _ = load_client.run(self.url, load_client.Load(
            prompts=1, output_tokens=1000, models=("good",), timeout_s=0.2))
        self.assertIn("no end within 0.2 s", replies[0].error)


class AdapterFiles(unittest.TestCase):
    base = adapter_files.Base(2, 2, 1, {"attn_q": (8, 6), "ffn_down": (6, 10)})

    def test_rows_of_a_head_are_interleaved(self):
        rows = bytes(range(8))
        self.assertEqual(list(adapter_files.interleaved(rows, 2, 1)), [0, 2, 1, 3, 4, 6, 5, 7])

    def test_both_files_have_the_same_values(self):
        pairs = adapter_files.pairs_of(self.base, 2, 0)
        self.assertEqual(pairs, adapter_files.pairs_of(self.base, 2, 0))
        self.assertNotEqual(pairs, adapter_files.pairs_of(self.base, 2, 1))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "adapter.gguf"
            adapter_files.write_gguf(file, pairs, self.base, 2, 4.0)
            adapter_files.write_peft(pathlib.Path(folder) / "peft", pairs, 2, 4.0)
            gguf = file.read_bytes()
            peft = (pathlib.Path(folder) / "peft/adapter_model.safetensors").read_bytes()
        size, = struct.unpack_from("<Q", peft)
        header = json.loads(peft[8:8 + size])
        self.assertEqual(len(header), 8)
        name = "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"
        at, end = header[name]["data_offsets"]
        self.assertEqual(peft[8 + size:][at:end], pairs[3].b)
        self.assertEqual(gguf[:8], b"GGUF\x03\0\0\0")
        for pair in pairs:
            self.assertIn(pair.a, gguf)
        self.assertIn(pairs[3].b, gguf)
        self.assertIn(adapter_files.interleaved(pairs[0].b, 2, 8), gguf)


class Comparison(unittest.TestCase):
    def test_ratios_say_by_how_much_clora_is_better(self):
        runs = [{"workload": "one-adapter", "contender": name, "figures":
                 {"output_throughput": rate, "median_ttft_ms": 10, "median_tpot_ms": tpot,
                  "p99_itl_ms": 1}}
                for name, rate, tpot in (("clora", 300, 20), ("llama.cpp", 100, 50))]
        text = llamacpp_server.table(runs, {"one-adapter": [0.5]})
        self.assertIn("| one-adapter | output tokens/s | 300.0 (300.0 to 300.0) "
                      "| 100.0 (100.0 to 100.0) | 3.00x |", text)
        self.assertIn("| median TPOT, ms | 20.0 (20.0 to 20.0) | 50.0 (50.0 to 50.0) | 2.50x |",
                      text)

    def test_replies_are_alike_until_they_differ(self):
        self.assertEqual(llamacpp_server.alike(["abcd", "same"], ["abxd", "same"]), 0.75)


if __name__ == "__main__":
    unittest.main()
