// cl/decode_layers_gpu.cl: how one launch of decode_layers is made for GPUs.
#pragma once

#include <string>

#include "ops/decode_layers_table.hpp"

namespace clora {

inline constexpr std::string_view kDecodeLayersGpu = "decode_layers_gpu.cl";

// Whether the layers are of sizes, a type and a layout that the kernel takes on the device.
bool decode_layers_gpu_fit(const Context& context, const DecodeLayers& decode);
// The same of sizes alone. ranks: of the adapters of one of the parts that groups make together.
bool decode_layers_gpu_fit(const Device& device, const DecodeSizes& sizes, std::int64_t ranks);
// All local memory that the kernel declares for them.
std::uint64_t decode_layers_gpu_local_bytes(const Device& device, const DecodeSizes& sizes,
                                            std::int64_t ranks);
// The -D options of the program that record_decode_layers_gpu() takes.
std::string decode_layers_gpu_options(Context& context, const DecodeLayers& decode);
// As record_decode_layers(), by the program that `program_of` takes: of decode itself, or of a
// model that its layers belong to. REQUIRES: decode_layers_gpu_fit(); tensors checked; the device
// runs a group on each unit at once (ops/co_resident_groups.hpp).
void record_decode_layers_gpu(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                              const Tensor& grid_barrier, const DecodeLayers& program_of);

}  // namespace clora
