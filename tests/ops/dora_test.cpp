#include "clora/ops/lora_linear/dora.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "clora/ops/rowwise/dropout.hpp"
#include "ops/lora_linear/dora_magnitudes.hpp"
#include "runtime/integer_sizes.hpp"
#include "tests/reference/dora_reference.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using test::expect_close;
using test::to_double;

struct Case {
  std::int64_t t = 0, n = 0, k = 0, r = 0;
  bool affordable() const { return test::affords(static_cast<double>(t * n * k)); }
};
const std::vector<Case> kCases = {
    {1, 1, 1, 1}, {2, 33, 65, 3}, {37, 136, 64, 17}, {150, 24, 97, 5}};

std::vector<float> values(std::int64_t count, std::uint32_t seed, float scale = 1) {
  return test::random_values(static_cast<std::size_t>(count), seed, scale);
}

// One layer on the device, with its reference. A small adapter, as in training: the norms of its
// product are below those of w, so that no norm cancels.
struct Layer {
  Case size;
  std::vector<float> x, dy, a, bt, magnitude, bias;
  LinearWeights weights;
  LoraWeights lora;
  Tensor magnitudes, column_scale;
  test::DoraReference reference;

  Layer(Context& context, const Case& c, DType type = DType::f32, Layout layout = Layout::plain)
      : size(c),
        x(values(c.t * c.k, 1)),
        dy(values(c.t * c.n, 2)),
        a(values(c.r * c.k, 3)),
        bt(values(c.r * c.n, 4, 0.3F)),
        magnitude(values(c.n, 6, 3)),
        bias(values(c.n, 7)) {
    const test::WeightMatrix w = test::random_weights(type, c.n, c.k, 5);
    if (magnitude.size() > 2) magnitude[1] = 0;
    weights = {w.upload(context, layout), test::upload(context, {c.n}, bias)};
    lora = {test::upload(context, {c.r, c.k}, a), test::upload(context, {c.r, c.n}, bt), 0.5F, {}};
    magnitudes = test::upload(context, {c.n}, magnitude);
    const auto count = [](std::int64_t of) { return static_cast<std::size_t>(of); };
    reference = {{count(c.t), count(c.n), count(c.k), count(c.r), 0.5, w.values, to_double(a),
                  to_double(bt)},
                 to_double(magnitude),
                 to_double(bias)};
    set_factors(context);
  }

  // The exact factors: what reads them is tested apart from what computes them.
  void set_factors(Context& context) {
    const std::vector<double> exact = reference.column_scale();
    const std::vector<float> rounded(exact.begin(), exact.end());
    column_scale = test::upload(context, {size.n}, rounded);
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
    reference.layer.mask = to_double(context.read<float>(mask));
  }

  std::size_t terms() const { return static_cast<std::size_t>(size.n + size.k + size.r + size.t); }
  std::string text() const {
    return fmt::format("t {} n {} k {} r {} p {}", size.t, size.n, size.k, size.r,
                       lora.dropout.probability);
  }
};

class Dora : public test::OpTest {
 protected:
  Tensor up(Shape shape, std::span<const float> v, DType type = DType::f32) {
    std::vector<float> stored(v.begin(), v.end());
    return test::upload_as(context(), type, shape, stored);
  }
  double tolerance(const Layer& layer, DType type = DType::f32) const {
    return 4 * test::rounding_of(type) + 4 * test::product_tolerance_of(GetParam(), layer.terms());
  }

  void expect_weight_norms(DType type, Layout layout, std::int64_t rows, std::int64_t columns) {
    const test::WeightMatrix w = test::random_weights(type, rows, columns, 5);
    std::vector<double> want(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < w.values.size(); ++i) {
      want[i / static_cast<std::size_t>(columns)] += w.values[i] * w.values[i];
    }
    test::Output squared(context(), {rows});
    run([&](Batch& batch) {
      record_weight_norms(batch, squared.tensor(), w.upload(context(), layout));
    });
    expect_close(squared.values(), want, 2e-6,
                 fmt::format("{} {} {}", name_of(type), rows, columns));
  }

  // Where all products are of f32, or of bf16 weights by the launch for NVIDIA's GPUs, rounding to
  // bf16 is not allowed for.
  double tolerance_of_factors(const Layer& layer) const {
    const Weight& w = layer.weights.w;
    const bool is_fused = capabilities().ptx && capabilities().has_gpu_matrices() &&
                          w.type() == DType::bf16 && w.layout() == Layout::plain;
    const bool is_aligned = layer.size.k % 8 == 0;
    return is_fused && is_aligned ? 1e-5 : tolerance(layer);
  }

  // The factors of all layers, which the op computes in common launches.
  void expect_column_scales(const std::vector<Layer>& layers) {
    // Where kernel arguments may begin.
    const std::size_t step = context().device().base_alignment_bytes / sizeof(float);
    std::vector<float> parameters;
    const auto place = [&](const std::vector<float>& part) {
      const std::size_t at = parameters.size();
      parameters.insert(parameters.end(), part.begin(), part.end());
      parameters.resize(round_up(parameters.size(), step));
      return at;
    };
    DoraLayers all;
    std::size_t columns = 0;
    for (const Layer& layer : layers) {
      all.layers.push_back({layer.weights.w, layer.size.r, layer.lora.scale, place(layer.a),
                            place(layer.bt), place(layer.magnitude), columns});
      columns += round_up(static_cast<std::size_t>(layer.size.n), step);
    }
    all.parameters = up({std::ssize(parameters)}, parameters);
    const std::vector<float> none(columns, NAN);
    all.squared = up({std::ssize(none)}, none);
    all.column_scale = up({std::ssize(none)}, none);
    const auto part = [&](const Tensor& flat, std::size_t i) {
      return flat.slice(all.layers[i].columns * sizeof(float), {layers[i].size.n}, DType::f32);
    };
    run([&](Batch& batch) {
      for (std::size_t i = 0; i < layers.size(); ++i) {
        record_weight_norms(batch, part(all.squared, i), layers[i].weights.w);
      }
      record_column_scales(batch, all);
    });
    for (std::size_t i = 0; i < layers.size(); ++i) {
      expect_close(context().read<float>(part(all.column_scale, i)),
                   layers[i].reference.column_scale(), tolerance_of_factors(layers[i]),
                   layers[i].text());
    }
  }

  // dy' and dm, twice: the magnitudes' gradients accumulate.
  void expect_backward(const Layer& layer, DType dy_type, DType f_type, bool has_bias) {
    const Case& c = layer.size;
    const auto g = layer.reference.column_scale();
    const auto exact = layer.reference.f(to_double(layer.x), g);
    std::vector<float> f(exact.begin(), exact.end()), dy = layer.dy;
    for (std::size_t i = 0; i < f.size() && has_bias; ++i)
      f[i] += layer.bias[i % layer.bias.size()];
    const Tensor output = test::upload_as(context(), f_type, {c.t, c.n}, f);
    const Tensor gradient = test::upload_as(context(), dy_type, {c.t, c.n}, dy);
    test::Output scaled(context(), {c.t, c.n}, dy_type);
    test::Output dm(context(), {c.n});
    run([&](Batch& batch) {
      batch.fill_zero(dm.tensor());
      for (int i = 0; i < 2; ++i) {
        record_dora_backward(batch, scaled.tensor(), dm.tensor(), gradient,
                             {output, has_bias ? layer.weights.bias : Tensor(), layer.column_scale,
                              layer.magnitudes});
      }
    });
    auto stored = to_double(f);
    for (std::size_t i = 0; i < f.size() && has_bias; ++i) {
      stored[i] -= layer.bias[i % layer.bias.size()];
    }
    auto want = layer.reference.dmagnitude(to_double(dy), stored);
    for (double& value : want) value *= 2;
    const double allowed = test::tolerance_of(layer.terms());
    expect_close(dm.values(), want, allowed, "dm " + layer.text());
    expect_close(scaled.values(), layer.reference.scaled(to_double(dy), g),
                 allowed + test::rounding_of(dy_type), "dy' " + layer.text());
  }

  void expect_swiglu(std::int64_t rows, std::int64_t columns, DType type, GateFunction function) {
    const Shape shape{rows, columns}, row{columns};
    const auto make = [&](std::uint32_t seed) {
      return up(shape, values(rows * columns, seed), type);
    };
    const Tensor gate = make(1), up_ = make(2);
    const auto factors = [&](std::uint32_t seed) {
      return DoraFactors{up(row, values(columns, seed)), up(row, values(columns, seed + 1, 2)),
                         up(row, values(columns, seed + 2))};
    };
    const DoraFactors of_gate = factors(4), of_up = factors(7);
    const DoraFactors other_gate = factors(4), other_up = factors(7);
    test::Output scaled_gate(context(), shape, type), scaled_up(context(), shape, type);
    test::Output want_gate(context(), shape, type), want_up(context(), shape, type);
    const Tensor y = make(3), dy = make(3), want_y = make(3);
    run([&](Batch& batch) {
      record_dora_swiglu_backward(batch, {scaled_gate.tensor(), scaled_up.tensor(), y, y, gate, up_,
                                          of_gate, of_up, function});
      const Tensor dgate = batch.temporary(shape, DType::f32, "dgate");
      const Tensor dup = batch.temporary(shape, DType::f32, "dup");
      record_swiglu_backward(batch, dgate, dup, dy, gate, up_, want_y, function);
      record_dora_backward(batch, want_gate.tensor(), other_gate.dmagnitude, dgate,
                           {gate, {}, other_gate.column_scale, other_gate.magnitude});
      record_dora_backward(batch, want_up.tensor(), other_up.dmagnitude, dup,
                           {up_, {}, other_up.column_scale, other_up.magnitude});
    });
    const auto expect = [&](const std::vector<float>& got, const std::vector<float>& want,
                            double tolerance, const char* what) {
      expect_close(got, to_double(want), tolerance,
                   fmt::format("{} [{}, {}]", what, rows, columns));
    };
    const double allowed = 1e-6 + test::rounding_of(type);
    expect(scaled_gate.values(), want_gate.values(), allowed, "scaled gate");
    expect(scaled_up.values(), want_up.values(), allowed, "scaled up");
    for (const auto& [got, want] : {std::pair{of_gate, other_gate}, {of_up, other_up}}) {
      expect(context().read<float>(got.dmagnitude), context().read<float>(want.dmagnitude), 1e-5,
             "dm");
    }
    if (type == DType::f32) {
      expect(context().read<float>(y), context().read<float>(want_y), 1e-6, "y");
    }
  }

  void expect_dropout(const Layer& layer, DType type, bool has_residual) {
    const Case& c = layer.size;
    const auto x = to_double(layer.x);
    const auto g = layer.reference.column_scale();
    std::vector<float> rest = values(c.t * c.n, 9);
    const Tensor residual = test::upload_as(context(), type, {c.t, c.n}, rest);
    test::Output y(context(), {c.t, c.n}, type), f(context(), {c.t, c.n}, type);
    test::Output s(context(), {c.t, c.r});
    LoraWeights lora = layer.lora;
    lora.column_scale = layer.column_scale;
    run([&](Batch& batch) {
      record_dora_dropout(batch, up({c.t, c.k}, layer.x, type),
                          {y.tensor(), f.tensor(), s.tensor(), layer.weights, lora,
                           has_residual ? residual : Tensor()});
    });
    auto want = layer.reference.forward(x, g);
    for (std::size_t i = 0; i < want.size() && has_residual; ++i) want[i] += rest[i];
    expect_close(y.values(), want, 2 * tolerance(layer, type), "y " + layer.text());
    expect_close(f.values(), layer.reference.f(x, g), 2 * tolerance(layer, type),
                 "f " + layer.text());
    expect_close(s.values(), layer.reference.layer.s(x), tolerance(layer, type),
                 "s " + layer.text());
  }

  // The first call overwrites dx, the second accumulates. All gradients are doubled.
  void expect_dropout_backward(const Layer& layer, DType type) {
    const Case& c = layer.size;
    const auto x = to_double(layer.x), dy = to_double(layer.dy);
    const auto g = layer.reference.column_scale();
    const auto scaled = layer.reference.scaled(dy, g);
    const std::vector<float> dy_scaled(scaled.begin(), scaled.end());
    const auto exact = layer.reference.layer.s(x);
    const std::vector<float> s(exact.begin(), exact.end());
    test::Output dx(context(), {c.t, c.k}, type), da(context(), {c.r, c.k});
    test::Output dbt(context(), {c.r, c.n});
    run([&](Batch& batch) {
      batch.fill_zero(da.tensor());
      batch.fill_zero(dbt.tensor());
      const LoraBranch branch{{da.tensor(), dbt.tensor()},
                              up({c.t, c.n}, dy_scaled, type),
                              up({c.t, c.r}, s),
                              layer.weights,
                              layer.lora};
      for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
        DeferredGradients deferred;
        const PendingGradient pending = record_dora_dropout_dx(
            batch, dx.tensor(), up({c.t, c.n}, layer.dy, type), branch, accumulate, deferred);
        record_lora_linears_da(batch, up({c.t, c.k}, layer.x, type), {&pending, 1}, deferred);
        deferred.flush(batch);
      }
    });
    const auto twice = [](std::vector<double> v) {
      for (double& value : v) value *= 2;
      return v;
    };
    const double allowed = 2 * tolerance(layer, type);
    expect_close(dx.values(), twice(layer.reference.dx(dy, g)), allowed, "dx " + layer.text());
    expect_close(da.values(), twice(layer.reference.layer.da(scaled, x)), allowed,
                 "da " + layer.text());
    expect_close(dbt.values(), twice(layer.reference.layer.dbt(scaled, x)), allowed,
                 "dbt " + layer.text());
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Dora, test::all_variants(), test::variant_name);

TEST_P(Dora, NormsOfWeightsAreThoseOfTheirRowsInEveryStorageType) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 31}, {5, 32}, {7, 1100}}) {
      expect_weight_norms(type, Layout::plain, rows, columns);
    }
  }
  for (const DType type : {DType::q8_0, DType::q4_0, DType::q5_1, DType::q4_k, DType::q6_k}) {
    expect_weight_norms(type, Layout::plain, 3, 512);
  }
  for (const DType type : {DType::f32, DType::bf16, DType::q8_0, DType::q4_1}) {
    expect_weight_norms(type, Layout::packed, 32, 192);
  }
}

TEST_P(Dora, FactorsAreMagnitudesOverTheNormsOfTheAdaptedRows) {
  std::vector<Layer> layers;
  for (const Case& c : kCases) {
    if (!c.affordable()) continue;
    expect_column_scales({Layer(context(), c)});
    layers.emplace_back(context(), c);
  }
  const Case packed{12, 32, 64, 8};
  if (packed.affordable()) {
    layers.emplace_back(context(), packed, DType::bf16, Layout::packed);
  }
  for (const Case& c : {Case{1, 270, 200, 21}, Case{1, 33, 104, 5}, Case{1, 17, 65, 3}}) {
    if (c.affordable()) layers.emplace_back(context(), c, DType::bf16);
  }
  expect_column_scales(layers);
}

TEST_P(Dora, ARowOfZerosHasTheFactorZero) {
  Layer layer(context(), {1, 2, 2, 1});
  const std::vector<float> w{3, 4, 0, 0};
  layer.weights.w = up({2, 2}, w);
  layer.reference.layer.w = to_double(w);
  layer.a = {0, 0};
  layer.reference.layer.a = {0, 0};
  layer.magnitude = {10, 10};
  layer.reference.magnitude = {10, 10};
  EXPECT_THAT(layer.reference.column_scale(), testing::ElementsAre(2, 0));
  expect_column_scales({layer});
}

TEST_P(Dora, BackwardScalesTheGradientAndAccumulatesThatOfTheMagnitudes) {
  for (const Case& c : kCases) {
    if (!c.affordable()) continue;
    const Layer layer(context(), c);
    expect_backward(layer, DType::f32, DType::f32, false);
    expect_backward(layer, DType::f32, DType::f32, true);
    expect_backward(layer, DType::bf16, DType::bf16, true);
    expect_backward(layer, DType::f32, DType::bf16, false);
  }
}

// More layers than a launch takes, and one of them twice.
TEST_P(Dora, DeferredGradientsOfMagnitudesAreSummedForEachLayer) {
  struct Sum {
    Tensor dmagnitude;
    std::vector<double> want;
  };
  std::vector<Sum> sums;
  DeferredMagnitudes deferred;
  Batch batch(context());
  const auto add = [&](Sum& sum, std::int64_t chunks, std::uint32_t seed) {
    const std::int64_t columns = std::ssize(sum.want);
    const std::vector<float> parts = values(chunks * columns, seed), m(sum.want.size(), 2);
    deferred.add(batch, sum.dmagnitude, up({chunks, columns}, parts), up({columns}, m));
    for (std::size_t i = 0; i < parts.size(); ++i) sum.want[i % sum.want.size()] += parts[i] / 2;
  };
  for (const std::int64_t columns : {1, 15, 16, 17, 40, 2, 3, 64, 5, 33}) {
    const std::vector<float> ones(static_cast<std::size_t>(columns), 1);
    sums.push_back({up({columns}, ones), to_double(ones)});
    add(sums.back(), 3 * columns % 41 + 1, static_cast<std::uint32_t>(columns));
  }
  add(sums.back(), 7, 99);
  deferred.flush(batch);
  deferred.flush(batch);  // nothing is left
  batch.submit().wait();
  for (const Sum& sum : sums) {
    expect_close(context().read<float>(sum.dmagnitude), sum.want, 1e-6,
                 fmt::format("{} columns", sum.want.size()));
  }
}

TEST_P(Dora, TheScaledGradientMayReplaceTheGradient) {
  const Layer layer(context(), {5, 12, 6, 2});
  const Tensor dy = up({5, 12}, layer.dy), f = up({5, 12}, layer.dy);
  const Tensor dm = up({12}, std::vector<float>(12));
  run([&](Batch& batch) {
    record_dora_backward(batch, dy, dm, dy, {f, {}, layer.column_scale, layer.magnitudes});
  });
  expect_close(context().read<float>(dy),
               layer.reference.scaled(to_double(layer.dy), layer.reference.column_scale()), 1e-6,
               "dy'");
}

// As the backward of swiglu and that of the two layers, one after the other.
TEST_P(Dora, TheBackwardOfSwigluScalesBothGradientsAndHasThoseOfTheMagnitudes) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {5, 7}, {70, 40}, {300, 132}}) {
    for (const DType type : {DType::f32, DType::bf16}) {
      for (const GateFunction function : {GateFunction::silu, GateFunction::gelu}) {
        expect_swiglu(rows, columns, type, function);
      }
    }
  }
}

TEST_P(Dora, WithDropoutTheForwardIsThatOfPeft) {
  for (const Case& c : kCases) {
    if (!c.affordable()) continue;
    Layer layer(context(), c);
    layer.add_dropout(context(), 0.3F);
    expect_dropout(layer, DType::f32, false);
    expect_dropout(layer, DType::f32, true);
    if (!context().capabilities().cpu) expect_dropout(layer, DType::bf16, false);
  }
}

TEST_P(Dora, WithDropoutTheBackwardGivesAllGradientsAndAccumulates) {
  for (const Case& c : kCases) {
    if (!c.affordable()) continue;
    Layer layer(context(), c);
    layer.add_dropout(context(), 0.3F);
    expect_dropout_backward(layer, DType::f32);
    if (!context().capabilities().cpu) expect_dropout_backward(layer, DType::bf16);
  }
}

// The reference against central differences of sum(dy * y), with the norms held constant.
TEST(DoraReference, ItsGradientsAreThoseOfItsForward) {
  Context& context = test::context_of(Variant::portable);
  Layer layer(context, {4, 3, 5, 2});
  layer.add_dropout(context, 0.4F);
  layer.magnitude[1] = 0.7F;
  layer.reference.magnitude[1] = 0.7;
  test::DoraReference& reference = layer.reference;
  const auto x = to_double(layer.x), dy = to_double(layer.dy), norms = reference.norms();
  const auto loss_with = [&](test::DoraReference of, const std::vector<double>& input) {
    std::vector<double> g = of.magnitude;
    for (std::size_t n = 0; n < g.size(); ++n) g[n] /= norms[n];
    const auto y = of.forward(input, g);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum;
  };
  const auto by = [&](std::vector<double> test::LoraLinearReference::*part) {
    return test::central_differences(
        [&](const std::vector<double>& v) {
          test::DoraReference changed = reference;
          changed.layer.*part = v;
          return loss_with(changed, x);
        },
        reference.layer.*part);
  };
  const auto g = reference.column_scale(), scaled = reference.scaled(dy, g);
  const auto dm = test::central_differences(
      [&](const std::vector<double>& m) {
        test::DoraReference changed = reference;
        changed.magnitude = m;
        return loss_with(changed, x);
      },
      reference.magnitude);
  expect_close(reference.dmagnitude(dy, reference.f(x, g)), dm, 1e-8, "dm");
  expect_close(reference.layer.da(scaled, x), by(&test::LoraLinearReference::a), 1e-8, "da");
  expect_close(reference.layer.dbt(scaled, x), by(&test::LoraLinearReference::bt), 1e-8, "dbt");
  expect_close(reference.dx(dy, g),
               test::central_differences(
                   [&](const std::vector<double>& v) { return loss_with(reference, v); }, x),
               1e-8, "dx");
}

// "layer" of tests/reference/dora.py: PEFT's layer with a given mask of dropout.
TEST(DoraReference, IsPeftsLayer) {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  const std::filesystem::path root = source == nullptr ? "." : source;
  const nlohmann::json all = test::read_json(root / "tests/reference/dora.json").at("layer");
  const auto want = [&](const char* name) { return all.at(name).get<std::vector<double>>(); };
  const auto sines = [](std::size_t count, double phase, double factor = 1) {
    std::vector<double> result(count);
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = factor * std::sin(1.3 * static_cast<double>(i) + phase);
    }
    return result;
  };
  const auto transposed = [](const std::vector<double>& m, std::size_t columns) {
    std::vector<double> result(m.size());
    const std::size_t rows = m.size() / columns;
    for (std::size_t i = 0; i < m.size(); ++i) result[i % columns * rows + i / columns] = m[i];
    return result;
  };
  test::DoraReference peft{
      {4, 7, 5, 2, 1.5, sines(35, 2), sines(10, 4), transposed(sines(14, 6, 0.2), 2)},
      sines(7, 7, 0.5),
      sines(7, 3)};
  for (double& value : peft.magnitude) value += 1.5;
  for (std::size_t i = 0; i < 20; ++i) peft.layer.mask.push_back(i % 5 == 2 ? 0 : 1.25);
  const auto x = sines(20, 1), dy = sines(28, 5), g = peft.column_scale();
  const auto scaled = peft.scaled(dy, g);
  expect_close(peft.forward(x, g), want("y"), 1e-8, "y");
  expect_close(peft.dx(dy, g), want("dx"), 1e-8, "dx");
  expect_close(peft.layer.da(scaled, x), want("da"), 1e-8, "da");
  expect_close(peft.layer.dbt(scaled, x), transposed(want("db"), 2), 1e-8, "db");
  expect_close(peft.dmagnitude(dy, peft.f(x, g)), want("dm"), 1e-8, "dm");
}

TEST_P(Dora, RefusesTensorsThatDoNotFit) {
  const Layer layer(context(), {4, 8, 6, 2});
  const auto f32 = [&](Shape shape) {
    return context().allocate(shape, DType::f32, MemoryTag::scratch);
  };
  const auto error = [&](auto f) {
    return test::error_of([&] {
      Batch batch(context());
      f(batch);
    });
  };
  EXPECT_THAT(error([&](Batch& batch) { record_weight_norms(batch, f32({7}), layer.weights.w); }),
              testing::HasSubstr("squared must be f32 [8]"));
  const DoraLayers norms{f32({100}), f32({8}), f32({8}), {{layer.weights.w, 2, 1, 0, 64, 93, 0}}};
  EXPECT_THAT(error([&](Batch& batch) { record_column_scales(batch, norms); }),
              testing::HasSubstr("a layer [8, 6] of rank 2 must be within 100 parameters and 8"));
  const DoraOutput output{f32({4, 8}), {}, f32({8}), f32({8})};
  EXPECT_THAT(error([&](Batch& batch) {
                record_dora_backward(batch, f32({4, 8}), f32({7}), f32({4, 8}), output);
              }),
              testing::HasSubstr("dmagnitude must be f32 [8]"));
  EXPECT_THAT(error([&](Batch& batch) {
                record_dora_backward(batch, output.f, f32({8}), f32({4, 8}), output);
              }),
              testing::HasSubstr("scaled must not alias f"));
  DoraDropoutOutput dropped{f32({4, 8}), f32({4, 8}), f32({4, 2}), layer.weights, layer.lora};
  EXPECT_THAT(error([&](Batch& batch) {
                record_dora_dropout(batch, f32({4, 6}), dropped);
              }),
              testing::HasSubstr("one adapter with dropout"));
}

}  // namespace
}  // namespace clora
