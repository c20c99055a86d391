// Registration of benches. Google Benchmark calls a bench several times to choose the number of
// repetitions, but its preparation (buffers, a recording, a loaded model, the check of its result)
// is done once and released when another bench runs.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>

namespace clora::bench {

// A bench that is ready to be timed.
class Prepared {
 public:
  virtual ~Prepared() = default;
  // Measures with manual time (State::SetIterationTime), or skips with a message.
  virtual void time(benchmark::State& state) = 0;
};
using Prepare = std::function<std::unique_ptr<Prepared>()>;

// Registers a function that adds the benches of a file; it is called once the device may be
// queried. Returns true, so a constant of the file can call it before main().
bool add_family(void (*add_benches)());
// Called by main().
void register_families();
void drop_prepared();

// A clora::Error in preparing or timing fails this bench only.
void add_prepared(const std::string& name, Prepare prepare);

}  // namespace clora::bench
