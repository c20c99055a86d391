// cl/decode/decode_layers_gpu.cl: decode_layers as one launch on GPUs.
#pragma once

#include <string>

#include "ops/decode/decode_layers_table.hpp"

namespace clora {

inline constexpr std::string_view kDecodeLayersGpu = "decode_layers_gpu.cl";

const char* decode_layers_gpu_refusal(const Context& context, const DecodeLayers& decode);
// Also whether the Context may rely on co-resident work-groups.
bool decode_layers_gpu_passed(Context& context, const DecodeLayers& decode);
// Whether the kernel supports the sizes on the device. ranks: maximum total rank of the adapters of
// one part of a layer.
bool decode_layers_gpu_fit(const Device& device, const DecodeSizes& sizes, std::int64_t ranks);
// Total local memory that the kernel declares for these sizes.
std::uint64_t decode_layers_gpu_local_bytes(const Device& device, const DecodeSizes& sizes,
                                            std::int64_t ranks);
// The -D options of the program that record_decode_layers_gpu() uses.
std::string decode_layers_gpu_options(Context& context, const DecodeLayers& decode);
// As record_decode_layers(), with the program for `program_of`: decode itself, or a model that its
// layers belong to. REQUIRES: no refusal; tensors checked; the device runs one group
// per compute unit at once (ops/dispatch/co_resident_groups.hpp).
void record_decode_layers_gpu(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                              const Tensor& grid_barrier, const DecodeLayers& program_of);
// The same with the program for all layers of `decode`.
void record_decode_layers_gpu_in_full(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                                      const Tensor& grid_barrier);

}  // namespace clora
