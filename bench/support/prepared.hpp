// Registering benches. What a bench needs before it can be timed (buffers, a recording, a loaded
// model, the check of its result) is made once, although Google Benchmark calls it several times to
// find how often to repeat it; it goes when another bench's turn comes.
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
  // Times by hand (State::SetIterationTime), or skips with a message.
  virtual void time(benchmark::State& state) = 0;
};
using Prepare = std::function<std::unique_ptr<Prepared>()>;

// What registers a file's benches, called once the device may be asked. True, so that a constant
// of the file can call it before main().
bool add_family(void (*add_benches)());
// For main().
void register_families();
void drop_prepared();

// A clora::Error in preparing or timing is a failure of this bench alone.
void add_prepared(const std::string& name, Prepare prepare);

}  // namespace clora::bench
