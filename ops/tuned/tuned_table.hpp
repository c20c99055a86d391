// TunedTable: the -D values measured to be fastest for a kernel, by device; a JSON file that
// `clc tune` writes and ops read (ops/tuned/tuned.hpp).
//
//   {"format": "clora tuned kernels", "version": 1, "kernels": [
//     {"device": "NVIDIA H200", "driver": "570.1", "file": "gemm.cl", "kernel": "gemm",
//      "options": "-D WEIGHT_TYPE=WEIGHT_F32", "sizes": {"M": 512, "C": 896, "J": 896},
//      "values": {"SIDE": 16, "STEPS": 32, "TILE": 128}, "seconds": 2e-4, "preset_seconds": 3e-4}]}
//
// A value type. Threads: const functions may be called concurrently.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// Numbers by the name of a kernel's integer argument or of a -D parameter.
using NamedNumbers = std::map<std::string, std::int64_t, std::less<>>;

// A tuned kernel: identified by all its options except the tuned parameters.
struct TunedKernel {
  std::string device;   // Device::name
  std::string file;     // "gemm.cl"
  std::string kernel;   // "gemm"
  std::string options;  // as for clBuildProgram, in any order
  NamedNumbers sizes;   // of the call that was measured
};

struct TunedEntry {
  TunedKernel of;
  NamedNumbers values;  // the best ones
  std::string driver;
  double seconds = 0;          // of a launch with these values
  double default_seconds = 0;  // of a launch with the op's defaults, in the same run
};

class TunedTable {
 public:
  // Errors: invalid_file if the text is not a table; `name` is for the message.
  static TunedTable parse(std::string_view text, std::string_view name);
  // An empty table if there is no file. Errors: those of parse(), io.
  static TunedTable read(const std::filesystem::path& path);

  const std::vector<TunedEntry>& entries() const noexcept { return entries_; }

  // The entry of the same device, file, kernel and options with the nearest sizes: the least sum of
  // |log(size / wanted)| over the wanted sizes. Null if there is none. The next put() or remove()
  // invalidates the pointer.
  const TunedEntry* nearest(const TunedKernel& wanted) const;
  // Replaces the entry of the same kernel and sizes.
  void put(TunedEntry entry);
  // Removes that entry; no-op if there is none.
  void remove(const TunedKernel& kernel);

  std::string text() const;
  // Atomic. Errors: io.
  void write(const std::filesystem::path& path) const;

 private:
  std::vector<TunedEntry> entries_;  // by device, file, kernel, options, sizes
};

// The words of options in a canonical order and form ("-D A", "-DA" and "-D A=1" are the same):
// equal if two sets of options are.
std::vector<std::string> sorted_options(std::string_view options);

}  // namespace clora
