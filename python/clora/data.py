"""Records for training: files, or anything iterable of dictionaries or texts.

The forms of records are those of files (docs/training.md): {"text"}, {"prompt", "completion"},
{"messages"}, {"conversations"}, {"instruction", "output"}; for preference losses {"prompt",
"chosen", "rejected"} or {"prompt", "completion", "label"}. A text alone is {"text": ...}. Records
that are tokens already have "input_ids" and, perhaps, "labels" (-100: not a target), as in
transformers. Rows of ``datasets`` are dictionaries, so a data set of that package needs nothing.
"""
from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Union

from . import _clora
from .errors import Error, ErrorCode, invalid
from .tokenizer import Tokenizer

Record = Union[str, Mapping[str, Any]]
Data = Union[str, "os.PathLike[str]", Iterable[Record]]

IGNORED_LABEL = -100


class Records:
    """The records of a data set as tokens, which do not change."""

    def __init__(self, records: _clora.Records) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Returns the arrays input_ids [n] and loss_mask [n] (1: the token is a target)."""
        ids, mask = self._records[index]
        return {"input_ids": ids, "loss_mask": mask}

    @property
    def tokens(self) -> int:
        """Tokens of all records."""
        return self._records.tokens

    @property
    def targets(self) -> int:
        """Tokens that count towards the loss."""
        return self._records.targets

    @property
    def truncated(self) -> int:
        """Records that were cut at max_seq_length."""
        return self._records.truncated

    @property
    def skipped(self) -> int:
        """Records without any target, which were left out."""
        return self._records.skipped

    def __repr__(self) -> str:
        return (f"clora.Records({len(self)} records, {self.tokens} tokens, "
                f"{self.targets} targets)")


def _object_of(record: Record, number: int) -> dict[str, Any]:
    if isinstance(record, str):
        return {"text": record}
    if isinstance(record, Mapping):
        return dict(record)
    raise invalid(f"data: a record is a dictionary or a text, got {type(record).__name__} as "
                  f"record {number}")


def _marked(record: Mapping[str, Any], max_seq_length: int) -> tuple[list[int], list[int]]:
    ids = [int(id) for id in record["input_ids"]][:max_seq_length]
    labels = record.get("labels")
    if labels is None:
        return ids, [0] + [1] * (len(ids) - 1)
    labels = [int(label) for label in labels][:max_seq_length]
    for id, label in zip(ids, labels):
        if label not in (id, IGNORED_LABEL):
            raise invalid(f"data: a label is its token or {IGNORED_LABEL}, got {label} for {id}")
    return ids, [int(label != IGNORED_LABEL) for label in labels]


def _of_tokens(records: Iterable[Record], max_seq_length: int, vocabulary: int) -> Records:
    all = [_marked(_object_of(record, number), max_seq_length)
           for number, record in enumerate(records, 1)]
    return Records(_clora.records_from_tokens(all, vocabulary))


def _default(value: Any) -> Any:
    """JSON of NumPy's scalars and arrays, which rows of data sets may have."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"data: a value of a record is no JSON: {type(value).__name__}")


def _write_lines(path: str, records: Iterator[Record]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for number, record in enumerate(records, 1):
            file.write(json.dumps(_object_of(record, number), default=_default,
                                  ensure_ascii=False))
            file.write("\n")


def _load(paths: list[tuple[str, float]], tokenizer: Tokenizer,
          settings: dict[str, Any]) -> Records:
    return Records(_clora.load_records(paths, tokenizer._text, **settings))


def load_records(data: Data, tokenizer: Tokenizer, *, max_seq_length: int = 512, limit: int = 0,
                 apply_chat_template: bool = False, preference: str = "",
                 max_positions: int = 0) -> Records:
    """Reads records and turns them into tokens.

    data: a file (JSON lines, also compressed) or an iterable of dictionaries or texts; a generator
        is read once, and the records need not fit into memory.
    max_seq_length: in tokens; longer records are cut.
    limit: the most records to read; 0: all.
    apply_chat_template: a prompt and its completion become a user's and an assistant's turn.
    preference: "pairs" or "labelled", for records of a preference loss.
    """
    settings = {"max_seq_length": max_seq_length, "limit": limit, "preference": preference,
                "apply_chat_template": apply_chat_template, "max_positions": max_positions}
    if isinstance(data, (str, os.PathLike)):
        return _load([(os.fspath(data), 1.0)], tokenizer, settings)
    records: Iterator[Record] = iter(data)
    first = next(records, None)
    if first is None:
        raise Error("data: the data set has no records", ErrorCode.INVALID_DATA)
    records = itertools.chain([first], records)
    if limit:
        records = itertools.islice(records, limit)
    if isinstance(first, Mapping) and "input_ids" in first:
        return _of_tokens(records, max_seq_length, tokenizer.vocab_size)
    with tempfile.TemporaryDirectory(prefix="clora-") as folder:
        path = os.path.join(folder, "data.jsonl")
        _write_lines(path, records)
        try:
            return _load([(path, 1.0)], tokenizer, settings)
        except Error as error:  # the name of the file means nothing to the caller
            message = str(error).replace(f"{path}: line ", "data: record ").replace(path, "data")
            raise type(error)(message, error.code, error.opencl_status) from None
