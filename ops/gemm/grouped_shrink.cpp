#include "ops/gemm/grouped_shrink.hpp"

#include <algorithm>
#include <bit>

#include "ops/gemm/gemm_groups.hpp"
#include "ops/hopper/ptx.hpp"
#include "ops/launch_grids.hpp"
#include "ops/rowwise/gate_formula.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

using Terms = std::span<const LowRankTerm>;

constexpr std::uint32_t kRanks = 4;      // of a work-group
constexpr std::uint32_t kCpuRanks = 16;  // of a work-group on CPUs
// Up to as many rows, as in decoding, the latency of memory decides: groups are larger for their
// rows, and compute an x that is not given.
constexpr std::int64_t kFewRows = 128;
// Elements of a row that an item multiplies, if the group has as many items.
constexpr std::int64_t kItemElements = 32, kItemElementsOfFewRows = 8;
constexpr std::size_t kMinGroup = 32, kMaxGroup = 256, kMaxGroupOfHugeRows = 512;
// Rows of a group, which share its reads of a. Fewer make more groups for few short rows, and for
// few rows of swiglu, which a group computes.
constexpr std::uint32_t kRows = 4, kRowsOfFew = 2;
constexpr std::int64_t kLongRow = 3072;
// Beyond it every group would take too long to compute its rows.
constexpr std::int64_t kHugeRow = 8192;

const Tensor& a_of(const LowRankTerm& term) { return term.a_bf16.empty() ? term.a : term.a_bf16; }

std::int64_t adapters_of(const LowRankTerm& term) { return term.a.shape()[0]; }

bool has_rows_of(std::int64_t elements, const Tensor& t) {
  return t.shape()[t.shape().rank() - 1] % elements == 0 &&
         t.offset_bytes() % bytes_of(t.type(), static_cast<std::size_t>(elements)) == 0;
}

// The tensors that x is computed from.
std::vector<Tensor> sources_of(const ProductInput& input) {
  if (const auto* norm = std::get_if<RmsNormOf>(&input.from)) return {norm->of, norm->w};
  if (const auto* gated = std::get_if<SwigluOf>(&input.from)) return {gated->gate, gated->up};
  return {};
}

// The longest vectors to which all rows are aligned.
std::int64_t vector_of(const ProductInput& input, Terms terms) {
  std::vector<Tensor> all = sources_of(input);
  all.push_back(input.x);
  for (const LowRankTerm& term : terms) all.push_back(a_of(term));
  const auto fits = [&](std::int64_t elements) {
    return std::ranges::all_of(all, [&](const Tensor& t) { return has_rows_of(elements, t); });
  };
  return fits(8) ? 8 : fits(4) ? 4 : 1;
}

bool are_alike(const LowRankTerm& term, const LowRankTerm& first) {
  return same_begin(term.row_groups, first.row_groups) && term.s.shape()[1] == first.s.shape()[1] &&
         term.a_scale == first.a_scale && term.s.type() == first.s.type() &&
         a_of(term).type() == a_of(first).type() && adapters_of(term) == adapters_of(first);
}

// The work-items of a group, and the ranks and rows that they compute.
struct Plan {
  std::size_t group = 1;
  std::uint32_t ranks = kCpuRanks;
  std::uint32_t rows = 1;
};

Plan plan_of(const Context& context, const ProductInput& input) {
  if (context.capabilities().cpu) return {};
  const std::int64_t k = input.x.shape()[1];
  const bool few = input.x.shape()[0] <= kFewRows;
  const std::int64_t elements = few ? kItemElementsOfFewRows : kItemElements;
  const std::size_t most = few && k > kHugeRow ? kMaxGroupOfHugeRows : kMaxGroup;
  const auto useful = std::bit_ceil(static_cast<std::size_t>(divide_up(k, elements)));
  const bool short_ones = k < kLongRow || std::holds_alternative<SwigluOf>(input.from);
  return {reduction_group(context.device(), std::clamp(useful, kMinGroup, most)), kRanks,
          few && short_ones ? kRowsOfFew : kRows};
}

void define_input(Defines& defines, const ProductInput& input) {
  defines.set("X_TYPE", name_of(input.x.type()));
  if (!input.is_computed()) return;
  defines.set("FROM_TYPE", name_of(sources_of(input).front().type()));
  const auto* gated = std::get_if<SwigluOf>(&input.from);
  if (gated == nullptr) {
    defines.set("NORM");
    return;
  }
  defines.set("SWIGLU");
  const std::string_view formula = gate_formula(gated->function);
  if (!formula.empty()) defines.set(formula);
}

Defines defines_of(Context& context, const Plan& plan, const ProductInput& input, Terms terms,
                   bool is_wide) {
  const LowRankTerm& first = terms.front();
  Defines defines;
  defines.set("GROUP", plan.group).set("GROUP_RANKS", plan.ranks);
  define_input(defines, input);
  defines.set("S_TYPE", name_of(first.s.type()));
  defines.set("A_TYPE", name_of(a_of(first).type()));
  if (terms.size() > 1) defines.set("PROBLEMS", terms.size());
  if (is_wide) defines.set("WIDE").set("WIDE_TYPE", name_of(DType::bf16));
  if (plan.group == 1) return defines;
  defines.set("GROUP_ROWS", plan.rows);
  defines.set("VEC_SIZE", vector_of(input, terms));
  return set_use_ptx(defines, context);
}

Cost cost_of(const ProductInput& input, Terms terms) {
  const Tensor& x = input.x;
  Cost cost{0, static_cast<double>(x.bytes())};
  for (const Tensor& source : sources_of(input)) {
    cost.bytes += static_cast<double>(source.bytes());
    cost.flops += 3 * static_cast<double>(x.elements());
  }
  for (const LowRankTerm& term : terms) {
    cost.flops += 2.0 * static_cast<double>(term.s.elements() * x.shape()[1]);
    cost.bytes += static_cast<double>(a_of(term).bytes() + term.s.bytes());
  }
  return cost;
}

// A group per plan.rows rows and plan.ranks ranks of a term, and one that writes rows of a computed
// x.
Grid grid_of(const Plan& plan, const ProductInput& input, Terms terms) {
  const std::uint32_t of_ranks = divide_up(u32(terms.front().s.shape()[1]), plan.ranks);
  return {{divide_up(u32(input.x.shape()[0]), plan.rows) * plan.group,
           of_ranks + (input.is_computed() ? 1 : 0), terms.size()},
          {plan.group, 1, 1}};
}

// wide: of each term, or none. REQUIRES: alike terms, kMaxGroupedShrinks at most.
void record_alike(Batch& batch, const ProductInput& input, Terms terms,
                  std::span<const Tensor> wide) {
  Context& context = batch.context();
  const LowRankTerm& first = terms.front();
  const std::int64_t k = input.x.shape()[1];
  const auto rank = u32(first.s.shape()[1]);
  const Plan plan = plan_of(context, input);
  Launch launch{{}, grid_of(plan, input, terms), cost_of(input, terms), "gemm/grouped shrink"};
  launch.kernel = context.kernel("grouped_shrink.cl", "grouped_shrink",
                                 defines_of(context, plan, input, terms, !wide.empty()));
  std::vector<Argument> arguments;
  append_each(arguments, terms, [](const LowRankTerm& term) { return term.s; });
  if (!wide.empty()) append_each(arguments, wide, [](const Tensor& each) { return each; });
  arguments.emplace_back(input.x);
  for (const Tensor& source : sources_of(input)) arguments.emplace_back(source);
  append_each(arguments, terms, a_of);
  arguments.insert(arguments.end(), {first.row_groups, u32(input.x.shape()[0]), u32(k), rank,
                                     u32(adapters_of(first)), first.a_scale});
  if (const auto* norm = std::get_if<RmsNormOf>(&input.from)) {
    arguments.emplace_back(norm->epsilon);
  }
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

bool grouped_shrinks_compute(const Context& context, const ProductInput& x, Terms terms) {
  return x.is_computed() && !context.capabilities().cpu && x.x.shape()[0] <= kFewRows &&
         x.x.shape()[1] <= kHugeRow && !terms.empty() && terms.size() <= kMaxGroupedShrinks &&
         std::ranges::all_of(
             terms, [&](const LowRankTerm& term) { return are_alike(term, terms.front()); });
}

void record_grouped_shrinks(Batch& batch, const ProductInput& x,
                            std::span<const LowRankTerm> terms) {
  each_run(terms, [&](std::size_t begin, std::size_t count) {
    record_alike(batch, x, terms.subspan(begin, count), {});
  });
}

std::vector<LowRankTerm> record_wide_shrinks(Batch& batch, const ProductInput& x,
                                             std::span<const LowRankTerm> terms) {
  std::vector<Tensor> wide;
  std::vector<LowRankTerm> results;
  for (const LowRankTerm& term : terms) {
    wide.push_back(batch.temporary({x.x.shape()[0], adapters_of(term) * term.s.shape()[1]},
                                   DType::bf16, "wide s"));
    results.push_back(wide_term(term, wide.back()));
  }
  each_run(terms, [&](std::size_t begin, std::size_t count) {
    record_alike(batch, x, terms.subspan(begin, count), std::span(wide).subspan(begin, count));
  });
  return results;
}

}  // namespace clora
