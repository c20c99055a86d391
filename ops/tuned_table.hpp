// TunedTable: which -D values a kernel was measured to be fastest with, by device: a JSON file that
// `clc tune` writes and ops read (ops/tuned.hpp).
//
//   {"format": "clora tuned kernels", "version": 1, "kernels": [
//     {"device": "NVIDIA H200", "driver": "570.1", "file": "gemm.cl", "kernel": "gemm",
//      "options": "-D WEIGHT_TYPE=WEIGHT_F32", "sizes": {"M": 512, "C": 896, "J": 896},
//      "values": {"SIDE": 16, "STEPS": 32, "TILE": 128}, "seconds": 2e-4, "preset_seconds": 3e-4}]}
//
// A value type. Threads: const functions from any number of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// By name: of a kernel's integer arguments, or of -D parameters.
using NamedNumbers = std::map<std::string, std::int64_t, std::less<>>;

// What was tuned: a kernel as it is built but for its tuned parameters.
struct TunedKernel {
  std::string device;   // Device::name
  std::string file;     // "gemm.cl"
  std::string kernel;   // "gemm"
  std::string options;  // as for clBuildProgram; their order does not count
  NamedNumbers sizes;   // of the call that was measured
};

struct TunedEntry {
  TunedKernel of;
  NamedNumbers values;  // the best ones
  std::string driver;
  double seconds = 0;          // of a launch with them
  double default_seconds = 0;  // and with what the op takes untuned, in the same run
};

class TunedTable {
 public:
  // Errors: invalid_file, for what is no such table; `name` is for the message.
  static TunedTable parse(std::string_view text, std::string_view name);
  // An empty one where there is no file. Errors: those of parse(), io.
  static TunedTable read(const std::filesystem::path& path);

  const std::vector<TunedEntry>& entries() const noexcept { return entries_; }

  // The entry of the same device, file, kernel and options whose sizes are nearest: the least sum
  // of |log(size / wanted)| over the sizes that are asked for. Null: none. The next put() or
  // remove() ends the pointer's life.
  const TunedEntry* nearest(const TunedKernel& wanted) const;
  // Takes the place of the entry of the same kernel and sizes.
  void put(TunedEntry entry);
  // That entry, where there is one.
  void remove(const TunedKernel& kernel);

  std::string text() const;
  // Whole or not at all. Errors: io.
  void write(const std::filesystem::path& path) const;

 private:
  std::vector<TunedEntry> entries_;  // by device, file, kernel, options, sizes
};

// The words of options in one order, "-D A", "-DA" and "-D A=1" alike: equal where two sets of
// options are.
std::vector<std::string> sorted_options(std::string_view options);

}  // namespace clora
