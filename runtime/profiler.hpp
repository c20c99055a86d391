// Profiler: device time by operation, from the events of a profiling queue, with the bytes and
// flops that each operation's cost function declares. Off unless ContextConfig::profile is set.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/opencl_handles.hpp"

namespace clora {

// What one launch moves and computes, from an op's xxx_cost().
struct Cost {
  double flops = 0;
  double bytes = 0;
};

struct OpTime {
  std::uint64_t count = 0;
  double seconds = 0;  // on the device, start to end
  Cost cost;           // summed
};

class Profiler {
 public:
  Profiler() = default;
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  ~Profiler();

  // Takes over one reference to `event`.
  void add(const std::string& label, Cost cost, cl_event event);
  // Waits for the pending events and adds their times up.
  const std::map<std::string, OpTime>& by_op();
  // A table of by_op(), longest first: op, count, total, mean, share, GB/s, GFLOP/s.
  std::string table();
  void clear();

 private:
  struct Pending {
    const std::string* label;
    cl_event event;
  };
  void collect();

  std::map<std::string, OpTime> times_;
  std::vector<Pending> pending_;
};

}  // namespace clora
