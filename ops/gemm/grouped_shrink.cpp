#include "ops/gemm/grouped_shrink.hpp"

#include <algorithm>
#include <bit>

#include "ops/gemm/gemm_groups.hpp"
#include "ops/hopper/ptx.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

using Terms = std::span<const LowRankTerm>;

constexpr std::uint32_t kRanks = 4;      // that a work-group computes at once: the kernel's RANKS
constexpr std::uint32_t kCpuRanks = 16;  // of a work-group on CPUs
// Elements of a row that an item multiplies, if the group has as many items.
constexpr std::int64_t kItemElements = 32;
constexpr std::size_t kMinGroup = 32, kMaxGroup = 256;

const Tensor& a_of(const LowRankTerm& term) { return term.a_bf16.empty() ? term.a : term.a_bf16; }

std::int64_t adapters_of(const LowRankTerm& term) { return term.a.shape()[0]; }

bool has_rows_of(std::int64_t elements, const Tensor& t) {
  return t.shape()[t.shape().rank() - 1] % elements == 0 &&
         t.offset_bytes() % bytes_of(t.type(), static_cast<std::size_t>(elements)) == 0;
}

// The longest vectors to which all rows are aligned.
std::int64_t vector_of(const Tensor& x, Terms terms) {
  const auto fits = [&](std::int64_t elements) {
    return has_rows_of(elements, x) && std::ranges::all_of(terms, [&](const LowRankTerm& term) {
             return has_rows_of(elements, a_of(term));
           });
  };
  return fits(8) ? 8 : fits(4) ? 4 : 1;
}

bool are_alike(const LowRankTerm& term, const LowRankTerm& first) {
  return same_begin(term.row_groups, first.row_groups) && term.s.shape()[1] == first.s.shape()[1] &&
         term.a_scale == first.a_scale && term.s.type() == first.s.type() &&
         a_of(term).type() == a_of(first).type() && adapters_of(term) == adapters_of(first);
}

// The work-items of a group, and the ranks that they compute.
struct Plan {
  std::size_t group = 1;
  std::uint32_t ranks = kCpuRanks;
};

Plan plan_of(const Context& context, std::int64_t k) {
  if (context.capabilities().cpu) return {};
  const auto useful = std::bit_ceil(static_cast<std::size_t>(divide_up(k, kItemElements)));
  const std::size_t group = std::clamp(useful, kMinGroup, kMaxGroup);
  return {reduction_group(context.device(), group), kRanks};
}

Defines defines_of(Context& context, const Plan& plan, const Tensor& x, Terms terms, bool is_wide) {
  const LowRankTerm& first = terms.front();
  Defines defines;
  defines.set("GROUP", plan.group).set("GROUP_RANKS", plan.ranks);
  defines.set("X_TYPE", name_of(x.type())).set("S_TYPE", name_of(first.s.type()));
  defines.set("A_TYPE", name_of(a_of(first).type()));
  if (terms.size() > 1) defines.set("PROBLEMS", terms.size());
  if (is_wide) defines.set("WIDE").set("WIDE_TYPE", name_of(DType::bf16));
  if (plan.group == 1) return defines;
  defines.set("VEC_SIZE", vector_of(x, terms));
  return set_use_ptx(defines, context);
}

Cost cost_of(const Tensor& x, Terms terms) {
  Cost cost{0, static_cast<double>(x.bytes())};
  for (const LowRankTerm& term : terms) {
    cost.flops += 2.0 * static_cast<double>(term.s.elements() * x.shape()[1]);
    cost.bytes += static_cast<double>(a_of(term).bytes() + term.s.bytes());
  }
  return cost;
}

// wide: of each term, or none. REQUIRES: alike terms, kMaxGroupedShrinks at most.
void record_alike(Batch& batch, const Tensor& x, Terms terms, std::span<const Tensor> wide) {
  Context& context = batch.context();
  const LowRankTerm& first = terms.front();
  const std::int64_t k = x.shape()[1];
  const auto rank = u32(first.s.shape()[1]);
  const Plan plan = plan_of(context, k);
  Launch launch{{},
                {{u32(x.shape()[0]) * plan.group, divide_up(rank, plan.ranks), terms.size()},
                 {plan.group, 1, 1}},
                cost_of(x, terms),
                "gemm/grouped shrink"};
  launch.kernel = context.kernel("grouped_shrink.cl", "grouped_shrink",
                                 defines_of(context, plan, x, terms, !wide.empty()));
  std::vector<Argument> arguments;
  append_each(arguments, terms, [](const LowRankTerm& term) { return term.s; });
  if (!wide.empty()) append_each(arguments, wide, [](const Tensor& each) { return each; });
  arguments.emplace_back(x);
  append_each(arguments, terms, a_of);
  arguments.insert(arguments.end(),
                   {first.row_groups, u32(k), rank, u32(adapters_of(first)), first.a_scale});
  batch.record(std::move(launch), std::move(arguments));
}

// Calls record(begin, count) for each run of terms that take one launch.
template <typename Record>
void each_run(Terms terms, Record record) {
  for (std::size_t begin = 0, end = 0; begin < terms.size(); begin = end) {
    while (end < terms.size() && end < begin + kMaxGroupedShrinks &&
           are_alike(terms[end], terms[begin])) {
      ++end;
    }
    record(begin, end - begin);
  }
}

// s u of the whole stack.
LowRankTerm wide_term(const LowRankTerm& term, const Tensor& wide) {
  const Shape all{wide.shape()[1], term.u.shape()[2]};
  LowRankTerm of{.s = wide, .u = term.u.reshape(all), .scale = term.scale};
  if (!term.u_bf16.empty()) of.u_bf16 = term.u_bf16.reshape(all);
  return of;
}

}  // namespace

void record_grouped_shrinks(Batch& batch, const Tensor& x, std::span<const LowRankTerm> terms) {
  each_run(terms, [&](std::size_t begin, std::size_t count) {
    record_alike(batch, x, terms.subspan(begin, count), {});
  });
}

std::vector<LowRankTerm> record_wide_shrinks(Batch& batch, const Tensor& x,
                                             std::span<const LowRankTerm> terms) {
  std::vector<Tensor> wide;
  std::vector<LowRankTerm> results;
  for (const LowRankTerm& term : terms) {
    wide.push_back(batch.temporary({x.shape()[0], adapters_of(term) * term.s.shape()[1]},
                                   DType::bf16, "wide s"));
    results.push_back(wide_term(term, wide.back()));
  }
  each_run(terms, [&](std::size_t begin, std::size_t count) {
    record_alike(batch, x, terms.subspan(begin, count), std::span(wide).subspan(begin, count));
  });
  return results;
}

}  // namespace clora
