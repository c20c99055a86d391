// AdapterValues: an adapter on the host in f32, as files of every format are read into and written
// from (lora/peft_files.hpp, model/adapter_files/adapter_files.hpp).
//
// Names and layouts are PEFT's. Owns its values; a plain value type. Thread-safe for reading.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clora/lora/adapter.hpp"

namespace clora {

struct ModuleValues {
  AdapterSite site;
  std::int64_t rank = 0;
  float scale = 1;
  std::vector<float> a;          // [R, K]
  std::vector<float> b;          // [N, R]
  std::vector<float> magnitude;  // [N] of DoRA, else empty
};

// A tensor that is trained in full.
struct SavedValues {
  SavedTensor tensor;  // its offset is ignored
  std::vector<float> values;
};

struct AdapterValues {
  AdapterConfig config;  // use_dora: every module has magnitudes
  std::vector<ModuleValues> modules;
  std::vector<SavedValues> saved;
};

// The adapter on the device of `context`. Errors: those of Adapter's constructor. REQUIRES: the
// sizes of the values match their sites, ranks and shapes.
Adapter to_device(Context& context, const AdapterValues& values);

// The values of an adapter on a device. Waits for the device.
AdapterValues values_of(const Adapter& adapter);

// The modules without their values; offsets are 0.
std::vector<AdapterModule> modules_of(const AdapterValues& values);

// out [columns, rows] = in [rows, columns]^T
std::vector<float> transposed(std::span<const float> in, std::int64_t rows, std::int64_t columns);

}  // namespace clora
