// Tables of alternative implementations of the same work, which alternate in one run, so a
// disturbance of the machine affects all of them.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace clora::bench {

// run() does the work and waits for the device; right() returns whether the result is correct.
struct Way {
  std::string name;
  std::function<void()> run;
  std::function<bool()> right;
};

// A table of ways; each is reported by the bench of its name.
class TurnsTable {
 public:
  using Make = std::function<std::vector<Way>()>;
  // make() is called for each run; its result owns everything that the ways need. per_run: the
  // number of parts in a run, 256 for 256 launches.
  TurnsTable(int rounds, double per_run, Make make)
      : rounds_(rounds), per_run_(per_run), make_(std::move(make)) {}

  // Registers the bench that reports the way of this name. Its n-th repetition reports the n-th run
  // of the entire table, by the median round. Counters: median_us and best_us per part; ratio,
  // relative to the median of the table's first way.
  void add(const std::string& name);

 private:
  struct Times {
    std::vector<double> seconds;
    bool wrong = false;
  };
  using Run = std::map<std::string, Times>;

  Run take_turns();
  void report(benchmark::State& state, const std::string& name);

  int rounds_;
  double per_run_;
  Make make_;
  std::string first_;
  std::vector<Run> runs_;
  std::map<std::string, std::size_t> reported_;
};

}  // namespace clora::bench
