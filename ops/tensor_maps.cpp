#include "ops/tensor_maps.hpp"

namespace clora {
namespace {

constexpr std::int64_t kMapBytes = 128;

}  // namespace

Tensor prepare_tensor_maps(Batch& batch, std::span<const MappedMatrix> matrices,
                           std::string_view label) {
  Context& context = batch.context();
  const Tensor maps =
      context.allocate({std::ssize(matrices) * kMapBytes}, DType::u8, MemoryTag::scratch);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto& [matrix, box_rows] = matrices[i];
    Launch launch;
    launch.kernel = context.kernel("tensor_map.cl", "tensor_map", {});
    launch.label = label;
    batch.prepare(std::move(launch), {maps, matrix.data, matrix.rows, matrix.columns, matrix.stride,
                                      box_rows, static_cast<std::uint32_t>(i)});
  }
  return maps;
}

}  // namespace clora
