#include "clora/ops/lora_linear/lora_embedding.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "tests/support/op_test.hpp"
#include "tests/support/row_groups.hpp"

namespace clora {
namespace {

using test::to_double;

struct Case {
  std::int64_t t, v, d, r;
};
// Few ids for many tokens, so that sums are long; and many ids for few tokens.
const std::vector<Case> kCases = {{1, 1, 1, 1},     {5, 7, 3, 2},    {63, 11, 17, 3},
                                  {64, 130, 32, 8}, {65, 2, 33, 16}, {301, 67, 24, 5}};

std::vector<float> values(std::int64_t count, std::uint32_t seed) {
  return test::random_values(static_cast<std::size_t>(count), seed);
}

std::vector<std::int32_t> ids_of(const Case& c) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < c.t; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i * 7 + i / 3) % c.v));
  }
  return ids;
}

// One adapter with its tokens, on the host in double and on the device.
struct Problem {
  Case size;
  std::vector<std::int32_t> ids;
  std::vector<float> a, bt, y, dy, da, dbt;
  double scale = 0.5, factor = 1.75;

  explicit Problem(const Case& c) : Problem(c, ids_of(c)) {}
  Problem(const Case& c, std::vector<std::int32_t> given)
      : size(c),
        ids(std::move(given)),
        a(values(c.r * c.v, 1)),
        bt(values(c.r * c.d, 2)),
        y(values(c.t * c.d, 3)),
        dy(values(c.t * c.d, 4)),
        da(values(c.r * c.v, 5)),
        dbt(values(c.r * c.d, 6)) {}

  bool has(std::int64_t t) const { return id(t) >= 0 && id(t) < size.v; }
  std::int64_t id(std::int64_t t) const { return ids[static_cast<std::size_t>(t)]; }
  static double at(const std::vector<float>& m, std::int64_t i) {
    return double{m[static_cast<std::size_t>(i)]};
  }

  // y + factor * scale * b a[:, id]
  std::vector<double> forward() const {
    std::vector<double> out = to_double(y);
    for (std::int64_t t = 0; t < size.t; ++t) {
      if (!has(t)) continue;
      for (std::int64_t r = 0; r < size.r; ++r) {
        const double s = factor * scale * at(a, r * size.v + id(t));
        for (std::int64_t d = 0; d < size.d; ++d) {
          out[static_cast<std::size_t>(t * size.d + d)] += s * at(bt, r * size.d + d);
        }
      }
    }
    return out;
  }
  // Adds the gradients of sum(dy y) `times` times.
  void backward(std::vector<double>& of_a, std::vector<double>& of_bt, int times) const {
    of_a = to_double(da);
    of_bt = to_double(dbt);
    for (std::int64_t t = 0; t < size.t; ++t) {
      if (!has(t)) continue;
      for (std::int64_t r = 0; r < size.r; ++r) {
        for (std::int64_t d = 0; d < size.d; ++d) {
          const double g = times * factor * scale * at(dy, t * size.d + d);
          of_a[static_cast<std::size_t>(r * size.v + id(t))] += g * at(bt, r * size.d + d);
          of_bt[static_cast<std::size_t>(r * size.d + d)] += g * at(a, r * size.v + id(t));
        }
      }
    }
  }
};

class LoraEmbedding : public test::OpTest {
 protected:
  struct Results {
    std::vector<float> y, da, dbt;
  };
  // The forward once, and the backward `times` times.
  Results results_of(const Problem& p, DType type = DType::f32, int times = 1) {
    const Case& c = p.size;
    std::vector<float> dys = p.dy;
    const Tensor ids = test::upload(context(), {c.t}, std::span(p.ids));
    const LoraWeights lora{.a = test::upload(context(), {c.r, c.v}, p.a),
                           .bt = test::upload(context(), {c.r, c.d}, p.bt),
                           .scale = static_cast<float>(p.scale)};
    const Tensor y = test::upload(context(), {c.t, c.d}, p.y);
    const Tensor dy = test::upload_as(context(), type, {c.t, c.d}, dys);
    const LoraGradients gradients{test::upload(context(), {c.r, c.v}, p.da),
                                  test::upload(context(), {c.r, c.d}, p.dbt)};
    const test::Output s(context(), {c.t, c.r});
    const auto factor = static_cast<float>(p.factor);
    run([&](Batch& batch) {
      record_lora_embedding(batch, y, s.tensor(), ids, lora, factor);
      for (int i = 0; i < times; ++i) {
        record_lora_embedding_backward(batch, gradients, dy, {ids, s.tensor()}, lora, factor);
      }
    });
    (void)s.values();  // checks its canaries
    return {context().read<float>(y), context().read<float>(gradients.da),
            context().read<float>(gradients.dbt)};
  }
  double tolerance(const Case& c) const {
    return test::product_tolerance_of(GetParam(), static_cast<std::size_t>(c.t + c.d + c.r));
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, LoraEmbedding, test::all_variants(), test::variant_name);

TEST_P(LoraEmbedding, AddsTheLowRankTermOfEachToken) {
  for (const Case& c : kCases) {
    if (!test::affords(c.t * c.d * c.r)) continue;
    const Problem p(c);
    test::expect_close(results_of(p).y, p.forward(), tolerance(c),
                       fmt::format("y, {} tokens", c.t));
  }
}

TEST_P(LoraEmbedding, AddsTheGradientsOfAllTokensWithAnId) {
  for (const Case& c : kCases) {
    if (!test::affords(c.t * c.d * c.r)) continue;
    const Problem p(c);
    for (const int times : {1, 2}) {
      std::vector<double> of_a, of_bt;
      p.backward(of_a, of_bt, times);
      const Results got = results_of(p, DType::f32, times);
      const std::string what = fmt::format(", {} tokens, {} times", c.t, times);
      test::expect_close(got.da, of_a, tolerance(c), "da" + what);
      test::expect_close(got.dbt, of_bt, tolerance(c), "dbt" + what);
    }
  }
}

TEST_P(LoraEmbedding, TakesGradientsOfEveryActivationType) {
  const Problem p({65, 9, 32, 4});
  std::vector<double> of_a, of_bt;
  p.backward(of_a, of_bt, 1);
  for (const DType type : {DType::bf16, DType::f16}) {
    const Results got = results_of(p, type);
    test::expect_close(got.da, of_a, 1e-2, "da");
    test::expect_close(got.dbt, of_bt, 1e-2, "dbt");
  }
}

// In one column of a: a sum of 2000 terms of both signs, whose bits depend on their order.
TEST_P(LoraEmbedding, GivesTheSameBitsInEachRun) {
  CLORA_SKIP_UNLESS_AFFORDED(2000 * 16 * 4);
  const Problem p({2000, 3, 16, 4}, std::vector<std::int32_t>(2000, 1));
  const Results first = results_of(p);
  for (int i = 0; i < 3; ++i) {
    const Results again = results_of(p);
    EXPECT_EQ(again.da, first.da);
    EXPECT_EQ(again.dbt, first.dbt);
  }
}

// Rows of three adapters of a stack, with ranks and scales of their own, and rows of none.
TEST_P(LoraEmbedding, AddsTheTermOfEachRowsAdapter) {
  const Problem p({37, 11, 24, 3});
  const Case& c = p.size;
  const std::vector<float> a = values(3 * c.r * c.v, 11), bt = values(3 * c.r * c.d, 12);
  const std::vector<RowGroup> groups{{.begin = 2, .end = 9, .adapter = 2, .rank = 3, .scale = 0.5F},
                                     {.begin = 9, .end = 10, .adapter = 0, .rank = 1},
                                     {.begin = 20, .end = 37, .adapter = 1, .scale = -2}};
  std::vector<double> want = to_double(p.y), want_s(static_cast<std::size_t>(c.t * c.r));
  for (const RowGroup& group : groups) {
    const std::int64_t rank = std::min<std::int64_t>(c.r, group.rank);
    for (std::int64_t t = group.begin; t < group.end; ++t) {
      for (std::int64_t r = 0; r < rank; ++r) {
        const std::int64_t row = group.adapter * c.r + r;
        const double s = p.factor * double{group.scale} * Problem::at(a, row * c.v + p.id(t));
        want_s[static_cast<std::size_t>(t * c.r + r)] = s;
        for (std::int64_t d = 0; d < c.d; ++d) {
          want[static_cast<std::size_t>(t * c.d + d)] += s * Problem::at(bt, row * c.d + d);
        }
      }
    }
  }
  const Tensor y = test::upload(context(), {c.t, c.d}, p.y);
  const test::Output s(context(), {c.t, c.r});
  run([&](Batch& batch) {
    record_lora_embedding(batch, y, s.tensor(), test::upload(context(), {c.t}, std::span(p.ids)),
                          {.a = test::upload(context(), {3, c.r, c.v}, a),
                           .bt = test::upload(context(), {3, c.r, c.d}, bt),
                           .row_groups = test::upload_row_groups(context(), c.t, groups)},
                          static_cast<float>(p.factor));
  });
  test::expect_close(s.values(), want_s, 1e-6, "s");
  test::expect_close(context().read<float>(y), want, tolerance(c), "y");
}

// More tokens than work-groups along the grid's second dimension.
TEST_P(LoraEmbedding, TakesMoreTokensThanAGridHas) {
  const Case c{8 * (1 << 15) + 5, 7, 2, 1};
  CLORA_SKIP_UNLESS_AFFORDED(static_cast<double>(c.t));
  const Problem p(c);
  std::vector<double> of_a, of_bt;
  p.backward(of_a, of_bt, 1);
  const Results got = results_of(p);
  test::expect_close(got.y, p.forward(), tolerance(c), "y");
  test::expect_close(got.da, of_a, tolerance(c), "da");
  const std::vector<RowGroup> groups{{.begin = 0, .end = c.t, .adapter = 0, .scale = 0.5F}};
  const Tensor y = test::upload(context(), {c.t, c.d}, p.y);
  const test::Output s(context(), {c.t, c.r});
  run([&](Batch& batch) {
    record_lora_embedding(batch, y, s.tensor(), test::upload(context(), {c.t}, std::span(p.ids)),
                          {.a = test::upload(context(), {1, c.r, c.v}, p.a),
                           .bt = test::upload(context(), {1, c.r, c.d}, p.bt),
                           .row_groups = test::upload_row_groups(context(), c.t, groups)},
                          static_cast<float>(p.factor));
  });
  test::expect_close(context().read<float>(y), p.forward(), tolerance(c), "y of groups");
}

TEST_P(LoraEmbedding, IgnoresIdsOutsideOfTheTable) {
  const Problem p({6, 4, 8, 2}, {-1, 0, 4, 2147483647, 3, -1});
  std::vector<double> of_a, of_bt;
  p.backward(of_a, of_bt, 1);
  const Results got = results_of(p);
  test::expect_close(got.y, p.forward(), tolerance(p.size), "y");
  test::expect_close(got.da, of_a, tolerance(p.size), "da");
  test::expect_close(got.dbt, of_bt, tolerance(p.size), "dbt");
}

TEST_P(LoraEmbedding, RefusesTensorsThatDoNotFit) {
  using testing::HasSubstr;
  const auto tensor = [&](Shape shape, DType type = DType::f32) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor y = tensor({3, 8}), s = tensor({3, 2}), ids = tensor({3}, DType::i32);
  const LoraWeights lora{.a = tensor({2, 5}), .bt = tensor({2, 8})};
  const auto error = [&](const Tensor& of_s, const Tensor& which, const LoraWeights& of) {
    Batch batch(context());
    return test::error_of([&] { record_lora_embedding(batch, y, of_s, which, of); });
  };
  EXPECT_THAT(error(y, ids, lora), HasSubstr("s must be f32 [3, 2]"));
  EXPECT_THAT(error(s, s, lora), HasSubstr("ids must be i32 [3]"));
  EXPECT_THAT(error(s, ids, {}), HasSubstr("lora.a must be a matrix [R, V], got nothing"));
  EXPECT_THAT(error(s, ids, {.a = lora.a, .bt = lora.a}), HasSubstr("lora.bt must be f32 [2, 8]"));
  EXPECT_THAT(error(s, ids, {.a = lora.a, .bt = lora.bt, .row_groups = s}),
              HasSubstr("lora.a must be a stack of matrices [adapters, R, V]"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_lora_embedding_backward(batch, {lora.a, lora.a}, y, {ids, s}, lora);
              }),
              HasSubstr("gradients.dbt must be f32 [2, 8]"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_lora_embedding_backward(batch, {lora.a, lora.bt}, y, {ids, s},
                                               {.a = lora.a, .bt = lora.bt, .row_groups = s});
              }),
              HasSubstr("rows of several adapters have no gradients"));
}

// dtable of a table that is trained itself.
TEST_P(LoraEmbedding, AddsTheGradientOfTheTableItselfWithTheSameBitsEachRun) {
  for (const Case& c : kCases) {
    std::vector<std::int32_t> ids = ids_of(c);
    if (c.t > 5) ids[3] = -1;  // adds nothing, nor does an id after the last
    if (c.t > 5) ids[5] = static_cast<std::int32_t>(c.v);
    const auto table = values(c.v * c.d, 1), dy = values(c.t * c.d, 2);
    std::vector<double> want = to_double(table);
    for (std::int64_t t = 0; t < c.t; ++t) {
      const std::int64_t id = ids[static_cast<std::size_t>(t)];
      for (std::int64_t d = 0; d < c.d && id >= 0 && id < c.v; ++d) {
        want[static_cast<std::size_t>(id * c.d + d)] += 2 * 1.75 * Problem::at(dy, t * c.d + d);
      }
    }
    std::vector<std::vector<float>> results;
    for (int i = 0; i < 2; ++i) {
      const Tensor dtable = test::upload(context(), {c.v, c.d}, table);
      run([&](Batch& batch) {
        const Tensor of_ids = test::upload(context(), {c.t}, std::span(std::as_const(ids)));
        const Tensor of_dy = test::upload(context(), {c.t, c.d}, dy);
        record_table_gradient(batch, dtable, of_dy, of_ids, 1.75F);
        record_table_gradient(batch, dtable, of_dy, of_ids, 1.75F);
      });
      results.push_back(context().read<float>(dtable));
    }
    test::expect_close(results[0], want, tolerance(c), fmt::format("{} tokens", c.t));
    EXPECT_EQ(results[1], results[0]);
  }
  Batch b(context());
  const std::vector<std::int32_t> few = ids_of({4, 3, 2, 1});
  const Tensor ids = test::upload(context(), {4}, std::span(few));
  const auto matrix = [&](std::int64_t rows, std::int64_t width) {
    return test::upload(context(), {rows, width}, values(rows * width, 1));
  };
  EXPECT_THAT(test::error_of([&] { record_table_gradient(b, matrix(3, 5), matrix(4, 2), ids); }),
              testing::HasSubstr("dtable must be f32 [3, 2], got f32 [3, 5]"));
  EXPECT_THAT(test::error_of([&] { record_table_gradient(b, matrix(3, 2), matrix(5, 2), ids); }),
              testing::HasSubstr("ids must be i32 [5]"));
}

}  // namespace
}  // namespace clora
