"""The parts of tools/bench_report: what is run (groups, contenders, rounds, growth), what is asked
of it (targets), and what is made of it (figures, tables, charts). Python's own library alone."""
