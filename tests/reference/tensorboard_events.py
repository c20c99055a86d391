#!/usr/bin/env python3
"""Compares the event files of a run with its log, read by TensorBoard's own reader.

    pip install tensorboard==2.21.0 'setuptools<80'
    tests/reference/tensorboard_events.py RUN

RUN is a folder that `clora train --tensorboard` wrote. Every number of a step and of an evaluation
in log.jsonl must be a scalar with the same step and value (in f32), and there must be no other.
Checked with tensorboard 2.21.0 and protobuf 7.36.2.
"""
import json
import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

PREFIXES = {"step": "train", "eval": "eval"}


def numbers(event):
    for key, value in event.items():
        if key in ("event", "step", "seconds"):
            continue
        for name, number in value.items() if isinstance(value, dict) else [(None, value)]:
            if isinstance(number, (int, float)):
                yield key if name is None else f"{key}/{name}", number


def main(run):
    accumulator = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    accumulator.Reload()
    found = {(tag, event.step): event.value for tag in accumulator.Tags()["scalars"]
             if tag.split("/")[0] in PREFIXES.values() for event in accumulator.Scalars(tag)}
    wanted = {}
    for line in (run / "log.jsonl").read_text().splitlines():
        event = json.loads(line)
        if prefix := PREFIXES.get(event["event"]):
            for name, number in numbers(event):
                wanted[f"{prefix}/{name}", event["step"]] = number
    missing = wanted.keys() ^ found.keys()
    wrong = [key for key in wanted.keys() & found.keys()
             if abs(found[key] - wanted[key]) > 1e-6 * abs(wanted[key])]
    print(f"{len(wanted)} numbers, {len(missing)} missing or too many, {len(wrong)} wrong")
    return 1 if missing or wrong or not wanted else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
