"""The figures of a load run, defined as in vLLM's `vllm bench serve` and printed in its form:

  TTFT  time to first token: from sending a request to the first event with text
  TPOT  time per output token: (latency - TTFT) / (output tokens - 1) of a reply
  ITL   inter-token latency: the time between two events with text; all replies together

An event may have several tokens (speculation) or none (part of a character), so ITL is of events,
as it is there. Throughputs are sums over complete replies divided by the time from the first
request to the end of the last reply.
"""

import statistics


def percentile(values, percent):
    """With linear interpolation between the closest ranks."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _spread(name, seconds):
    ms = [value * 1e3 for value in seconds] or [0.0]
    return {f"mean_{name}_ms": statistics.fmean(ms), f"median_{name}_ms": statistics.median(ms),
            f"std_{name}_ms": statistics.pstdev(ms), f"p99_{name}_ms": percentile(ms, 99)}


def figures_of(replies, duration_s):
    """{name: figure} with the names of vLLM's JSON."""
    complete = [reply for reply in replies if not reply.error]
    inputs = sum(reply.input_tokens for reply in complete)
    outputs = sum(reply.output_tokens for reply in complete)
    tpots = [reply.tpot_s for reply in complete if reply.tpot_s is not None]
    return {"duration": duration_s, "completed": len(complete),
            "failed": len(replies) - len(complete),
            "total_input_tokens": inputs, "total_output_tokens": outputs,
            "request_throughput": len(complete) / duration_s,
            "output_throughput": outputs / duration_s,
            "total_token_throughput": (inputs + outputs) / duration_s,
            **_spread("ttft", [reply.ttft_s for reply in complete]),
            **_spread("tpot", tpots),
            **_spread("itl", [itl for reply in complete for itl in reply.itl_s])}


COUNTS = (("Successful requests:", "completed"), ("Failed requests:", "failed"),
          ("Benchmark duration (s):", "duration"), ("Total input tokens:", "total_input_tokens"),
          ("Total generated tokens:", "total_output_tokens"),
          ("Request throughput (req/s):", "request_throughput"),
          ("Output token throughput (tok/s):", "output_throughput"),
          ("Total token throughput (tok/s):", "total_token_throughput"))
TIMES = (("Time to First Token", "ttft"), ("Time per Output Token (excl. 1st token)", "tpot"),
         ("Inter-token Latency", "itl"))


def _line(label, value):
    return f"{label:<40} {value:<10}" if isinstance(value, int) else f"{label:<40} {value:<10.2f}"


def text_of(figures):
    lines = [f"{' Serving Benchmark Result ':=^50}"]
    lines += [_line(label, figures[name]) for label, name in COUNTS]
    for title, name in TIMES:
        lines.append(f"{title:-^50}")
        lines += [_line(f"{which} {name.upper()} (ms):", figures[f"{which.lower()}_{name}_ms"])
                  for which in ("Mean", "Median", "P99")]
    return "\n".join([*lines, "=" * 50])
