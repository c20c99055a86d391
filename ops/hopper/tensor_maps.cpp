#include "ops/hopper/tensor_maps.hpp"

#include <algorithm>

#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kFile = "tensor_map.cl";
constexpr std::int64_t kMapBytes = 128;
constexpr std::int64_t kAddressBytes = 8;
constexpr std::int64_t kCounterBytes = 4;
constexpr std::size_t kAddressesAtOnce = 8;
constexpr std::int64_t kCountersOfGroup = 64;

Launch counters_launch(Batch& batch, std::int64_t count, std::string_view label) {
  return {batch.context().kernel(kFile, "tensor_counters", {}),
          groups_of(kCountersOfGroup, static_cast<std::size_t>(divide_up(count, kCountersOfGroup))),
          {},
          std::string(label)};
}

std::vector<Argument> counters_arguments(const Tensor& words, std::int64_t first,
                                         std::int64_t count) {
  return {words, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(count)};
}

// The launches that write one table.
class Writing {
 public:
  Writing(Batch& batch, Tensor to, std::string_view label)
      : batch_(batch), to_(std::move(to)), label_(label) {}

  void map(std::uint32_t number, const MappedMatrix& of) {
    const auto& [matrix, box_rows] = of;
    prepare("tensor_map", single_item_groups(1),
            {to_, matrix.data, matrix.rows, matrix.columns, matrix.stride, box_rows, number});
  }

  // tensors: at most kAddressesAtOnce. first: number of 8-byte words before them.
  void addresses(std::uint32_t first, std::span<const Tensor> tensors) {
    std::vector<Argument> arguments{to_, first, static_cast<std::uint32_t>(tensors.size())};
    arguments.insert(arguments.end(), tensors.begin(), tensors.end());
    arguments.resize(3 + kAddressesAtOnce, Tensor());
    prepare("tensor_addresses", single_item_groups(1), std::move(arguments));
  }

  // first: number of 4-byte words before them.
  void counters(std::int64_t first, std::int64_t count) {
    batch_.prepare(counters_launch(batch_, count, label_), counters_arguments(to_, first, count));
  }

 private:
  void prepare(std::string_view function, Grid grid, std::vector<Argument> arguments) {
    batch_.prepare({batch_.context().kernel(kFile, function, {}), grid, {}, std::string(label_)},
                   std::move(arguments));
  }

  Batch& batch_;
  Tensor to_;
  std::string_view label_;
};

}  // namespace

std::vector<Tensor> TensorTable::uses() const {
  std::vector<Tensor> all;
  std::ranges::copy_if(tensors, std::back_inserter(all),
                       [](const Tensor& t) { return !t.empty(); });
  for (const MappedMatrix& mapped : matrices) all.push_back(mapped.matrix.data);
  return all;
}

Tensor prepare_tensor_table(Batch& batch, const TensorTable& table, std::string_view label) {
  const std::int64_t maps_end = std::ssize(table.matrices) * kMapBytes;
  const std::int64_t addresses_end = maps_end + std::ssize(table.tensors) * kAddressBytes;
  const Tensor to = batch.context().allocate({addresses_end + table.counters * kCounterBytes},
                                             DType::u8, MemoryTag::scratch);
  Writing writing(batch, to, label);
  for (std::size_t i = 0; i < table.matrices.size(); ++i) {
    writing.map(static_cast<std::uint32_t>(i), table.matrices[i]);
  }
  const std::span<const Tensor> tensors(table.tensors);
  for (std::size_t i = 0; i < tensors.size(); i += kAddressesAtOnce) {
    writing.addresses(
        static_cast<std::uint32_t>(maps_end / kAddressBytes) + static_cast<std::uint32_t>(i),
        tensors.subspan(i, std::min(kAddressesAtOnce, tensors.size() - i)));
  }
  if (table.counters > 0) {
    writing.counters(addresses_end / kCounterBytes, table.counters);
  }
  return to;
}

Tensor prepare_tensor_maps(Batch& batch, std::span<const MappedMatrix> matrices,
                           std::string_view label) {
  return prepare_tensor_table(batch, {.matrices = {matrices.begin(), matrices.end()}}, label);
}

void record_zero_words(Batch& batch, const Tensor& words, std::string_view label) {
  const std::int64_t count = static_cast<std::int64_t>(words.bytes()) / kCounterBytes;
  batch.record(counters_launch(batch, count, label), counters_arguments(words, 0, count));
}

}  // namespace clora
