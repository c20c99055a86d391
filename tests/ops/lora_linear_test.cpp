#include "clora/ops/lora_linear/lora_linear.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>
#include <tuple>

#include "clora/ops/rowwise/dropout.hpp"
#include "ops/lora_linear/weight_gradient.hpp"
#include "tests/reference/lora_linear_reference.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_groups.hpp"

namespace clora {
namespace {

using test::expect_close;
using test::random_values;
using test::to_double;

struct Case {
  std::int64_t t = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t r = 0;
  // Forward and backward, twice, cost about four products of this size.
  bool affordable() const { return test::affords(static_cast<double>(t * n * k)); }
};
const std::vector<Case> kCases = {{1, 1, 1, 1},       {2, 33, 65, 3},     {12, 32, 32, 8},
                                  {17, 3, 5, 2},      {13, 31, 97, 16},   {37, 129, 64, 17},
                                  {50, 64, 640, 256}, {65, 192, 576, 16}, {300, 33, 64, 8},
                                  {520, 24, 1100, 20}};

std::vector<float> values(std::int64_t count, std::uint32_t seed) {
  return random_values(static_cast<std::size_t>(count), seed);
}

// One layer on the device, with its reference.
struct Layer {
  Case size;
  std::vector<float> x, dy, a, bt;
  test::WeightMatrix w;
  LinearWeights weights;
  LoraWeights lora;
  test::LoraLinearReference reference;

  Layer(Context& context, const Case& c, float probability = 0, DType type = DType::bf16,
        Layout layout = Layout::plain)
      : size(c),
        x(values(c.t * c.k, 1)),
        dy(values(c.t * c.n, 2)),
        a(values(c.r * c.k, 3)),
        bt(values(c.r * c.n, 4)),
        w(test::random_weights(type, c.n, c.k, 5)) {
    weights = {w.upload(context, layout), {}};
    lora = {test::upload(context, {c.r, c.k}, a), test::upload(context, {c.r, c.n}, bt), 0.5F, {}};
    reference = {static_cast<std::size_t>(c.t),
                 static_cast<std::size_t>(c.n),
                 static_cast<std::size_t>(c.k),
                 static_cast<std::size_t>(c.r),
                 0.5,
                 w.values,
                 to_double(a),
                 to_double(bt)};
    if (probability > 0) add_dropout(context, probability);
  }

  // The mask is the result of dropout applied to ones.
  void add_dropout(Context& context, float probability) {
    const std::vector<std::uint32_t> words{17, 4};
    lora.dropout = {probability,
                    context.upload<std::uint32_t>({2}, DType::u32, words, MemoryTag::scratch), 3};
    const std::vector<float> ones(x.size(), 1.0F);
    const Tensor mask = test::upload(context, {size.t, size.k}, ones);
    Batch batch(context);
    record_dropout(batch, mask, mask, lora.dropout.seed_and_step, {probability, 3}, false);
    batch.submit().wait();
    reference.mask = to_double(context.read<float>(mask));
  }

  std::size_t terms() const { return static_cast<std::size_t>(size.n + size.k + size.r + size.t); }
  std::string text() const {
    return fmt::format("t {} n {} k {} r {} p {}", size.t, size.n, size.k, size.r,
                       lora.dropout.probability);
  }
};

class LoraLinear : public test::OpTest {
 protected:
  Tensor up(Shape shape, std::span<const float> v, DType type = DType::f32) {
    std::vector<float> stored(v.begin(), v.end());
    return test::upload_as(context(), type, shape, stored);
  }
  // The rounding of activations and of values computed from them.
  static double rounding(DType type) { return 4 * test::rounding_of(type); }

  double tolerance(std::size_t terms) const {
    return test::product_tolerance_of(GetParam(), terms);
  }

  void expect_forward(const Layer& layer, DType type = DType::f32) {
    const Case& c = layer.size;
    test::Output y(context(), {c.t, c.n}, type);
    test::Output s(context(), {c.t, c.r}, type);
    run([&](Batch& batch) {
      record_lora_linear(batch, y.tensor(), s.tensor(), up({c.t, c.k}, layer.x, type),
                         layer.weights, layer.lora);
    });
    const double allowed = rounding(type) + 2 * tolerance(layer.terms());
    expect_close(s.values(), layer.reference.s(to_double(layer.x)), allowed, "s " + layer.text());
    expect_close(y.values(), layer.reference.forward(to_double(layer.x)), allowed,
                 "y " + layer.text());
  }

  // Calls the backward twice: the first call overwrites dx, the second accumulates. All gradients
  // are doubled.
  void expect_backward(const Layer& layer, DType type = DType::f32) {
    const Case& c = layer.size;
    const auto x = to_double(layer.x);
    const auto dy = to_double(layer.dy);
    std::vector<float> s;
    for (const double value : layer.reference.s(x)) s.push_back(static_cast<float>(value));
    test::Output dx(context(), {c.t, c.k}, type);
    test::Output da(context(), {c.r, c.k});
    test::Output dbt(context(), {c.r, c.n});
    run([&](Batch& batch) {
      batch.fill_zero(da.tensor());
      batch.fill_zero(dbt.tensor());
      const LoraLinearSaved saved{up({c.t, c.k}, layer.x, type), up({c.t, c.r}, s, type)};
      const Tensor gradient = up({c.t, c.n}, layer.dy, type);
      for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
        record_lora_linear_backward(batch, dx.tensor(), {da.tensor(), dbt.tensor()}, gradient,
                                    saved, layer.weights, layer.lora, accumulate);
      }
    });
    const double allowed = rounding(type) + 4 * tolerance(layer.terms());
    const auto twice = [](std::vector<double> v) {
      for (double& value : v) value *= 2;
      return v;
    };
    expect_close(dx.values(), twice(layer.reference.dx(dy)), allowed, "dx " + layer.text());
    expect_close(da.values(), twice(layer.reference.da(dy, x)), allowed, "da " + layer.text());
    expect_close(dbt.values(), twice(layer.reference.dbt(dy, x)), allowed, "dbt " + layer.text());
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, LoraLinear, test::all_variants(), test::variant_name);

TEST_P(LoraLinear, ForwardAddsTheAdapterInEveryShape) {
  for (const Case& c : kCases) {
    if (c.affordable()) expect_forward(Layer(context(), c));
  }
}

// For these sizes a GPU fuses the shrink into the product: items with blocks of four, two and one K
// steps, teams of all sizes, groups that process several columns, and weights that are prefetched
// in their stored form or not.
TEST_P(LoraLinear, ForwardOfOneRowOrTwoAddsTheAdapter) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Case& c : {Case{1, 40, 3592, 8},
                          {1, 7, 1032, 3},
                          {1, 300, 264, 20},
                          {1, 33, 4104, 1},
                          {2, 40, 1544, 8}}) {
      if (c.affordable()) expect_forward(Layer(context(), c, 0, type));
    }
  }
}

// For ranks up to 64 the shrink is fused into the product: several blocks of K, ranks that are not
// a multiple of four, and rows that fill less than a tile or more than one chunk of tiles.
TEST_P(LoraLinear, ForwardAddsTheAdapterToPackedWeights) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Case& c : {Case{5, 48, 64, 3},
                          {12, 16, 64, 1},
                          {13, 80, 192, 8},
                          {64, 96, 1344, 3},
                          {29, 48, 2112, 17},
                          {205, 32, 128, 64},
                          {31, 144, 64, 70}}) {
      if (c.affordable()) expect_forward(Layer(context(), c, 0, type, Layout::packed));
    }
  }
}

TEST_P(LoraLinear, BackwardGivesAllGradientsAndAccumulates) {
  for (const Case& c : kCases) {
    if (c.affordable()) expect_backward(Layer(context(), c));
  }
}

TEST_P(LoraLinear, ActivationsMayBeHalves) {
  for (const Case& c :
       {Case{2, 33, 65, 3}, {37, 129, 64, 17}, {65, 192, 576, 16}, {140, 40, 72, 5}}) {
    for (const float probability : {0.0F, 0.3F}) {
      if (!c.affordable()) continue;
      Layer layer(context(), c, probability);
      if (GetParam() == Variant::wgmma) {
        layer.lora.a_bf16 = up({c.r, c.k}, layer.a, DType::bf16);
        layer.lora.bt_bf16 = up({c.r, c.n}, layer.bt, DType::bf16);
      }
      for (const DType type : {DType::bf16, DType::f16}) {
        expect_forward(layer, type);
        expect_backward(layer, type);
      }
    }
  }
}

// Three layers of equal rank, also small ones for simulators; two layers; two layers of which one
// has no adapter; two with dropout.
TEST_P(LoraLinear, SeveralLayersOfOneInputAreWhatEachIsAlone) {
  for (const auto& [rows, in, widths, rank, probability] :
       {std::tuple{std::int64_t{140}, std::int64_t{136}, std::vector<std::int64_t>{600, 40, 72},
                   std::int64_t{8}, 0.0F},
        {17, 16, {16, 8, 40}, 8, 0.0F},
        {140, 136, {136, 264}, 20, 0.0F},
        {140, 136, {136, 264}, 0, 0.0F},
        {140, 136, {40, 72}, 8, 0.3F}}) {
    const std::int64_t all_widths = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
    if (!test::affords(rows * in * all_widths)) continue;
    const Tensor x = up({rows, in}, values(rows * in, 1), DType::bf16);
    std::vector<Layer> layers;
    for (const std::int64_t n : widths) {
      layers.emplace_back(context(), Case{rows, n, in, std::max<std::int64_t>(rank, 8)},
                          probability);
    }
    if (rank == 0) layers.back().lora = {};
    struct Results {
      std::vector<LoraOutput> outputs;
      std::vector<LoraBranch> branches;
      Tensor dx;
    };
    const auto results = [&] {
      Results r{{}, {}, up({rows, in}, values(rows * in, 9))};
      for (const Layer& layer : layers) {
        const auto zeros = [&](Shape shape) {
          return up(shape, std::vector<float>(static_cast<std::size_t>(shape.elements())));
        };
        const Case& c = layer.size;
        const Tensor s = layer.lora.empty() ? Tensor() : zeros({c.t, c.r});
        r.outputs.push_back({zeros({c.t, c.n}), s, layer.weights, layer.lora});
        r.branches.push_back({{zeros({c.r, c.k}), zeros({c.r, c.n})},
                              up({c.t, c.n}, layer.dy, DType::bf16),
                              s,
                              layer.weights,
                              layer.lora});
      }
      return r;
    };
    const Results joined = results(), alone = results();
    run([&](Batch& batch) {
      record_lora_linears(batch, x, joined.outputs);
      record_lora_linears_backward(batch, joined.dx, x, joined.branches, Accumulate::no);
      for (const auto& [y, s, weights, lora, residual] : alone.outputs) {
        record_lora_linear(batch, y, s, x, weights, lora, residual);
      }
      Accumulate accumulate = Accumulate::no;
      for (const auto& [gradients, dy, s, weights, lora] : alone.branches) {
        record_lora_linear_backward(batch, alone.dx, gradients, dy, {x, s}, weights, lora,
                                    accumulate);
        accumulate = Accumulate::yes;
      }
    });
    const auto expect_same = [&](const Tensor& got, const Tensor& want, const char* what) {
      expect_close(context().read<float>(got), to_double(context().read<float>(want)), 1e-4,
                   fmt::format("{} of {} layers, rank {}", what, widths.size(), rank));
    };
    expect_same(joined.dx, alone.dx, "dx");
    for (std::size_t i = 0; i < layers.size(); ++i) {
      expect_same(joined.outputs[i].y, alone.outputs[i].y, "y");
      expect_same(joined.branches[i].gradients.da, alone.branches[i].gradients.da, "da");
      expect_same(joined.branches[i].gradients.dbt, alone.branches[i].gradients.dbt, "dbt");
    }
  }
}

// Consecutive layers of equal and of different ranks, whose da are deferred to later ones.
TEST_P(LoraLinear, DeferredGradientsAreCompleteWhenTheyAreFlushed) {
  CLORA_SKIP_UNLESS_AFFORDED(140 * 600 * 136 * 4);
  struct OfLayer {
    Layer layer;
    test::Output dx, da, dbt;
  };
  std::vector<OfLayer> all;
  for (const Case& c : {Case{140, 600, 136, 8}, {140, 40, 600, 8}, {140, 72, 40, 20}}) {
    all.push_back({Layer(context(), c),
                   {context(), {c.t, c.k}},
                   {context(), {c.r, c.k}},
                   {context(), {c.r, c.n}}});
  }
  run([&](Batch& batch) {
    DeferredGradients deferred;
    for (const auto& [layer, dx, da, dbt] : all) {
      const Case& c = layer.size;
      batch.fill_zero(da.tensor());
      batch.fill_zero(dbt.tensor());
      std::vector<float> s;
      for (const double value : layer.reference.s(to_double(layer.x))) {
        s.push_back(static_cast<float>(value));
      }
      const LoraBranch branch{{da.tensor(), dbt.tensor()},
                              up({c.t, c.n}, layer.dy),
                              up({c.t, c.r}, s),
                              layer.weights,
                              layer.lora};
      const auto pending =
          record_lora_linears_dx(batch, dx.tensor(), {&branch, 1}, Accumulate::no, deferred);
      record_lora_linears_da(batch, up({c.t, c.k}, layer.x), pending, deferred);
    }
    deferred.flush(batch);
  });
  for (const auto& [layer, dx, da, dbt] : all) {
    const auto x = to_double(layer.x), dy = to_double(layer.dy);
    const double allowed = 4 * tolerance(layer.terms());
    expect_close(dx.values(), layer.reference.dx(dy), allowed, "dx " + layer.text());
    expect_close(da.values(), layer.reference.da(dy, x), allowed, "da " + layer.text());
    expect_close(dbt.values(), layer.reference.dbt(dy, x), allowed, "dbt " + layer.text());
  }
}

TEST_P(LoraLinear, DropoutHitsTheAdapterAloneAndTheBackwardUsesTheSameMask) {
  for (const Case& c : {Case{13, 31, 97, 16}, Case{3, 40, 64, 4}}) {
    if (!c.affordable()) continue;
    const Layer layer(context(), c, 0.3F);
    expect_forward(layer);
    expect_backward(layer);
  }
}

TEST_P(LoraLinear, WithoutAnAdapterItIsThePlainLayer) {
  const Layer layer(context(), {13, 31, 97, 16});
  test::Output y(context(), {13, 31});
  test::Output dx(context(), {13, 97});
  run([&](Batch& batch) {
    record_lora_linear(batch, y.tensor(), {}, up({13, 97}, layer.x), layer.weights, {});
    record_lora_linear_backward(batch, dx.tensor(), {}, up({13, 31}, layer.dy), {}, layer.weights,
                                {}, Accumulate::no);
  });
  const auto x = to_double(layer.x);
  const auto dy = to_double(layer.dy);
  expect_close(y.values(), test::gemm_reference(x, layer.w.values, {13, 31, 97}), tolerance(97),
               "y");
  expect_close(dx.values(), test::gemm_backward_reference(dy, layer.w.values, {13, 31, 97}),
               tolerance(31), "dx");
}

TEST_P(LoraLinear, BackwardWithoutDxStillGivesTheAdaptersGradients) {
  const Layer layer(context(), {13, 31, 97, 16});
  const auto x = to_double(layer.x);
  const auto dy = to_double(layer.dy);
  std::vector<float> s;
  for (const double value : layer.reference.s(x)) s.push_back(static_cast<float>(value));
  const LoraGradients gradients{up({16, 97}, std::vector<float>(16 * 97)),
                                up({16, 31}, std::vector<float>(16 * 31))};
  run([&](Batch& batch) {
    record_lora_linear_backward(batch, {}, gradients, up({13, 31}, layer.dy),
                                {up({13, 97}, layer.x), up({13, 16}, s)}, layer.weights, layer.lora,
                                Accumulate::no);
  });
  expect_close(context().read<float>(gradients.da), layer.reference.da(dy, x), tolerance(200),
               "da");
  expect_close(context().read<float>(gradients.dbt), layer.reference.dbt(dy, x), tolerance(200),
               "dbt");
}

TEST_P(LoraLinear, TheUnfusedReferenceAgreesWithBiasAndResidual) {
  CLORA_SKIP_UNLESS_AFFORDED(29 * 70 * 130 / 4);
  for (const float probability : {0.0F, 0.25F}) {
    Layer layer(context(), {29, 70, 130, 5}, probability);
    layer.weights.bias = up({70}, values(70, 8));
    const Tensor residual = up({29, 70}, values(29 * 70, 9));
    const Tensor x = up({29, 130}, layer.x);
    test::Output fused(context(), {29, 70});
    test::Output unfused(context(), {29, 70});
    const Tensor s = context().allocate({29, 5}, DType::f32, MemoryTag::scratch);
    run([&](Batch& batch) {
      record_lora_linear(batch, fused.tensor(), s, x, layer.weights, layer.lora, residual);
      record_lora_linear_unfused(batch, unfused.tensor(), s, x, layer.weights, layer.lora,
                                 residual);
    });
    expect_close(fused.values(), to_double(unfused.values()), tolerance(135), "fused");
  }
}

// Rows of two adapters and of none, in one of two layers with the same input, each with factors of
// its columns.
TEST_P(LoraLinear, RowsOfSeveralAdaptersAreWhatEachAdapterGives) {
  // Rank 8: a part of a and of B transposed starts where a GPU lets a kernel argument start (512
  // bytes).
  constexpr std::int64_t kRank = 8, kColumns = 48, kSteps = 64;
  CLORA_SKIP_UNLESS_AFFORDED(40 * kColumns * kSteps);
  const auto a = values(2 * kRank * kSteps, 1), bt = values(2 * kRank * kColumns, 2);
  const auto column_scale = values(kColumns, 3);
  const Tensor as = up({2, kRank, kSteps}, a), bts = up({2, kRank, kColumns}, bt);
  for (const std::int64_t rows : {5, 40}) {
    const std::vector<RowGroup> groups{{0, 2, 1}, {3, rows, 0}};
    const Tensor x = up({rows, kSteps}, values(rows * kSteps, 4));
    const LinearWeights weights{
        test::random_weights(DType::bf16, kColumns, kSteps, 5).upload(context()),
        up({kColumns}, values(kColumns, 6))};
    LoraOutput together{context().allocate({rows, kColumns}, DType::f32, MemoryTag::scratch),
                        context().allocate({rows, kRank}, DType::f32, MemoryTag::scratch),
                        weights,
                        {as, bts, 0.5F, {}}};
    together.lora.row_groups = test::upload_row_groups(context(), rows, groups);
    together.lora.column_scale = up({kColumns}, column_scale);
    std::vector<LoraOutput> alone;
    for (int i = 0; i < 3; ++i) {  // adapters 0 and 1, and none
      alone.push_back({context().allocate({rows, kColumns}, DType::f32, MemoryTag::scratch),
                       context().allocate({rows, kRank}, DType::f32, MemoryTag::scratch),
                       weights,
                       {}});
      alone.back().lora.column_scale = together.lora.column_scale;
      if (i == 2) continue;
      alone.back().lora.a = as.reshape({2 * kRank, kSteps}).rows(i * kRank, kRank);
      alone.back().lora.bt = bts.reshape({2 * kRank, kColumns}).rows(i * kRank, kRank);
      alone.back().lora.scale = 0.5F;
    }
    LoraOutput same = together;
    same.y = context().allocate({rows, kColumns}, DType::f32, MemoryTag::scratch);
    same.s = context().allocate({rows, kRank}, DType::f32, MemoryTag::scratch);
    run([&](Batch& batch) {
      record_lora_linears(batch, x, std::vector<LoraOutput>{together, same});
      for (const LoraOutput& each : alone) {
        record_lora_linear(batch, each.y, each.s, x, each.weights, each.lora);
      }
    });
    for (const Tensor& y : {together.y, same.y}) {
      for (std::int64_t m = 0; m < rows; ++m) {
        const std::size_t of = m < 2 ? 1 : m == 2 ? 2 : 0;
        expect_close(context().read<float>(y.rows(m, 1)),
                     to_double(context().read<float>(alone[of].y.rows(m, 1))), tolerance(70),
                     fmt::format("row {} of {}", m, rows));
      }
    }
  }
}

// The reference's gradients are the derivatives of its forward.
TEST(LoraLinearReference, BackwardIsTheDerivative) {
  test::LoraLinearReference layer{3, 4, 5, 2, 0.5, {}, {}, {}, {}};
  layer.w = to_double(random_values(20, 1));
  layer.a = to_double(random_values(10, 2));
  layer.bt = to_double(random_values(8, 3));
  layer.mask = std::vector<double>(15, 1.25);
  layer.mask[2] = layer.mask[7] = layer.mask[8] = 0;
  const auto x = to_double(random_values(15, 4));
  const auto dy = to_double(random_values(12, 5));
  const auto loss = [&](const test::LoraLinearReference& of, const std::vector<double>& at) {
    const auto y = of.forward(at);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  const auto by_x = [&](const std::vector<double>& at) { return loss(layer, at); };
  const auto by_a = [&](const std::vector<double>& at) {
    auto changed = layer;
    changed.a = at;
    return loss(changed, x);
  };
  const auto by_bt = [&](const std::vector<double>& at) {
    auto changed = layer;
    changed.bt = at;
    return loss(changed, x);
  };
  expect_close(layer.dx(dy), test::central_differences(by_x, x), 1e-8, "dx");
  expect_close(layer.da(dy, x), test::central_differences(by_a, layer.a), 1e-8, "da");
  expect_close(layer.dbt(dy, x), test::central_differences(by_bt, layer.bt), 1e-8, "dbt");
}

// y += a^T b of a [T, M] and b [T, N].
void add_product(std::vector<double>& y, const std::vector<float>& a, const std::vector<float>& b,
                 std::size_t rows) {
  const std::size_t m = a.size() / rows, n = b.size() / rows;
  for (std::size_t i = 0; i < m * n; ++i) {
    for (std::size_t t = 0; t < rows; ++t) {
      y[i] += static_cast<double>(a[t * m + i / n]) * static_cast<double>(b[t * n + i % n]);
    }
  }
}

// More outputs than one product has.
TEST_P(LoraLinear, GradientsOfATrainedWeightAndBiasAreAdded) {
  for (const std::int64_t outputs : {1, 65, 4101}) {
    constexpr std::int64_t kRows = 37, kInputs = 9;
    if (!test::affords(static_cast<double>(kRows * kInputs * outputs))) continue;
    const auto dy = values(kRows * outputs, 1), x = values(kRows * kInputs, 2);
    const std::vector<float> ones(kRows, 1.0F);
    const auto w = values(outputs * kInputs, 3), bias = values(outputs, 4);
    const Tensor dw = up({outputs, kInputs}, w), dbias = up({outputs}, bias);
    run([&](Batch& batch) {
      const Tensor of_y = up({kRows, outputs}, dy);
      record_weight_gradient(batch, dw, of_y, up({kRows, kInputs}, x));
      record_gradient(batch, bias_gradient(dbias, of_y, up({kRows, 1}, ones)));
    });
    auto want = to_double(w), want_bias = to_double(bias);
    add_product(want, dy, x, kRows);
    add_product(want_bias, ones, dy, kRows);
    const double allowed = 4 * tolerance(kRows);
    expect_close(context().read<float>(dw), want, allowed, fmt::format("dw {}", outputs));
    expect_close(context().read<float>(dbias), want_bias, allowed, fmt::format("{}", outputs));
  }
}

TEST_P(LoraLinear, TheGradientHasTheSameBitsEveryRun) {
  CLORA_SKIP_UNLESS_AFFORDED(300 * 9 * 70 / 4);
  const Tensor s = up({300, 9}, values(300 * 9, 1));
  const Tensor x = up({300, 70}, values(300 * 70, 2));
  std::vector<std::vector<float>> results;
  for (int i = 0; i < 2; ++i) {
    const Tensor out = up({9, 70}, std::vector<float>(9 * 70));
    run([&](Batch& batch) { record_lora_gradient(batch, out, s, x, 1.5F); });
    results.push_back(context().read<float>(out));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(LoraLinear, RefusesWhatDoesNotFit) {
  using testing::HasSubstr;
  const auto f32 = [&](Shape shape) {
    return context().allocate(shape, DType::f32, MemoryTag::scratch);
  };
  const LinearWeights weights{f32({8, 6}), {}};
  const LoraWeights lora{f32({2, 6}), f32({2, 8}), 1, {}};
  const auto forward = [&](const LoraWeights& given, const Tensor& s) {
    Batch batch(context());
    return test::error_of([&] {
      record_lora_linear(batch, f32({4, 8}), s, f32({4, 6}), weights, given);
    });
  };
  EXPECT_THAT(forward({f32({2, 5}), f32({2, 8}), 1, {}}, f32({4, 2})), HasSubstr("lora.a must be"));
  EXPECT_THAT(forward({f32({2, 6}), f32({3, 8}), 1, {}}, f32({4, 2})),
              HasSubstr("lora.bt must be"));
  EXPECT_THAT(forward(lora, f32({4, 3})), HasSubstr("s must be f32 [4, 2]"));
  LoraWeights dropping = lora;
  dropping.dropout.probability = 0.5F;
  EXPECT_THAT(forward(dropping, f32({4, 2})), HasSubstr("seed_and_step must be"));
  dropping.dropout.probability = 1;
  EXPECT_THAT(forward(dropping, f32({4, 2})), HasSubstr("below 1"));
  LoraWeights grouped = lora;
  grouped.row_groups = context().allocate({4, kRowGroupWords}, DType::u32, MemoryTag::scratch);
  EXPECT_THAT(forward(grouped, f32({4, 2})), HasSubstr("lora.a must be a stack of matrices"));
  LoraWeights scaled = lora;
  scaled.column_scale = f32({8});
  scaled.dropout = {0.5F, context().allocate({2}, DType::u32, MemoryTag::scratch), 1};
  EXPECT_THAT(forward(scaled, f32({4, 2})), HasSubstr("are for the forward without dropout"));

  const LoraGradients gradients{f32({2, 6}), f32({2, 8})};
  const auto backward = [&](const Tensor& dx, const LoraGradients& into, const Tensor& dy,
                            const LoraLinearSaved& saved) {
    Batch batch(context());
    return test::error_of([&] {
      record_lora_linear_backward(batch, dx, into, dy, saved, weights, lora, Accumulate::no);
    });
  };
  const Tensor x = f32({4, 6});
  EXPECT_THAT(backward(f32({4, 6}), gradients, f32({4, 8}), {f32({4, 5}), f32({4, 2})}),
              HasSubstr("saved.x must be"));
  EXPECT_THAT(backward(f32({4, 6}), gradients, f32({4, 8}), {x, f32({4, 3})}),
              HasSubstr("saved.s must be"));
  EXPECT_THAT(backward(x, gradients, f32({4, 8}), {x, f32({4, 2})}),
              HasSubstr("dx must not alias saved.x"));
  EXPECT_THAT(backward(f32({4, 6}), {f32({2, 6}), f32({3, 8})}, f32({4, 8}), {x, f32({4, 2})}),
              HasSubstr("out must be f32 [2, 8]"));
  scaled.dropout = {};
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_lora_linear_backward(batch, f32({4, 6}), gradients, f32({4, 8}),
                                            {x, f32({4, 2})}, weights, scaled, Accumulate::no);
              }),
              HasSubstr("are for the forward without dropout"));
  EXPECT_THAT(backward(f32({4, 6}), gradients, Tensor(), {x, f32({4, 2})}),
              HasSubstr("dy must be a matrix of f32, bf16 or f16"));
}

}  // namespace
}  // namespace clora
