// TunedTable: what was measured on a device: the -D values that are fastest for a kernel, and the
// costs by which ops plan launches; a JSON file that `clc tune` writes and ops read
// (ops/tuned/tuned.hpp, ops/tuned/costs.hpp).
//
//   {"format": "clora tuned kernels", "version": 1, "kernels": [
//     {"device": "NVIDIA H200", "driver": "570.1", "file": "gemm.cl", "kernel": "gemm",
//      "options": "-D WEIGHT_TYPE=WEIGHT_F32", "sizes": {"M": 512, "C": 896, "J": 896},
//      "values": {"SIDE": 16, "STEPS": 32, "TILE": 128},
//      "seconds": 2e-4, "default_seconds": 3e-4}],
//    "costs": [
//     {"model": "gemm_wgmma", "device": "NVIDIA H200", "driver": "570.1", "date": "2026-11-24",
//      "for_other_devices": true, "values": {"slice": 1000, "slice_column": 3}}]}
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

// Costs by their names in a model.
using NamedCosts = std::map<std::string, double, std::less<>>;

// The costs of a model, as measured on a device.
struct CostEntry {
  std::string model;   // "gemm_wgmma"
  std::string device;  // Device::name
  std::string driver = {};
  std::string date = {};           // "2026-11-24"
  bool for_other_devices = false;  // used for devices that have no entry
  NamedCosts values = {};
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

  const std::vector<CostEntry>& costs() const noexcept { return costs_; }
  // The entry of the model for the device, or for other devices; null if there is none. The next
  // put() invalidates the pointer.
  const CostEntry* costs_of(std::string_view model, std::string_view device) const;
  const CostEntry* costs_for_other_devices(std::string_view model) const;
  // Replaces the entry of the same model and device.
  void put(CostEntry entry);

  std::string text() const;
  // Atomic. Errors: io.
  void write(const std::filesystem::path& path) const;

 private:
  std::vector<TunedEntry> entries_;  // by device, file, kernel, options, sizes
  std::vector<CostEntry> costs_;     // by model, device
};

// The words of options in a canonical order and form ("-D A", "-DA" and "-D A=1" are the same):
// equal if two sets of options are.
std::vector<std::string> sorted_options(std::string_view options);

}  // namespace clora
