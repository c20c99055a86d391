#!/usr/bin/env python3
"""Writes the text-to-SQL data: train.jsonl, valid.jsonl and test.jsonl, the same bytes each run.

A record is {"prompt": schema and question, "completion": the SQL}. Entire tables are held out: no
table of the validation or test questions occurs in training (tables.py lists them). Before writing,
every query is prepared by SQLite against the schema in its prompt, and no prompt and no (tables,
columns, form) of a held-out record may occur in training.
"""

import argparse
import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from questions import JOIN_FORMS, SINGLE_FORMS, Draft
from tables import TEST, TRAIN, VALID, Numbers, Table

# Forms are dealt from shuffled decks: records 1-20, 21-40, ... of a file each have this mix.
DECK = ("filter_equal", "filter_compare", "filter_between", "filter_like", "filter_and",
        "filter_or", "count", "count_distinct", "aggregate", "top", "top", "sort", "group",
        "group", "having", "having", "join_pair", "join_pair", "join_filter", "join_filter")
SPLITS = {"train": TRAIN, "valid": VALID, "test": TEST}
COUNTS = {"train": 1200, "valid": 100, "test": 100}
UNUSED_COLUMNS = 2  # shown in addition to the columns of the question, if available


@dataclass(frozen=True)
class Record:
    form: str
    columns: frozenset[tuple[str, str]]  # (table, column) of all columns in the query
    schema: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # (table, ((column, type), ...))
    question: str
    sql: str
    key: str = ""  # for two tables: the column of the first that references the id of the second

    def prompt(self) -> str:
        lines = [f"{table}({','.join(name for name, _ in columns)})"
                 for table, columns in self.schema]
        if self.key:
            lines.append(f"join {self.schema[0][0]}.{self.key} = {self.schema[1][0]}.id")
        return "\n".join((*lines, f"Question: {self.question}", "SQL:"))

    def line(self) -> str:
        return json.dumps({"prompt": self.prompt(), "completion": f" {self.sql}"})


def shown(rng: Random, table: Table, draft: Draft) -> tuple:
    """The table with the columns of the question and a few others, in the table's order."""
    used = draft.used[table.name]
    others = [name for name in table.columns if name not in used]
    others = set(rng.sample(others, min(UNUSED_COLUMNS, len(others))))
    return table.name, tuple((name, "REAL" if isinstance(pool, Numbers) else "TEXT")
                             for name, pool in table.columns.items() if name in used | others)


def make_record(rng: Random, form: str, tables: tuple[Table, ...]) -> Record:
    """A record of the form about a random suitable table."""
    draft, key = None, ""
    while draft is None:
        if form in JOIN_FORMS:
            table = rng.choice([t for t in tables if t.parent])
            asked = (table, next(t for t in tables if t.name == table.parent))
            key = f"{asked[1].one}_id"
            draft = JOIN_FORMS[form](rng, *asked)
        else:
            asked = (rng.choice(tables),)
            draft = SINGLE_FORMS[form](rng, *asked)
    columns = frozenset((t, c) for t, used in draft.used.items() for c in used)
    schema = tuple(shown(rng, table, draft) for table in asked)
    return Record(form, columns, schema, draft.question, draft.sql, key)


def make_split(rng: Random, tables: tuple[Table, ...], count: int) -> list[Record]:
    """`count` records without repeated prompts, with forms dealt from the deck."""
    records, prompts, deck = [], set(), []
    while len(records) < count:
        if not deck:
            deck = rng.sample(DECK, len(DECK))
        record = make_record(rng, deck[-1], tables)
        if record.prompt() not in prompts:
            prompts.add(record.prompt())
            records.append(record)
            deck.pop()
    return records


def check_sql(record: Record) -> None:
    """Raises sqlite3.Error unless SQLite can prepare the query on the schema of the prompt."""
    with closing(sqlite3.connect(":memory:")) as database:
        for (table, columns), key in zip(record.schema, (record.key, "id")):
            parts = [" ".join(c) for c in columns] + ([f"{key} INTEGER"] if record.key else [])
            database.execute(f"CREATE TABLE {table} ({', '.join(parts)})")
        database.execute(f"EXPLAIN {record.sql}")


def check_held_out(train: list[Record], held_out: list[Record]) -> None:
    prompts = {r.prompt() for r in train}
    combinations = {(r.columns, r.form) for r in train}
    tables = {table for r in train for table, _ in r.schema}
    for record in held_out:
        if record.prompt() in prompts or (record.columns, record.form) in combinations:
            raise ValueError(f"held-out question is in the training set: {record.question}")
        if shared := tables & {table for table, _ in record.schema}:
            raise ValueError(f"held-out tables are in the training set: {sorted(shared)}")


def make_data_set(seed: int) -> dict[str, str]:
    """{file name: contents}, checked."""
    splits = {name: make_split(Random(f"{seed} {name}"), tables, COUNTS[name])
              for name, tables in SPLITS.items()}
    for records in splits.values():
        for record in records:
            check_sql(record)
    for name in ("valid", "test"):
        check_held_out(splits["train"], splits[name])
    return {f"{name}.jsonl": "".join(f"{r.line()}\n" for r in records)
            for name, records in splits.items()}


def main() -> int:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=here, metavar="DIR",
                        help="where the three files go (default: the folder of this script)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random questions (default 1)")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; exit with code 1 if a file in DIR would change")
    args = parser.parse_args()
    files = make_data_set(args.seed)
    if args.check:
        stale = [name for name, text in files.items() if not (args.out / name).is_file()
                 or (args.out / name).read_text(encoding="utf-8") != text]
        if stale:
            print(f"generate.py: {', '.join(stale)} in {args.out} differ from the output of seed "
                  f"{args.seed}; run generate.py to replace them", file=sys.stderr)
        return 1 if stale else 0
    args.out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (args.out / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"{args.out / name}: {text.count(chr(10))} records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
