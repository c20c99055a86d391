#include "bench/support/prepared.hpp"

#include <vector>

#include "clora/runtime/error.hpp"

namespace clora::bench {
namespace {

std::vector<void (*)()>& families() {
  static std::vector<void (*)()> all;
  return all;
}

struct Slot {
  std::string name;
  std::unique_ptr<Prepared> bench;
};
Slot& slot() {
  static Slot one;
  return one;
}

void run(benchmark::State& state, const std::string& name, const Prepare& prepare) {
  try {
    if (slot().name != name || slot().bench == nullptr) {
      drop_prepared();  // frees memory for the next one
      slot() = {name, prepare()};
    }
    slot().bench->time(state);
  } catch (const Error& error) {
    state.SkipWithError(error.what());
  }
}

}  // namespace

bool add_family(void (*add_benches)()) {
  families().push_back(add_benches);
  return true;
}

void register_families() {
  for (const auto& add_benches : families()) add_benches();
}

void drop_prepared() { slot() = {}; }

void add_prepared(const std::string& name, Prepare prepare) {
  benchmark::RegisterBenchmark(
      name.c_str(), [name, prepare](benchmark::State& state) { run(state, name, prepare); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace clora::bench
