// clora_bench: Google Benchmark with clora's benches (docs/benchmarks.md). It accepts the flags of
// Google Benchmark. The default minimum time is 0.15 s per repetition.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <vector>

#include "bench/support/prepared.hpp"
#include "bench/support/session.hpp"
#include "clora/runtime/device/driver_threads.hpp"
#include "clora/runtime/error.hpp"

namespace {

bool given(const std::vector<char*>& arguments, const char* flag) {
  return std::ranges::any_of(arguments, [flag](const char* argument) {
    return std::strncmp(argument, flag, std::strlen(flag)) == 0;
  });
}

int run(std::vector<char*> arguments) {
  const bool lists = given(arguments, "--benchmark_list_tests");
  char usual_time[] = "--benchmark_min_time=0.15";
  if (!given(arguments, "--benchmark_min_time")) arguments.push_back(usual_time);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  clora::bench::register_families();
  if (!lists) {
    clora::bench::measure_peaks();
    clora::bench::describe_session();
  }
  benchmark::RunSpecifiedBenchmarks();
  clora::bench::drop_prepared();
  clora::bench::release_session();
  benchmark::Shutdown();
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  clora::pin_driver_threads();
  try {
    return run({arguments, arguments + count});
  } catch (const clora::Error& error) {
    clora::bench::drop_prepared();
    clora::bench::release_session();
    std::cerr << "clora_bench: error: " << error.what() << std::endl;
    return 1;
  }
}
