#include "ops/loss/cross_entropy_head_ends.hpp"

#include <vector>

#include "clora/ops/quant/quant.hpp"
#include "ops/dispatch/loss_term_defines.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kFile = "cross_entropy_head.cl";
constexpr std::size_t kRowsAGroup = 8;  // ROWS of the file

// Multiples of 1/32 below 2, which bf16 represents exactly: nothing is rounded. The losses are
// large.
std::vector<float> exact_values(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = (static_cast<float>(seed >> 26U) - 31.5F) / 16;
  }
  return values;
}

bool is_smoothed(const HeadLoss& head) { return head.in.terms.label_smoothing > 0; }

// The mean of the head's rows, with their sums by slices, so that a GPU has enough work-items.
void record_head_mean(Batch& batch, const HeadLoss& head, const Tensor& mean) {
  constexpr std::int64_t kColumns = 64, kSlices = 256;
  const Tensor& w = head.in.head.whole();
  const std::int64_t V = w.shape()[0], D = w.shape()[1];
  const std::int64_t slice_rows = divide_up(V, kSlices), slices = divide_up(V, slice_rows);
  const Tensor sums = batch.temporary({slices, D}, DType::f32, "head_loss sums of columns");
  Defines defines;
  set_weight_type(defines.set("GROUP", kColumns), w);
  const auto columns = static_cast<std::size_t>(round_up(D, kColumns));
  const auto launch = [&](const char* kernel, std::int64_t count, double elements, double bytes) {
    return Launch{batch.context().kernel(kFile, kernel, defines),
                  {{columns, static_cast<std::size_t>(count), 1}, {kColumns, 1, 1}},
                  {elements, bytes},
                  "head_loss/mean"};
  };
  batch.launch(launch("head_sums", slices, static_cast<double>(V * D),
                      static_cast<double>(w.bytes() + sums.bytes())),
               sums, w, u32(V), u32(D), u32(slice_rows));
  batch.launch(launch("head_mean", 1, static_cast<double>(sums.elements()),
                      static_cast<double>(sums.bytes() + mean.bytes())),
               mean, sums, u32(slices), u32(V), u32(D));
}

}  // namespace

HeadSums head_sums_of(Batch& batch, const HeadLoss& head, std::int64_t tiles) {
  require(!is_smoothed(head) || head.in.soft_cap == 0,
          "head_loss: this implementation has no label smoothing of capped logits, got {} with the "
          "cap {}; take another",
          head.in.terms.label_smoothing, head.in.soft_cap);
  const std::int64_t rows = head.in.x.shape()[0];
  HeadSums sums{.target_logits = batch.temporary({rows}, DType::f32, "head_loss target logits"),
                .references = batch.temporary({rows}, DType::f32, "head_loss references"),
                .parts = batch.temporary({tiles, rows, 2}, DType::f32, "head_loss parts")};
  if (!is_smoothed(head)) return sums;
  sums.mean = batch.temporary({head.in.x.shape()[1]}, DType::f32, "head_loss mean");
  sums.mean_logits = batch.temporary({rows}, DType::f32, "head_loss mean logits");
  return sums;
}

void record_head_references(Batch& batch, const HeadLoss& head, const Bf16Rows& x,
                            const HeadSums& sums) {
  constexpr std::size_t kGroup = 64;
  Defines defines;
  set_weight_type(defines.set("GROUP", kGroup), head.in.head.whole());
  define_soft_cap(defines, head.in.soft_cap);
  if (is_smoothed(head)) {
    record_head_mean(batch, head, sums.mean);
    defines.set("SMOOTHED");
  }
  const auto elements = static_cast<double>(head.in.x.elements());
  Launch launch{batch.context().kernel(kFile, "head_references", defines),
                groups_of(kGroup, x.rows),
                {2 * elements, 4 * elements},
                "head_loss/references"};
  std::vector<Argument> arguments{
      sums.target_logits,           sums.references, x.data,  head.in.head.whole(), head.in.targets,
      u32(head.in.head.shape()[0]), x.columns,       x.stride};
  if (is_smoothed(head)) arguments.insert(arguments.end(), {sums.mean_logits, sums.mean});
  batch.record(std::move(launch), std::move(arguments));
}

void record_head_end(Batch& batch, const HeadLoss& head, const HeadSums& sums,
                     const HeadProducts& products) {
  const auto& [loss, dx, in] = head;
  const bool alone = !head.wants_gradient();
  const std::size_t group = reduction_group(batch.context().device());
  Defines defines;
  set_weight_type(defines.set("GROUP", group), in.head.whole());
  if (!alone) defines.set("GRADIENT");
  define_soft_cap(defines, in.soft_cap);
  define_loss_terms(defines, in.terms);
  if (is_smoothed(head)) defines.set("SMOOTHED");
  const auto elements = alone ? 0 : static_cast<double>(dx.elements());
  const double bytes = 10 * elements + static_cast<double>(sums.parts.bytes());
  const auto rows = static_cast<std::size_t>(in.x.shape()[0]);
  Launch launch{batch.context().kernel(kFile, "head_loss", defines),
                groups_of(group, divide_up(rows, kRowsAGroup)),
                {3 * elements, bytes},
                "head_loss/end"};
  std::vector<Argument> arguments{loss,
                                  alone ? loss : dx,
                                  alone ? loss : products.slices,
                                  sums.parts,
                                  sums.target_logits,
                                  in.head.whole(),
                                  in.targets,
                                  alone ? loss : in.weight,
                                  u32(in.x.shape()[0]),
                                  u32(in.head.shape()[0]),
                                  u32(in.x.shape()[1]),
                                  u32(sums.parts.shape()[0]),
                                  u32(products.splits),
                                  u32(products.split_rows)};
  const auto step = alone ? 0 : loss_weight_step("head_loss", in.weight, in.x.shape()[0]);
  arguments.emplace_back(u32(step));
  if (in.terms.any()) arguments.emplace_back(in.terms.nll);
  if (is_smoothed(head)) arguments.insert(arguments.end(), {sums.mean_logits, sums.mean});
  batch.record(std::move(launch), std::move(arguments));
}

std::string_view tested_terms(const LossTerms& terms) {
  if (terms.label_smoothing > 0) return " with label smoothing";
  return terms.any() ? " with z-loss" : "";
}

void test_head_loss(SelfTest& test, bool gradient, std::int64_t entries, const LossTerms& terms,
                    bool capped) {
  constexpr std::int64_t kRows = 150, kWidth = 72;
  std::vector<std::int32_t> targets(kRows);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    targets[t] = t % 7 == 3 ? -1 : static_cast<std::int32_t>(t * 31 % entries);
  }
  // Other inputs with a cap or terms, since their results have other sums.
  const bool smoothed = terms.label_smoothing > 0;
  const std::uint32_t seed = (capped ? 3 : 1) + (terms.any() ? 4 : 0) + (smoothed ? 4 : 0);
  HeadLossInputs inputs{.x = test.input({kRows, kWidth}, exact_values(kRows * kWidth, seed)),
                        .head = test.input({entries, kWidth}, exact_values(entries * kWidth, 2)),
                        .targets = test.input({kRows}, targets),
                        .weight = test.input({1}, std::vector{0.5F}),
                        .entries_per_chunk = 256,
                        .soft_cap = capped ? 30.0F : 0.0F};
  if (terms.any()) {
    inputs.terms = {
        .label_smoothing = smoothed ? 0.1F : 0.0F, .z_loss = 1e-3F, .nll = test.output({kRows})};
  }
  record_head_loss(test.batch(), test.output({kRows}),
                   gradient ? test.output({kRows, kWidth}) : Tensor(), inputs);
}

std::int64_t head_chunk_tiles(std::int64_t row_tiles, std::int64_t tiles, std::int64_t most,
                              std::int64_t units) {
  constexpr std::int64_t kRoundsOfAChunk = 3;  // start and accumulation of a chunk, in rounds
  std::int64_t best = most;
  std::int64_t best_rounds = 0;
  for (std::int64_t each = most; each > most / 2; --each) {
    const std::int64_t last = tiles % each;
    const std::int64_t rounds =
        tiles / each * (divide_up(row_tiles * each, units) + kRoundsOfAChunk) +
        (last > 0 ? divide_up(row_tiles * last, units) + kRoundsOfAChunk : 0);
    if (best_rounds > 0 && rounds >= best_rounds) continue;
    best = each;
    best_rounds = rounds;
  }
  return best;
}

}  // namespace clora
