"""The parts of tools/bench_report: the runs (groups, contenders, rounds, growth), the targets, and
the output (figures, tables, charts). Uses Python's standard library only."""
