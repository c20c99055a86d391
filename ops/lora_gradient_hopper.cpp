#include <algorithm>
#include <array>

#include "ops/launch_shape.hpp"
#include "ops/lora_gradient.hpp"
#include "ops/tensor_maps.hpp"

namespace clora {
namespace {

// cl/lora_linear_wgmma.cl
constexpr std::uint32_t kBoxRows = 64;
constexpr std::uint32_t kStripColumns = 512;
constexpr std::uint32_t kGroupsOfStrip = 2;  // that make a part of what is shrunk each
constexpr std::uint32_t kFewRanks = 16;
constexpr std::uint32_t kBlockRanks = 64;
constexpr std::size_t kMemberMaps = 3;
constexpr std::size_t kItems = 384;
constexpr std::size_t kSumItems = 256;
constexpr std::size_t kSumElements = 32;  // of a work-group of so many items
// What fits into 227 KiB: beside b less.
constexpr std::uint32_t kStages = 3;
constexpr std::uint32_t kStagesBesideB = 2;

using Members = std::span<const LoraGradientProduct>;

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

std::uint32_t columns_of(const LoraGradientProduct& p) { return u32(p.x.shape()[1]); }

// The sizes of all members.
struct Plan {
  std::uint32_t rows, rank;
  std::uint32_t block_ranks, rank_blocks;
  std::uint32_t columns = 0, strips = 0;
  LoraChunks cut;
  bool shrinks;
  std::size_t members;

  Plan(const Context& context, Members all)
      : rows(u32(all.front().x.shape()[0])),
        rank(u32(all.front().s.shape()[1])),
        block_ranks(rank <= kFewRanks ? kFewRanks : kBlockRanks),
        rank_blocks(divide_up(rank, block_ranks)),
        shrinks(!all.front().shrunk.empty()),
        members(all.size()) {
    for (const LoraGradientProduct& p : all) {
      columns += columns_of(p);
      strips += divide_up(columns_of(p), kStripColumns);
    }
    const std::uint32_t units = std::max(1U, context.device().compute_units);
    cut = lora_chunks(rows, strips, rank_blocks, units);
  }
  std::uint32_t shrunk_columns() const { return rank_blocks * block_ranks; }
  Defines defines() const {
    Defines defines;
    defines.set("RANKS", block_ranks).set("STAGES", shrinks ? kStagesBesideB : kStages);
    if (shrinks) defines.set("SHRINK");
    if (members > 1) defines.set("MEMBERS", members);
    return defines;
  }
  Cost cost(Members all) const {
    const double flops = 2.0 * rows * rank * columns;
    Cost cost{shrinks ? 2 * flops : flops, 0};
    for (const LoraGradientProduct& p : all) {
      cost.bytes += static_cast<double>(p.x.bytes() + p.s.bytes() + 2 * p.out.bytes());
    }
    return cost;
  }
};

// What members have of their own stands once for each in a kernel's arguments; of two, the second
// for a third one that has no columns.
class Arguments {
 public:
  explicit Arguments(Members members) : members_(members) {}

  template <class Of>
  void each(Of of) {
    const std::size_t count = members_.size() == 1 ? 1 : kMostLoraMembers;
    for (std::size_t i = 0; i < count; ++i) list_.push_back(of(std::min(i, members_.size() - 1)));
  }
  void each_columns() {
    const std::size_t count = members_.size() == 1 ? 1 : kMostLoraMembers;
    for (std::size_t i = 0; i < count; ++i) {
      list_.push_back(i < members_.size() ? columns_of(members_[i]) : 0U);
    }
  }
  void one(Argument argument) { list_.push_back(std::move(argument)); }
  std::vector<Argument> take() { return std::move(list_); }

 private:
  Members members_;
  std::vector<Argument> list_;
};

struct Parts {
  Tensor gradients, shrunk;
};

void record_parts(Batch& batch, Members members, const Plan& plan, const Parts& parts) {
  std::vector<MappedMatrix> operands;
  for (const LoraGradientProduct& p : members) {
    const Bf16Rows x = record_bf16_rows(batch, p.x), s = record_bf16_rows(batch, p.s);
    operands.push_back({x, kBoxRows});
    operands.push_back({s, kBoxRows});
    operands.push_back({plan.shrinks ? record_bf16_rows(batch, p.b) : s,
                        plan.shrinks ? plan.block_ranks : kBoxRows});
  }
  Arguments list(members);
  list.one(parts.gradients);
  list.one(parts.shrunk);
  list.one(prepare_tensor_maps(batch, operands, "lora_linear/tensor map"));
  for (std::size_t which = 0; which < kMemberMaps; ++which) {
    list.each([&](std::size_t i) { return operands[i * kMemberMaps + which].matrix.data; });
  }
  list.one(plan.rows);
  list.one(plan.rank);
  list.each_columns();
  list.one(plan.cut.chunk_boxes);
  Launch launch{batch.context().kernel(kLoraWgmma, "lora_gradient_wgmma", plan.defines()),
                {{plan.strips * kItems, plan.cut.chunks, plan.rank_blocks}, {kItems, 1, 1}},
                plan.cost(members),
                "lora_linear/gradient"};
  batch.record(std::move(launch), list.take());
}

void record_sums(Batch& batch, Members members, const Plan& plan, const Parts& parts) {
  const std::size_t shrunk = plan.shrinks ? plan.members * plan.rows * plan.rank : 0;
  const std::size_t items = std::size_t{plan.rank} * plan.columns + shrunk;
  Launch launch{
      batch.context().kernel(kLoraWgmma, "lora_sums", plan.defines()),
      {{round_up(items, kSumElements) / kSumElements * kSumItems, 1, 1}, {kSumItems, 1, 1}},
      {},
      "lora_linear/gradient sum"};
  Arguments list(members);
  list.each([&](std::size_t i) { return members[i].out; });
  list.one(parts.gradients);
  list.each([&](std::size_t i) { return plan.shrinks ? members[i].shrunk : members[i].out; });
  list.one(parts.shrunk);
  list.one(plan.rows);
  list.one(plan.rank);
  list.each_columns();
  for (const std::uint32_t value :
       {plan.cut.chunks, plan.shrunk_columns(), std::uint32_t{plan.shrinks}}) {
    list.one(value);
  }
  list.one(members.front().scale);
  list.one(members.front().shrink_scale);
  batch.record(std::move(launch), list.take());
}

}  // namespace

LoraChunks lora_chunks(std::uint32_t rows, std::uint32_t strips, std::uint32_t rank_blocks,
                       std::uint32_t units) {
  const std::uint32_t wanted = std::max(1U, units / (strips * rank_blocks));
  const std::uint32_t boxes = divide_up(rows, kBoxRows);
  const std::uint32_t chunk_boxes = divide_up(boxes, wanted);
  return {divide_up(boxes, chunk_boxes), chunk_boxes};
}

void record_gradients_wgmma(Batch& batch, std::span<const LoraGradientProduct> members) {
  const Plan plan(batch.context(), members);
  Parts parts;
  parts.gradients = batch.temporary({plan.cut.chunks, plan.rank, plan.columns}, DType::f32,
                                    "lora gradient parts");
  parts.shrunk = parts.gradients;
  if (plan.shrinks) {
    const std::int64_t groups = plan.strips * kGroupsOfStrip;
    parts.shrunk = batch.temporary({groups, plan.rows, plan.shrunk_columns()}, DType::f32,
                                   "lora shrunk parts");
  }
  record_parts(batch, members, plan, parts);
  record_sums(batch, members, plan, parts);
}

}  // namespace clora
