"""Question forms: each turns a table into one question in English and its one SQL query.

Every form is a function (rng, table) -> Draft or None; None if the table lacks the required
columns. The SQL is canonical, so exact match is a fair score:
  keywords in capitals, names as in the schema, no semicolon, COUNT(*) for rows;
  columns and conditions in the order of the question;
  text in single quotes as the question writes it, numbers bare;
  ASC or DESC always written; LIMIT 1 for a single row;
  bare columns with one table, TABLE.COLUMN for every column with two.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tables import Numbers, Table, Words


@dataclass
class Draft:
    """A question, its SQL, and the columns that it uses: {table name: {column, ...}}."""

    question: str
    sql: str
    used: dict[str, set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Condition:
    """One comparison: after "whose" (price is above 5), after "with" (price above 5), as SQL."""

    column: str
    clause: str
    phrase: str
    sql: str


COMPARISONS = (">", ">", "<", "<", ">=", "<=")
WORDS_OF = {
    ">": ("above", "over", "more than"),
    "<": ("below", "under", "less than"),
    ">=": ("at least",),
    "<=": ("at most",),
}
YEAR_WORDS_OF = {**WORDS_OF, ">": ("after",), "<": ("before",)}
AGGREGATES = {
    "AVG": ("average",),
    "MAX": ("highest", "maximum"),
    "MIN": ("lowest", "minimum"),
    "SUM": ("total",),
}
DIRECTIONS = {"DESC": "highest", "ASC": "lowest"}
YEAR_DIRECTIONS = {"DESC": "latest", "ASC": "earliest"}


# ---- Columns and values -------------------------------------------------------------------------


def spoken(column: str) -> str:
    return column.replace("_", " ")


def names(table: Table, wanted: Callable[[Words | Numbers], bool]) -> list[str]:
    return [name for name, pool in table.columns.items() if wanted(pool)]


def is_text(pool: Words | Numbers) -> bool:
    return isinstance(pool, Words)


def is_number(pool: Words | Numbers) -> bool:
    return isinstance(pool, Numbers)


def is_groupable(pool: Words | Numbers) -> bool:
    return isinstance(pool, Words) and pool.groups


def is_label(pool: Words | Numbers) -> bool:
    return isinstance(pool, Words) and not pool.groups


def is_measure(pool: Words | Numbers) -> bool:
    return isinstance(pool, Numbers) and not pool.year


def any_number(rng: Random, pool: Numbers) -> float:
    steps = round((pool.high - pool.low) / pool.step)
    value = pool.low + pool.step * rng.randint(0, steps)
    return int(value) if value == int(value) else value


def pick_columns(rng: Random, table: Table, most: int, known: set[str]) -> list[str]:
    """1 to `most` columns to show, none of which the question already fixes (`known`).

    Text columns are more likely, because people ask for them more often.
    """
    unknown = [c for c in table.columns if c not in known]
    text = [c for c in unknown if is_text(table.columns[c])]
    first = rng.choice(text if text and rng.random() < 0.7 else unknown)
    rest = [c for c in unknown if c != first]
    return [first] + (rng.sample(rest, 1) if most > 1 and rng.random() < 0.35 else [])


def listed(columns: list[str]) -> str:
    return " and ".join(spoken(c) for c in columns)


# ---- Conditions ---------------------------------------------------------------------------------


def equal(rng: Random, table: Table, column: str, prefix: str = "") -> Condition:
    pool = table.columns[column]
    value = rng.choice(pool.values) if is_text(pool) else any_number(rng, pool)
    literal = f"'{value}'" if is_text(pool) else f"{value}"
    name = spoken(column)
    return Condition(column, f"{name} is {value}", f"{name} {value}",
                     f"{prefix}{column} = {literal}")


def compare(rng: Random, table: Table, column: str, prefix: str = "") -> Condition:
    pool = table.columns[column]
    sign = rng.choice(COMPARISONS)
    words = rng.choice((YEAR_WORDS_OF if pool.year else WORDS_OF)[sign])
    name, value = spoken(column), any_number(rng, pool)
    return Condition(column, f"{name} is {words} {value}", f"{name} {words} {value}",
                     f"{prefix}{column} {sign} {value}")


def between(rng: Random, table: Table, column: str, prefix: str = "") -> Condition:
    pool = table.columns[column]
    low = high = any_number(rng, pool)
    while low == high:
        high = any_number(rng, pool)
    low, high = min(low, high), max(low, high)
    name, words = spoken(column), f"between {low} and {high}"
    return Condition(column, f"{name} is {words}", f"{name} {words}",
                     f"{prefix}{column} BETWEEN {low} AND {high}")


def like(rng: Random, table: Table, column: str, prefix: str = "") -> Condition:
    word = rng.choice(rng.choice(table.columns[column].values).split())
    name = spoken(column)
    verb, participle, pattern = rng.choice((
        ("contains", "containing", f"%{word}%"),
        ("starts with", "starting with", f"{word}%"),
    ))
    return Condition(column, f"{name} {verb} {word}", f"{name} {participle} {word}",
                     f"{prefix}{column} LIKE '{pattern}'")


def any_condition(rng: Random, table: Table, avoid: set[str], prefix: str = "") -> Condition:
    """An equality on text or a comparison on a number, on a column outside `avoid`."""
    column = rng.choice([c for c in table.columns if c not in avoid])
    make = equal if is_text(table.columns[column]) else compare
    return make(rng, table, column, prefix)


def text_of(rng: Random, *conditions: Condition, joiner: str = "and") -> str:
    """The conditions after a noun: "whose price is above 5 and ..." or "with price above 5 ..."."""
    if rng.random() < 0.5:
        return "whose " + f" {joiner} ".join(c.clause for c in conditions)
    return "with " + f" {joiner} ".join(c.phrase for c in conditions)


def maybe_where(rng: Random, table: Table, avoid: set[str], chance: float) -> tuple[str, str, set]:
    """(English, SQL, columns) of a condition, with probability `chance`; else all empty."""
    if rng.random() >= chance:
        return "", "", set()
    condition = any_condition(rng, table, avoid)
    return f" {text_of(rng, condition)}", f" WHERE {condition.sql}", {condition.column}


# ---- Forms: filters -----------------------------------------------------------------------------


def select_where(rng: Random, table: Table, conditions: list[Condition], joiner: str) -> Draft:
    conditions_text = text_of(rng, *conditions, joiner=joiner)
    where = f" {joiner.upper()} ".join(c.sql for c in conditions)
    used = {c.column for c in conditions}
    if rng.random() < 0.12:
        return Draft(f"Show all details of the {table.name} {conditions_text}.",
                     f"SELECT * FROM {table.name} WHERE {where}", {table.name: used})
    known = {c.column for c in conditions if " = " in c.sql}
    columns = pick_columns(rng, table, 2 if len(conditions) == 1 else 1, known)
    question = rng.choice((
        "List the {c} of {t} {w}.",
        "Show the {c} of all {t} {w}.",
        "What is the {c} of the {t} {w}?",
        "Find the {c} of every {o} {w}.",
    )).format(c=listed(columns), t=table.name, o=table.one, w=conditions_text)
    return Draft(question, f"SELECT {', '.join(columns)} FROM {table.name} WHERE {where}",
                 {table.name: used | set(columns)})


def filter_equal(rng: Random, table: Table) -> Draft:
    column = rng.choice(list(table.columns))
    return select_where(rng, table, [equal(rng, table, column)], "and")


def filter_compare(rng: Random, table: Table) -> Draft:
    column = rng.choice(names(table, is_number))
    return select_where(rng, table, [compare(rng, table, column)], "and")


def filter_between(rng: Random, table: Table) -> Draft:
    column = rng.choice(names(table, is_number))
    return select_where(rng, table, [between(rng, table, column)], "and")


def filter_like(rng: Random, table: Table) -> Draft:
    column = rng.choice(names(table, is_label) or names(table, is_text))
    return select_where(rng, table, [like(rng, table, column)], "and")


def two_conditions(rng: Random, table: Table, joiner: str) -> Draft:
    first = any_condition(rng, table, set())
    return select_where(rng, table, [first, any_condition(rng, table, {first.column})], joiner)


def filter_and(rng: Random, table: Table) -> Draft:
    return two_conditions(rng, table, "and")


def filter_or(rng: Random, table: Table) -> Draft:
    return two_conditions(rng, table, "or")


# ---- Forms: aggregates --------------------------------------------------------------------------


def count(rng: Random, table: Table) -> Draft:
    conditions = [any_condition(rng, table, set())]
    if rng.random() < 0.25:
        conditions.append(any_condition(rng, table, {conditions[0].column}))
    question = rng.choice((
        "How many {t} are there {w}?",
        "Count the {t} {w}.",
    )).format(t=table.name, w=text_of(rng, *conditions))
    where = " AND ".join(c.sql for c in conditions)
    return Draft(question, f"SELECT COUNT(*) FROM {table.name} WHERE {where}",
                 {table.name: {c.column for c in conditions}})


def count_distinct(rng: Random, table: Table) -> Draft:
    column = rng.choice(list(table.columns))
    where_text, where, used = maybe_where(rng, table, {column}, chance=0.3)
    question = rng.choice((
        "How many different {c} values are there for {t}{w}?",
        "Count the distinct {c} values of {t}{w}.",
    )).format(c=spoken(column), t=table.name, w=where_text)
    return Draft(question, f"SELECT COUNT(DISTINCT {column}) FROM {table.name}{where}",
                 {table.name: used | {column}})


def pick_aggregate(rng: Random, table: Table) -> tuple[str, str, str] | None:
    """(word, SQL function, column), such as ("average", "AVG", "price")."""
    columns = names(table, is_measure)
    if not columns:
        return None
    column = rng.choice(columns)
    functions = [f for f in AGGREGATES if f != "SUM" or table.columns[column].sums]
    function = rng.choice(functions)
    return rng.choice(AGGREGATES[function]), function, column


def aggregate(rng: Random, table: Table) -> Draft | None:
    picked = pick_aggregate(rng, table)
    if picked is None:
        return None
    word, function, column = picked
    where_text, where, used = maybe_where(rng, table, {column}, chance=0.6)
    question = rng.choice((
        "What is the {a} {c} of the {t}{w}?",
        "Find the {a} {c} of all {t}{w}.",
    )).format(a=word, c=spoken(column), t=table.name, w=where_text)
    return Draft(question, f"SELECT {function}({column}) FROM {table.name}{where}",
                 {table.name: used | {column}})


# ---- Forms: orderings ---------------------------------------------------------------------------


def pick_order(rng: Random, table: Table) -> tuple[str, str, str]:
    """(column, SQL direction, word), such as ("price", "DESC", "highest")."""
    column = rng.choice(names(table, is_number))
    directions = YEAR_DIRECTIONS if table.columns[column].year else DIRECTIONS
    direction = rng.choice(("DESC", "ASC"))
    return column, direction, directions[direction]


def top(rng: Random, table: Table) -> Draft:
    column, direction, word = pick_order(rng, table)
    where_text, where, used = maybe_where(rng, table, {column}, chance=0.25)
    columns = pick_columns(rng, table, 2, used | {column})
    limit = 1 if rng.random() < 0.25 else rng.randint(2, 12)
    whom = table.one if limit == 1 else f"{limit} {table.name}"
    verb = rng.choice(("List", "Show", "Give"))
    if where:
        verb = f"Among {table.name}{where_text}, {verb.lower()}"
    question = f"{verb} the {listed(columns)} of the {whom} with the {word} {spoken(column)}."
    return Draft(question, f"SELECT {', '.join(columns)} FROM {table.name}{where} "
                 f"ORDER BY {column} {direction} LIMIT {limit}",
                 {table.name: used | {column, *columns}})


def sort(rng: Random, table: Table) -> Draft:
    column = rng.choice(list(table.columns))
    columns = pick_columns(rng, table, 2, set())
    direction, word = rng.choice((("DESC", "descending"), ("ASC", "ascending")))
    order = rng.choice((f"in {word} order of {spoken(column)}",
                        f"sorted by {spoken(column)} in {word} order"))
    verb = rng.choice(("List", "Show"))
    return Draft(f"{verb} the {listed(columns)} of all {table.name} {order}.",
                 f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY {column} {direction}",
                 {table.name: {column, *columns}})


# ---- Forms: groups ------------------------------------------------------------------------------


def group(rng: Random, table: Table) -> Draft | None:
    """The number of rows, or an aggregate, for each value of a column."""
    groupable, picked = names(table, is_groupable), pick_aggregate(rng, table)
    if not groupable or picked is None:
        return None
    by = rng.choice(groupable)
    word, function, column = picked
    if rng.random() < 0.45:
        measure, used = "COUNT(*)", {by}
        question = rng.choice((
            "How many {t} are there for each {g}?",
            "For each {g}, count the {t}.",
        ))
    else:
        measure, used = f"{function}({column})", {by, column}
        question = rng.choice((
            "What is the {a} {c} of {t} for each {g}?",
            "For each {g}, find the {a} {c} of {t}.",
        ))
    question = question.format(t=table.name, g=spoken(by), a=word, c=spoken(column))
    return Draft(question, f"SELECT {by}, {measure} FROM {table.name} GROUP BY {by}",
                 {table.name: used})


def having(rng: Random, table: Table) -> Draft | None:
    """The values of a column whose number of rows, or aggregate, satisfies a bound."""
    groupable, picked = names(table, is_groupable), pick_aggregate(rng, table)
    if not groupable or picked is None:
        return None
    by, sign = rng.choice(groupable), rng.choice(COMPARISONS)
    word, function, column = picked
    if rng.random() < 0.45:
        measure, number, used = "COUNT(*)", rng.randint(2, 60), {by}
        words = {">": "more than", "<": "less than"}.get(sign) or WORDS_OF[sign][0]
        question = rng.choice(("Which {g} has {s} {n} {t}?", "List each {g} with {s} {n} {t}."))
    else:
        measure, used = f"{function}({column})", {by, column}
        number, words = any_number(rng, table.columns[column]), rng.choice(WORDS_OF[sign])
        question = rng.choice((
            "List each {g} where the {a} {c} of {t} is {s} {n}.",
            "For which {g} is the {a} {c} of {t} {s} {n}?",
        ))
    question = question.format(g=spoken(by), s=words, n=number, t=table.name, a=word,
                               c=spoken(column))
    return Draft(question, f"SELECT {by} FROM {table.name} GROUP BY {by} "
                 f"HAVING {measure} {sign} {number}", {table.name: used})


# ---- Forms: joins -------------------------------------------------------------------------------


def joined(table: Table, parent: Table) -> str:
    return (f"FROM {table.name} JOIN {parent.name} "
            f"ON {table.name}.{parent.one}_id = {parent.name}.id")


def join_pair(rng: Random, table: Table, parent: Table) -> Draft:
    """A column of each row together with a column of its parent."""
    mine, theirs = rng.choice(list(table.columns)), rng.choice(list(parent.columns))
    question = rng.choice((
        "List the {m} of each {o} and the {p} of its {po}.",
        "For each {o}, show the {m} and the {p} of its {po}.",
    )).format(m=spoken(mine), o=table.one, p=spoken(theirs), po=parent.one)
    return Draft(question, f"SELECT {table.name}.{mine}, {parent.name}.{theirs} "
                 f"{joined(table, parent)}", {table.name: {mine}, parent.name: {theirs}})


def join_filter(rng: Random, table: Table, parent: Table) -> Draft:
    """A column, a count or an aggregate of the rows whose parent satisfies a condition."""
    condition = any_condition(rng, parent, set(), prefix=f"{parent.name}.")
    whose = f"whose {parent.one} has {condition.phrase}"
    picked = pick_aggregate(rng, table)
    kind = rng.choice(("column", "count", "aggregate" if picked else "column"))
    if kind == "count":
        used, what = set(), "COUNT(*)"
        question = rng.choice((f"How many {table.name} are there {whose}?",
                               f"Count the {table.name} {whose}."))
    elif kind == "aggregate":
        word, function, column = picked
        used, what = {column}, f"{function}({table.name}.{column})"
        question = rng.choice((f"What is the {word} {spoken(column)} of {table.name} {whose}?",
                               f"Find the {word} {spoken(column)} of {table.name} {whose}."))
    else:
        column = pick_columns(rng, table, 1, set())[0]
        used, what = {column}, f"{table.name}.{column}"
        question = rng.choice((f"List the {spoken(column)} of {table.name} {whose}.",
                               f"Show the {spoken(column)} of all {table.name} {whose}."))
    return Draft(question, f"SELECT {what} {joined(table, parent)} WHERE {condition.sql}",
                 {table.name: used, parent.name: {condition.column}})


SINGLE_FORMS = {f.__name__: f for f in (
    filter_equal, filter_compare, filter_between, filter_like, filter_and, filter_or, count,
    count_distinct, aggregate, top, sort, group, having)}
JOIN_FORMS = {f.__name__: f for f in (join_pair, join_filter)}
