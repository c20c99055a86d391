#include "clora/ops/gemm/gemm.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/gemm/gemm_kernels.hpp"
#include "ops/gemm/gemm_plan.hpp"
#include "tests/reference/gemm_reference.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::expect_close;
using test::random_values;
using test::to_double;
using test::tolerance_of;

struct Case {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t rank = 0;
  test::GemmReferenceSize size() const {
    return {static_cast<std::size_t>(m), static_cast<std::size_t>(n), static_cast<std::size_t>(k)};
  }
  std::string text() const { return fmt::format("m {} n {} k {} rank {}", m, n, k, rank); }
  // The portable kernel computes full tiles of 64.
  bool affordable() const {
    const std::int64_t tiles = ((m + 63) / 64) * ((n + 63) / 64);
    return test::affords(tiles * 1024 * (k + rank));
  }
};

std::vector<float> values(std::int64_t count, std::uint32_t seed) {
  return random_values(static_cast<std::size_t>(count), seed);
}

void add(std::vector<double>& to, std::span<const float> what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += static_cast<double>(what[i % what.size()]);
}

std::vector<double> scaled(std::span<const float> values, double scale) {
  std::vector<double> product = to_double(values);
  for (double& value : product) value *= scale;
  return product;
}

class Gemm : public test::OpTest {
 protected:
  Tensor up(Shape shape, std::span<const float> v) { return test::upload(context(), shape, v); }

  // An operand rounded as the variant's product rounds it.
  std::vector<double> operand(std::vector<double> v, std::int64_t rows, std::int64_t columns,
                              bool backward) const {
    const GemmSize size{static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns), 1};
    return rounds_to_bf16(context(), size, backward) ? test::rounded_to_bf16(std::move(v))
                                                     : std::move(v);
  }

  // Skinny products with packed weights use integer arithmetic on these devices, with 16 bits per
  // element and a scale per block of 32. Rounding to 8 bits would exceed this tolerance by far.
  double tolerance(const Case& c, Layout layout, DType type) {
    const bool integers = multiplies_integers() && layout == Layout::packed && is_quantised(type) &&
                          c.m < GemmTiles::kSkinnyRows;
    return integers ? 5e-5 : tolerance_of(static_cast<std::size_t>(c.k + c.rank));
  }

  // y = x w^T with the extras that the case and the flag select.
  enum class Extras { none, residual, all };

  void expect_forward(DType type, const Case& c, Extras extras, Layout layout = Layout::plain) {
    const auto w = test::random_weights(type, c.n, c.k, 1);
    const auto x = values(c.m * c.k, 2);
    const auto bias = values(c.n, 3);
    const auto residual = values(c.m * c.n, 4);
    const auto s = values(c.m * c.rank, 5);
    const auto u = values(c.rank * c.n, 6);
    const auto seen = [&](std::vector<double> v) { return operand(std::move(v), c.m, c.n, false); };
    auto want = test::gemm_reference(seen(to_double(x)), seen(w.values), c.size());
    Epilogue given;
    if (extras == Extras::all) {
      for (double& value : want) value *= 0.5;
      given = {.bias = up({c.n}, bias), .scale = 0.5F};
      add(want, bias);
    }
    if (extras != Extras::none) {
      given.residual = up({c.m, c.n}, residual);
      add(want, residual);
    }
    if (c.rank > 0) {
      given.low_rank = {up({c.m, c.rank}, s), up({c.rank, c.n}, u), 0.5F};
      test::add_low_rank_reference(want, seen(to_double(s)), seen(scaled(u, 0.5)),
                                   static_cast<std::size_t>(c.rank), 1);
    }
    test::Output y(context(), {c.m, c.n});
    run([&](Batch& batch) {
      record_gemm(batch, y.tensor(), up({c.m, c.k}, x), w.upload(context(), layout), given);
    });
    expect_close(
        y.values(), want, tolerance(c, layout, type),
        fmt::format("{} forward {} extras {}", name_of(type), c.text(), static_cast<int>(extras)));
  }

  // Checks y and s = 0.25 x a^T against an s computed on the host.
  void expect_fused_shrink(const Case& c, Layout layout, bool backward, DType type = DType::f32) {
    const std::int64_t in = backward ? c.n : c.k;
    const std::int64_t out = backward ? c.k : c.n;
    const auto weights = test::random_weights(DType::f32, c.n, c.k, 1);
    const Tensor w = weights.upload(context(), layout);
    const auto x = values(c.m * in, 2);
    const auto a = values(c.rank * in, 3);
    const auto u = values(c.rank * out, 4);
    const auto size = [](std::int64_t value) { return static_cast<std::size_t>(value); };
    auto s_want =
        test::gemm_reference(to_double(x), to_double(a), {size(c.m), size(c.rank), size(in)});
    for (double& value : s_want) value *= 0.25;
    auto want = backward ? test::gemm_backward_reference(to_double(x), weights.values, c.size())
                         : test::gemm_reference(to_double(x), weights.values, c.size());
    test::add_low_rank_reference(want, s_want, to_double(u), size(c.rank), 0.5);
    test::Output y(context(), {c.m, out}, type);
    test::Output s(context(), {c.m, c.rank}, type);
    const LowRankTerm term{s.tensor(), up({c.rank, out}, u), 0.5F, up({c.rank, in}, a), 0.25F};
    run([&](Batch& batch) {
      if (backward) {
        record_gemm_backward(batch, y.tensor(), up({c.m, in}, x, type), w, Accumulate::no, term);
      } else {
        record_gemm(batch, y.tensor(), up({c.m, in}, x, type), w, {.low_rank = term});
      }
    });
    const double rounding = type == DType::bf16 ? 0x1p-7 : 0;  // of x and of y
    const double allowed = rounding + 2 * test::product_tolerance_of(GetParam(), size(in + c.rank));
    const std::string what =
        fmt::format("{} backward {} layout {}", c.text(), backward, static_cast<int>(layout));
    expect_close(s.values(), s_want, allowed, "s " + what);
    expect_close(y.values(), want, allowed, "y " + what);
  }

  Tensor up(Shape shape, std::span<const float> v, DType type) {
    return type == DType::bf16 ? test::upload_bf16(context(), shape, v) : up(shape, v);
  }

  std::vector<float> floats_of(const Tensor& t) {
    if (t.type() == DType::f32) return context().read<float>(t);
    std::vector<float> floats;
    for (const std::uint16_t half : context().read<std::uint16_t>(t)) {
      floats.push_back(std::bit_cast<float>(std::uint32_t{half} << 16U));
    }
    return floats;
  }

  // y (+)= 0.5 s u + the product of inputs of type `in`, read from and written to type `out`; s is
  // given.
  void expect_types(const Case& c, DType in, DType out, bool backward) {
    const std::int64_t from = backward ? c.n : c.k;
    const std::int64_t to = backward ? c.k : c.n;
    const auto w = test::random_weights(DType::bf16, c.n, c.k, 1);
    // The stored values.
    const auto stored = [&](DType type, Shape shape, std::vector<float>& v) {
      return v.empty() ? Tensor() : test::upload_as(context(), type, shape, v);
    };
    auto x = values(c.m * from, 2), start = values(c.m * to, 4), s = values(c.m * c.rank, 5);
    const auto u = values(c.rank * to, 6);
    const Tensor given = stored(in, {c.m, from}, x), residual = stored(out, {c.m, to}, start);
    const Tensor shrunk = stored(in, {c.m, c.rank}, s);
    const auto seen = [&](std::vector<double> v) {
      return operand(std::move(v), c.m, to, backward);
    };
    auto want = backward ? test::gemm_backward_reference(seen(to_double(x)), w.values, c.size())
                         : test::gemm_reference(seen(to_double(x)), w.values, c.size());
    test::add_low_rank_reference(want, seen(to_double(s)), seen(scaled(u, 0.5)),
                                 static_cast<std::size_t>(c.rank), 1);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += start[i];
    LowRankTerm term;
    if (c.rank > 0) {
      term = {shrunk, up({c.rank, to}, u), 0.5F};
      if (rounds_to_bf16(context(), {static_cast<std::uint32_t>(c.m), 64, 1}, backward)) {
        term.u_bf16 = test::upload_bf16(context(), {c.rank, to}, u);
      }
    }
    test::Output y(context(), {c.m, to}, out);
    run([&](Batch& batch) {
      if (backward) {
        batch.copy(y.tensor(), residual);
        record_gemm_backward(batch, y.tensor(), given, w.upload(context()), Accumulate::yes, term);
      } else {
        record_gemm(batch, y.tensor(), given, w.upload(context()),
                    {.residual = residual, .low_rank = term});
      }
    });
    expect_close(y.values(), want,
                 test::rounding_of(out) + tolerance_of(static_cast<std::size_t>(from + c.rank)),
                 fmt::format("{} from {} to {}, backward {}", c.text(), name_of(in), name_of(out),
                             backward));
  }

  void expect_backward(DType type, const Case& c, Layout layout = Layout::plain) {
    const auto w = test::random_weights(type, c.n, c.k, 1);
    const auto dy = values(c.m * c.n, 2);
    const auto s = values(c.m * c.rank, 5);
    const auto u = values(c.rank * c.k, 6);
    const auto seen = [&](std::vector<double> v) { return operand(std::move(v), c.m, c.k, true); };
    auto want = test::gemm_backward_reference(seen(to_double(dy)), seen(w.values), c.size());
    LowRankTerm term;
    if (c.rank > 0) {
      term = {up({c.m, c.rank}, s), up({c.rank, c.k}, u), -2.0F};
      test::add_low_rank_reference(want, seen(to_double(s)), seen(scaled(u, -2)),
                                   static_cast<std::size_t>(c.rank), 1);
    }
    const double tolerance = tolerance_of(static_cast<std::size_t>(c.n + c.rank));
    const std::string what = fmt::format("{} backward {}", name_of(type), c.text());
    test::Output dx(context(), {c.m, c.k});
    const Tensor weights = w.upload(context(), layout);
    const Tensor gradient = up({c.m, c.n}, dy);
    run([&](Batch& batch) {
      record_gemm_backward(batch, dx.tensor(), gradient, weights, Accumulate::no, term);
    });
    expect_close(dx.values(), want, tolerance, what);
    run([&](Batch& batch) {
      record_gemm_backward(batch, dx.tensor(), gradient, weights, Accumulate::yes, term);
    });
    for (double& value : want) value *= 2;
    expect_close(dx.values(), want, tolerance, what + " accumulated");
  }

  static constexpr std::int64_t kGroupedRows = 140;

  // Grouped problems with one input [140, in] give the same results as separate products.
  void expect_grouped(std::int64_t in, const std::vector<std::int64_t>& widths, std::int64_t rank,
                      DType type) {
    const Tensor x = up({kGroupedRows, in}, values(kGroupedRows * in, 1), DType::bf16);
    std::vector<GemmOutput> joined, alone;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::int64_t n = widths[i];
      const auto seed = static_cast<std::uint32_t>(10 * i);
      const Tensor w = test::random_weights(DType::bf16, n, in, seed + 2).upload(context());
      const auto output = [&] {
        GemmOutput of{context().allocate({kGroupedRows, n}, type, MemoryTag::scratch), w};
        if (rank == 0) of.epilogue.bias = up({n}, values(n, seed + 3));
        if (rank > 0) {
          of.epilogue.low_rank = {
              context().allocate({kGroupedRows, rank}, DType::f32, MemoryTag::scratch),
              up({rank, n}, values(rank * n, seed + 4)), 0.5F,
              up({rank, in}, values(rank * in, seed + 5)), 0.25F};
        }
        return of;
      };
      joined.push_back(output());
      alone.push_back(output());
    }
    run([&](Batch& batch) {
      record_gemms(batch, x, joined);
      for (const auto& [y, w, epilogue] : alone) record_gemm(batch, y, x, w, epilogue);
    });
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string what =
          fmt::format("{} of {}, rank {}, {}", i, widths.size(), rank, name_of(type));
      expect_close(floats_of(joined[i].y), to_double(floats_of(alone[i].y)), 0x1p-8, what);
      if (rank == 0) continue;
      expect_close(floats_of(joined[i].epilogue.low_rank.s),
                   to_double(floats_of(alone[i].epilogue.low_rank.s)),
                   2 * tolerance_of(static_cast<std::size_t>(in)), "s " + what);
    }
  }

  // A gradient [140, to] of several terms, one for each K extent in `steps`, is their sum.
  void expect_terms(std::int64_t to, const std::vector<std::int64_t>& steps, std::int64_t rank,
                    DType type) {
    std::vector<GemmTerm> terms;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::int64_t n = steps[i];
      const auto seed = static_cast<std::uint32_t>(10 * i);
      terms.push_back({up({kGroupedRows, n}, values(kGroupedRows * n, seed + 1), DType::bf16),
                       test::random_weights(DType::bf16, n, to, seed + 2).upload(context())});
      if (rank == 0) continue;
      terms.back().low_rank = {
          up({kGroupedRows, rank}, values(kGroupedRows * rank, seed + 3), DType::bf16),
          up({rank, to}, values(rank * to, seed + 4)), 0.5F};
    }
    const auto before = values(kGroupedRows * to, 99);
    for (const Accumulate first : {Accumulate::no, Accumulate::yes}) {
      const Tensor dx = up({kGroupedRows, to}, before, type), each = up({kGroupedRows, to}, before);
      run([&](Batch& batch) {
        record_gemm_backward_sum(batch, dx, terms, first);
        Accumulate accumulate = first;
        for (const auto& [dy, w, low_rank] : terms) {
          record_gemm_backward(batch, each, dy, w, accumulate, low_rank);
          accumulate = Accumulate::yes;
        }
      });
      expect_close(floats_of(dx), to_double(floats_of(each)), 3 * 0x1p-8,
                   fmt::format("{} terms, rank {}, {}", steps.size(), rank, name_of(type)));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Gemm, test::all_variants(), test::variant_name);

// 1, primes, tile edges on both sides, several blocks of K.
const std::vector<Case> kCases = {
    {1, 1, 1, 0},     {1, 37, 33, 3},    {4, 64, 96, 0},      {7, 31, 47, 5},    {11, 33, 31, 1},
    {12, 32, 32, 0},  {13, 33, 65, 16},  {24, 31, 640, 8},    {35, 95, 641, 0},  {64, 64, 16, 2},
    {65, 129, 17, 0}, {131, 197, 61, 7}, {12, 40, 1300, 300}, {300, 70, 40, 0},  {25, 7, 50, 3},
    {24, 16, 700, 0}, {26, 40, 9, 2},    {65, 66, 3, 1},      {14, 36, 1024, 0}, {13, 1024, 40, 5},
};

TEST_P(Gemm, ForwardIsTheProductInEveryShape) {
  for (const Case& c : kCases) {
    if (!c.affordable()) continue;
    expect_forward(DType::f32, c, Extras::none);
    expect_forward(DType::f32, c, Extras::all);
  }
}

TEST_P(Gemm, BackwardIsTheProductInEveryShapeAndAccumulates) {
  for (const Case& c : kCases) {
    if (c.affordable()) expect_backward(DType::f32, c);
  }
}

// Rows that are a multiple of 16-byte vectors and rows that are not; ranks of one K block and of
// more.
TEST_P(Gemm, TakesAndGivesBf16AndF16) {
  for (const Case& c : {Case{2, 40, 33, 3},
                        {5, 37, 64, 0},
                        {13, 33, 65, 5},
                        {131, 200, 72, 16},
                        {150, 264, 136, 20},
                        {40, 96, 64, 70}}) {
    if (!c.affordable()) continue;
    for (const auto& [in, out] : {std::pair{DType::bf16, DType::bf16},
                                  {DType::bf16, DType::f32},
                                  {DType::f32, DType::bf16},
                                  {DType::f16, DType::f16},
                                  {DType::f16, DType::f32},
                                  {DType::bf16, DType::f16}}) {
      expect_types(c, in, out, false);
      expect_types(c, in, out, true);
    }
  }
}

// Two and three grouped problems of various widths, with adapters whose s is computed or given, or
// without; with biases or without.
TEST_P(Gemm, ProductsOfOneInputAreWhatEachIsAlone) {
  constexpr std::int64_t kIn = 136;
  CLORA_SKIP_UNLESS_AFFORDED(kGroupedRows * kIn * 512 / 4);
  for (const std::vector<std::int64_t>& widths :
       {std::vector<std::int64_t>{264, 40, 72}, {136, 264}, {20, 33}}) {
    for (const std::int64_t rank : {0, 5, 20}) {
      for (const DType type : {DType::bf16, DType::f32}) {
        expect_grouped(kIn, widths, rank, type);
      }
    }
  }
}

TEST_P(Gemm, AGradientOfSeveralTermsIsTheirSum) {
  constexpr std::int64_t kOut = 200;
  CLORA_SKIP_UNLESS_AFFORDED(kGroupedRows * kOut * 512 / 4);
  for (const std::vector<std::int64_t>& steps :
       {std::vector<std::int64_t>{264, 40, 72}, {136, 264}, {20, 33}}) {
    for (const std::int64_t rank : {0, 5, 20}) {
      for (const DType type : {DType::bf16, DType::f32}) expect_terms(kOut, steps, rank, type);
    }
  }
}

// Few tiles and a long K, which is split into slices (tests/ops/gemm_hopper_test.cpp): partial
// tiles and slices of unequal length. The last case has wider tiles.
TEST_P(Gemm, ManyStepsOfFewTilesGiveTheirProducts) {
  const Case ragged{131, 200, 3001, 16}, uneven{140, 75, 2100, 5}, boxes{131, 200, 2184, 20};
  for (const Case& c : {ragged, uneven, boxes}) {
    if (!c.affordable()) continue;
    expect_forward(DType::bf16, c, Extras::all);
    expect_fused_shrink(c, Layout::plain, false, DType::bf16);
    const Case back{c.m, c.k, c.n, c.rank};
    expect_backward(DType::bf16, back);
    for (const DType out : {DType::bf16, DType::f32}) {
      expect_types(c, DType::bf16, out, false);
      expect_types(back, DType::bf16, out, true);
    }
  }
  const Case wide{131, 2000, 3000, 16};
  if (wide.affordable()) expect_types(wide, DType::bf16, DType::bf16, false);
}

TEST_P(Gemm, ManyStepsOfGroupedProblemsGiveTheirProducts) {
  constexpr std::int64_t kMany = 2104;
  CLORA_SKIP_UNLESS_AFFORDED(kGroupedRows * kMany * 400 / 4);
  for (const std::int64_t rank : {0, 16, 20}) {
    expect_grouped(kMany, {264, 40, 72}, rank, DType::bf16);
    expect_grouped(kMany, {40, 136}, rank, DType::f32);
    expect_terms(200, {1352, 200, 1160}, rank, DType::bf16);
    expect_terms(200, {kMany, 264}, rank, DType::f32);
  }
}

// One type of each kind of block. quant_test tests the elements of the others.
TEST_P(Gemm, QuantisedAndHalfWeightsGiveTheirProducts) {
  for (const DType type : {DType::f16, DType::q4_1, DType::q8_0, DType::q6_k}) {
    for (const Case& c :
         {Case{1, 67, 512, 4}, {6, 67, 512, 4}, {29, 67, 512, 4}, {13, 9, 256, 0}}) {
      if (!c.affordable()) continue;
      expect_forward(type, c, Extras::all);
      expect_backward(type, c);
    }
  }
}

// Each type loads eight elements in its own way. The rows of w fill one team, or all teams many
// times; the rows of x fill the kernel's row slots or leave some empty.
TEST_P(Gemm, SkinnyProductsOfEveryStorageTypeAreRight) {
  for (const DType type : test::kWeightTypes) {
    for (const Case& c : {Case{1, 37, 512, 5}, {1, 131, 256, 0}, {3, 67, 512, 40}}) {
      if (c.affordable()) expect_forward(type, c, Extras::all);
    }
  }
  for (const Case& c : {Case{2, 131, 264, 3}, {9, 67, 256, 4}, {16, 131, 72, 2}, {16, 35, 33, 1}}) {
    if (c.affordable()) expect_forward(DType::bf16, c, Extras::all);
  }
}

// Temporaries that a kernel only reads by address count as in use.
TEST(GemmByAddress, GivesTheSameBitsOfTemporariesInEveryReplay) {
  Context& context = test::context_of(Variant::portable);
  constexpr std::int64_t kRows = 3, kColumns = 40, kSteps = 72;
  const Tensor x = test::upload(context, {kRows, kSteps}, values(kRows * kSteps, 2));
  const Tensor w =
      test::random_weights(DType::bf16, kColumns, kSteps, 1).upload(context, Layout::plain);
  const auto product = [&](const Tensor& y, const Tensor& in) {
    return GemmProduct{.y = y, .x = in, .w = w, .epilogue = {}};
  };
  test::Output want(context, {kRows, kColumns}), got(context, {kRows, kColumns});
  Batch plain(context);
  record_gemm_skinny_portable(plain, product(want.tensor(), x));
  plain.submit().wait();
  Batch batch(context);
  const Tensor in = batch.temporary(x.shape(), DType::f32, "in");
  const Tensor out = batch.temporary({kRows, kColumns}, DType::f32, "out");
  batch.copy(in, x);
  record_gemm_skinny_by_address(batch, product(out, in));
  batch.copy(got.tensor(), out);
  for (int i = 0; i < 2; ++i) {
    batch.submit().wait();
    EXPECT_EQ(got.values(), want.values());
  }
}

// Tiles that end inside a packed panel, several blocks of K, one to eleven rows.
TEST_P(Gemm, PackedWeightsGiveTheirProducts) {
  for (const DType type : {DType::f32, DType::bf16, DType::q4_0, DType::q4_1, DType::q8_0}) {
    for (const Case& c : {Case{1, 16, 64, 0},
                          {1, 208, 576, 4},
                          {3, 48, 192, 0},
                          {4, 48, 128, 2},
                          {11, 336, 128, 16},
                          {13, 16, 64, 3},
                          {16, 32, 64, 70},
                          {29, 80, 1344, 4},
                          {20, 32, 2112, 131},
                          {205, 48, 64, 7}}) {
      if (!c.affordable()) continue;
      expect_forward(type, c, c.rank > 0 ? Extras::all : Extras::none, Layout::packed);
      expect_backward(type, c, Layout::packed);
    }
  }
}

// The products of a transformer block: only an adapter, with or without a residual.
TEST_P(Gemm, ProductsOfPackedFloatsAreAddedToAResidual) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Case& c :
         {Case{16, 64, 128, 5}, {32, 96, 64, 70}, {53, 48, 128, 16}, {97, 64, 2112, 8}}) {
      if (!c.affordable()) continue;
      expect_forward(type, c, Extras::none, Layout::packed);
      expect_forward(type, c, Extras::residual, Layout::packed);
    }
  }
}

// In both directions, with the shrink fused into the product's launch or in a launch before it.
TEST_P(Gemm, TheFirstLowRankFactorIsComputedFromTheInputIfItsMatrixIsGiven) {
  // The last case has several panels, with several blocks of K each.
  for (const Case& c : {Case{1, 80, 64, 11},
                        {3, 48, 128, 5},
                        {40, 80, 192, 5},
                        {40, 48, 64, 65},
                        {27, 1344, 1344, 9}}) {
    if (!c.affordable()) continue;
    for (const Layout layout : {Layout::plain, Layout::packed}) {
      expect_fused_shrink(c, layout, false);
      expect_fused_shrink(c, layout, true);
    }
    expect_fused_shrink(c, Layout::plain, false, DType::bf16);
    expect_fused_shrink(c, Layout::plain, true, DType::bf16);
  }
}

// Each block has its own scale, so a large element reduces the precision of its block only.
TEST_P(Gemm, RowsWithZerosAndLargeElementsAreRightWithPackedWeights) {
  const auto w = test::random_weights(DType::q4_1, 32, 192, 1);
  std::vector<float> x = values(2 * 192, 2);
  std::fill_n(x.begin(), 64, 0.0F);
  x[70] = 3e4F;
  for (std::size_t k = 128; k < 192; ++k) x[k] *= 1e-3F;
  std::copy_n(x.begin(), 64, x.begin() + 192);
  const auto want = test::gemm_reference(to_double(x), w.values, {2, 32, 192});
  test::Output y(context(), {2, 32});
  run([&](Batch& batch) {
    record_gemm(batch, y.tensor(), up({2, 192}, x), w.upload(context(), Layout::packed));
  });
  expect_close(y.values(), want, tolerance({2, 32, 192}, Layout::packed, DType::q4_1), "blocks");
}

TEST_P(Gemm, ANonFiniteValueAffectsOnlyItsRow) {
  const auto w = test::random_weights(DType::q4_1, 32, 128, 1);
  for (const float bad : {NAN, INFINITY}) {
    std::vector<float> x = values(3 * 128, 2);
    x[128 + 77] = bad;
    test::Output y(context(), {3, 32});
    run([&](Batch& batch) {
      record_gemm(batch, y.tensor(), up({3, 128}, x), w.upload(context(), Layout::packed));
    });
    const std::vector<float> got = y.values();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(std::isfinite(got[i]), i / 32 != 1) << i << " is " << got[i];
    }
  }
}

TEST_P(Gemm, ShapesOfARealModelAreRight) {
  CLORA_SKIP_UNLESS_AFFORDED(50 * 576 * 1536 / 4);
  expect_forward(DType::q8_0, {50, 576, 1536, 16}, Extras::all);
  expect_backward(DType::q4_1, {50, 1536, 576, 16});
}

TEST_P(Gemm, TheResidualMayBeTheOutputItself) {
  for (const std::int64_t m : {3, 30}) {
    if (!Case{m, 45, 700}.affordable()) continue;
    const auto w = test::random_weights(DType::f32, 45, 700, 1);
    const auto x = values(m * 700, 2);
    const auto before = values(m * 45, 3);
    const auto seen = [&](std::vector<double> v) { return operand(std::move(v), m, 45, false); };
    auto want = test::gemm_reference(seen(to_double(x)), seen(w.values),
                                     {static_cast<std::size_t>(m), 45, 700});
    add(want, before);
    const Tensor y = up({m, 45}, before);
    run([&](Batch& batch) {
      record_gemm(batch, y, up({m, 700}, x), w.upload(context()), {.residual = y});
    });
    expect_close(context().read<float>(y), want, tolerance_of(700), "y += x w^T");
  }
}

// The bits are the same in every replay and batch, both if one work-group sums over all of K and if
// several do.
TEST_P(Gemm, TheSameInputGivesTheSameBits) {
  constexpr std::int64_t kRows = 40, kColumns = 100;
  for (const std::int64_t steps : {320, 3072}) {
    if (!Case{kRows, kColumns, steps}.affordable()) continue;
    const auto w = test::random_weights(DType::q5_1, kColumns, steps, 1);
    const Tensor weights = w.upload(context());
    const Tensor x = up({kRows, steps}, values(kRows * steps, 2));
    std::vector<std::vector<float>> results;
    for (int i = 0; i < 2; ++i) {
      test::Output first(context(), {kRows, kColumns}), second(context(), {kRows, kColumns});
      Batch batch(context());
      for (const auto& y : {first, second}) record_gemm(batch, y.tensor(), x, weights);
      for (int replay = 0; replay < 3; ++replay) {
        batch.submit().wait();
        results.push_back(first.values());
        results.push_back(second.values());
      }
    }
    for (const std::vector<float>& result : results) EXPECT_EQ(result, results[0]);
  }
}

// The reference of the backward is the derivative of the forward's reference.
TEST(GemmReference, BackwardIsTheDerivative) {
  const auto w = to_double(random_values(5 * 4, 1));
  const auto dy = to_double(random_values(3 * 5, 2));
  const auto loss = [&](const std::vector<double>& x) {
    const auto y = test::gemm_reference(x, w, {3, 5, 4});
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  const auto want = test::central_differences(loss, to_double(random_values(3 * 4, 3)));
  expect_close(test::gemm_backward_reference(dy, w, {3, 5, 4}), want, 1e-8, "dx");
}

class GemmRefuses : public Gemm {
 protected:
  Tensor f32(Shape shape) { return context().allocate(shape, DType::f32, MemoryTag::scratch); }
  std::string forward_error(const Tensor& y, const Tensor& x, const Tensor& w,
                            const Epilogue& epilogue = {}) {
    Batch batch(context());
    return test::error_of([&] { record_gemm(batch, y, x, w, epilogue); });
  }
  std::string backward_error(const Tensor& dx, const Tensor& dy, const Tensor& w,
                             const LowRankTerm& term = {}) {
    Batch batch(context());
    return test::error_of([&] { record_gemm_backward(batch, dx, dy, w, Accumulate::no, term); });
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, GemmRefuses, test::all_variants(), test::variant_name);

TEST_P(GemmRefuses, MatricesThatDoNotFit) {
  using testing::HasSubstr;
  const Tensor w = f32({8, 6});
  EXPECT_THAT(forward_error(f32({4, 8}), f32({4, 5}), w), HasSubstr("x must be f32 [4, 6]"));
  EXPECT_THAT(forward_error(f32({4, 7}), f32({4, 6}), w), HasSubstr("y must be f32 [4, 8]"));
  EXPECT_THAT(forward_error(f32({4, 8}), Tensor(), w),
              HasSubstr("x must be a matrix of f32, bf16 or f16"));
  EXPECT_THAT(backward_error(f32({4, 6}), f32({4, 7}), w), HasSubstr("dy must be f32 [4, 8]"));
  EXPECT_THAT(backward_error(f32({4, 7}), f32({4, 8}), w), HasSubstr("dx must be f32 [4, 6]"));
  const Tensor integers = context().allocate({8, 6}, DType::i32, MemoryTag::scratch);
  EXPECT_THAT(forward_error(f32({4, 8}), f32({4, 6}), integers), HasSubstr("w must be a matrix"));
  EXPECT_THAT(backward_error(f32({4, 6}), f32({4, 8}), Tensor()),
              HasSubstr("w must be a weight matrix"));
}

TEST_P(GemmRefuses, ExtrasThatDoNotFit) {
  using testing::HasSubstr;
  const Tensor w = f32({8, 6});
  const Tensor x = f32({4, 6});
  const Tensor y = f32({4, 8});
  EXPECT_THAT(forward_error(y, x, w, {.bias = f32({7})}), HasSubstr("bias must be f32 [8]"));
  EXPECT_THAT(forward_error(y, x, w, {.residual = f32({4, 7})}), HasSubstr("residual must be"));
  EXPECT_THAT(forward_error(y, x, w, {.low_rank = {f32({3, 2}), f32({2, 8})}}),
              HasSubstr("low_rank.s must be f32 [4, 2]"));
  EXPECT_THAT(forward_error(y, x, w, {.low_rank = {f32({4, 2}), f32({3, 8})}}),
              HasSubstr("low_rank.u must be f32 [2, 8]"));
  EXPECT_THAT(forward_error(y, x, w, {.low_rank = {Tensor(), f32({3, 8})}}),
              HasSubstr("low_rank.u is set without"));
  EXPECT_THAT(forward_error(y, x, w, {.low_rank = {{}, {}, 1, f32({2, 6})}}),
              HasSubstr("low_rank.a is set without"));
  EXPECT_THAT(forward_error(y, x, w, {.low_rank = {f32({4, 2}), f32({2, 8}), 1, f32({2, 5})}}),
              HasSubstr("low_rank.a must be f32 [2, 6]"));
  EXPECT_THAT(backward_error(x, y, w, {f32({4, 2}), f32({2, 8})}),
              HasSubstr("low_rank.u must be f32 [2, 6]"));
}

TEST_P(GemmRefuses, OutputsThatAliasInputs) {
  using testing::HasSubstr;
  const Tensor square = f32({6, 6});
  const Tensor other = f32({6, 6});
  EXPECT_THAT(forward_error(square, square, other), HasSubstr("y must not alias x"));
  EXPECT_THAT(forward_error(square, other, other, {.low_rank = {square, other}}),
              HasSubstr("must not alias low_rank.s"));
  EXPECT_THAT(forward_error(f32({6, 6}), square, other, {.low_rank = {square, other, 1, other}}),
              HasSubstr("low_rank.s must not alias the input"));
  EXPECT_THAT(backward_error(square, square, other), HasSubstr("dx must not alias dy"));
}

}  // namespace
}  // namespace clora
