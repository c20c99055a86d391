#include "clora/ops/recurrent/delta_rule.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "tests/reference/delta_rule_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using reference::DeltaRule;
using reference::DeltaRuleProblem;
using reference::DeltaRuleValues;
using test::Output;
using testing::HasSubstr;

// Inputs and the gradient of the output, as their type stores them.
struct Case {
  DeltaRuleProblem p;
  DeltaRuleValues x;
  std::vector<float> qkv, a, b, dy, rate, dt_bias;
  DType type = DType::f32;

  Case(const DeltaRuleHeads& heads, const std::vector<int>& lengths, DType stored = DType::f32,
       float decay = 1)
      : type(stored) {
    for (const int length : lengths) {
      p.first.insert(p.first.end(), static_cast<std::size_t>(length),
                     static_cast<std::int32_t>(p.first.size()));
    }
    p.heads = heads;
    const auto H = static_cast<std::size_t>(heads.value_heads);
    const std::size_t T = p.first.size();
    qkv = values(T * static_cast<std::size_t>(heads.width()), 1);
    a = values(T * H, 2, 2);
    b = values(T * H, 3, 3);
    dy = values(T * static_cast<std::size_t>(heads.values()), 4);
    rate = test::random_values(H, 5, 0.45F * decay);
    for (float& value : rate) value -= 0.5F * decay;
    dt_bias = test::random_values(H, 6);
    x = {test::to_double(qkv), test::to_double(a), test::to_double(b)};
    p.rate = test::to_double(rate);
    p.dt_bias = test::to_double(dt_bias);
  }
  std::vector<float> values(std::size_t count, std::uint32_t seed, float scale = 1) const {
    return test::stored_as(type, test::random_values(count, seed, scale));
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(p.first.size()); }
  Shape wide() const { return {rows(), p.heads.width()}; }
  Shape narrow() const { return {rows(), p.heads.value_heads}; }
  Shape out() const { return {rows(), p.heads.values()}; }
  std::string text() const {
    return fmt::format("{} rows, heads {} of {} and {} of {}", rows(), p.heads.key_heads,
                       p.heads.key_dim, p.heads.value_heads, p.heads.value_dim);
  }
};

constexpr DeltaRuleHeads kSmall{2, 4, 6, 5};

// Documents that end in the middle and at the end of chunks of 16, 32 and 64 rows.
std::vector<Case> cases() {
  std::vector<Case> all;
  all.emplace_back(DeltaRuleHeads{1, 1, 1, 1}, std::vector{1});
  all.emplace_back(kSmall, std::vector{7, 1, 5});
  all.emplace_back(kSmall, std::vector{17, 14, 1});
  all.emplace_back(DeltaRuleHeads{1, 3, 16, 15}, std::vector{64});
  all.emplace_back(kSmall, std::vector{70, 1, 57, 3, 40});
  all.emplace_back(DeltaRuleHeads{2, 2, 17, 33}, std::vector{30, 100, 65}, DType::f32, 8.0F);
  all.emplace_back(DeltaRuleHeads{1, 2, 64, 128}, std::vector{129});
  all.emplace_back(DeltaRuleHeads{2, 4, 128, 120}, std::vector{90, 40, 200});
  // Decays that carry a state over whole chunks.
  all.emplace_back(DeltaRuleHeads{1, 2, 64, 64}, std::vector{200}, DType::f32, 0.02F);
  std::erase_if(all, [](const Case& c) { return !test::affords(c.rows() * c.p.heads.width()); });
  return all;
}

class DeltaRuleTest : public test::OpTest {
 protected:
  Tensor up(const Case& c, Shape shape, std::vector<float> values) {
    return test::upload_as(context(), c.type, shape, values);
  }
  DeltaRuleInputs inputs(const Case& c) {
    const Shape heads{c.p.heads.value_heads};
    return {.heads = c.p.heads,
            .qkv = up(c, c.wide(), c.qkv),
            .a = up(c, c.narrow(), c.a),
            .b = up(c, c.narrow(), c.b),
            .rate = test::upload(context(), heads, c.rate),
            .dt_bias = test::upload(context(), heads, c.dt_bias),
            .rows = test::upload(context(), {c.rows()}, c.p.first)};
  }
  // Rows [begin, begin + rows.size()) with these positions; the rows after the last one are 7.
  DeltaRuleInputs some_rows(const Case& c, std::int64_t begin, std::vector<std::int32_t> rows) {
    const auto count = static_cast<std::int64_t>(rows.size());
    const auto part = [&](const std::vector<float>& of, std::int64_t width) {
      std::vector<float> values(static_cast<std::size_t>(count * width), 7);
      const std::int64_t end = std::min(begin + count, c.rows());
      std::copy(of.begin() + begin * width, of.begin() + end * width, values.begin());
      return up(c, {count, width}, values);
    };
    DeltaRuleInputs in = inputs(c);
    in.qkv = part(c.qkv, c.p.heads.width());
    in.a = part(c.a, c.p.heads.value_heads);
    in.b = part(c.b, c.p.heads.value_heads);
    in.rows = test::upload(context(), {count}, rows);
    return in;
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, DeltaRuleTest, test::all_variants(), test::variant_name);

TEST_P(DeltaRuleTest, InChunksIsTheRecurrenceWithinDocuments) {
  for (const Case& c : cases()) {
    const Output y(context(), c.out());
    run([&](Batch& batch) { record_delta_rule(batch, y.tensor(), inputs(c)); });
    test::expect_close(y.values(), DeltaRule(c.p, c.x).forward(),
                       test::product_tolerance_of(GetParam(), 256), c.text());
  }
}

TEST_P(DeltaRuleTest, BackwardInChunksIsTheGradientThroughTimeAndOverwrites) {
  for (const Case& c : cases()) {
    const Output dqkv(context(), c.wide()), da(context(), c.narrow()), db(context(), c.narrow());
    run([&](Batch& batch) {
      for (int twice = 0; twice < 2; ++twice) {
        record_delta_rule_backward(batch, {dqkv.tensor(), da.tensor(), db.tensor()},
                                   up(c, c.out(), c.dy), inputs(c));
      }
    });
    const DeltaRuleValues want = DeltaRule(c.p, c.x).backward(test::to_double(c.dy));
    const double tolerance = test::product_tolerance_of(GetParam(), 1024);
    test::expect_close(dqkv.values(), want.qkv, tolerance, c.text() + " dqkv");
    test::expect_close(da.values(), want.a, tolerance, c.text() + " da");
    test::expect_close(db.values(), want.b, tolerance, c.text() + " db");
  }
}

TEST_P(DeltaRuleTest, BackwardIsTheDerivativeByCentralDifferences) {
  const Case c(kSmall, {9, 4, 6});
  const Output dqkv(context(), c.wide()), da(context(), c.narrow()), db(context(), c.narrow());
  run([&](Batch& batch) {
    record_delta_rule_backward(batch, {dqkv.tensor(), da.tensor(), db.tensor()},
                               up(c, c.out(), c.dy), inputs(c));
  });
  const auto dy = test::to_double(c.dy);
  const auto of = [&](std::vector<double> DeltaRuleValues::*part) {
    return test::central_differences(
        [&](const std::vector<double>& at) {
          DeltaRuleValues x = c.x;
          x.*part = at;
          const auto y = DeltaRule(c.p, x).forward();
          return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
        },
        c.x.*part);
  };
  test::expect_close(dqkv.values(), of(&DeltaRuleValues::qkv), 1e-5, "dqkv");
  test::expect_close(da.values(), of(&DeltaRuleValues::a), 1e-5, "da");
  test::expect_close(db.values(), of(&DeltaRuleValues::b), 1e-5, "db");
}

TEST_P(DeltaRuleTest, SupportsHalves) {
  for (const DType type : {DType::bf16, DType::f16}) {
    const Case c(kSmall, {20, 3}, type);
    const Output y(context(), c.out(), type);
    const Output dqkv(context(), c.wide(), type), da(context(), c.narrow(), type),
        db(context(), c.narrow(), type);
    run([&](Batch& batch) {
      record_delta_rule(batch, y.tensor(), inputs(c));
      record_delta_rule_backward(batch, {dqkv.tensor(), da.tensor(), db.tensor()},
                                 up(c, c.out(), c.dy), inputs(c));
    });
    const DeltaRule rule(c.p, c.x);
    const DeltaRuleValues want = rule.backward(test::to_double(c.dy));
    const double tolerance = test::rounding_of(type) + test::tolerance_of(256);
    test::expect_close(y.values(), rule.forward(), tolerance, "y");
    test::expect_close(dqkv.values(), want.qkv, tolerance, "dqkv");
    test::expect_close(da.values(), want.a, tolerance, "da");
    test::expect_close(db.values(), want.b, tolerance, "db");
  }
}

// Calls of these numbers of rows and of padding, from a state that holds another sequence.
TEST_P(DeltaRuleTest, WithAStateEqualsTheSequenceAtOnceFromPositionZeroOn) {
  const Case c(kSmall, {103});
  const auto& heads = c.p.heads;
  const Shape shape{heads.value_heads, heads.key_dim, heads.value_dim};
  const Tensor state = test::upload(
      context(), shape, std::vector<float>(static_cast<std::size_t>(shape.elements()), NAN));
  const DeltaRule rule(c.p, c.x);
  const std::vector<double> want = rule.forward();
  std::int32_t at = 0;
  for (const auto& [rows, padding] :
       {std::pair{70, 0}, {1, 0}, {1, 0}, {9, 7}, {1, 0}, {20, 44}, {1, 0}}) {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(rows + padding), -1);
    std::iota(positions.begin(), positions.begin() + rows, at);
    const Output y(context(), {rows + padding, heads.values()});
    run([&](Batch& batch) {
      record_delta_rule_cached(batch, y.tensor(), state, some_rows(c, at, positions));
    });
    const std::vector<float> got = y.values();
    const auto begin = want.begin() + at * heads.values();
    test::expect_close(std::span(got).first(static_cast<std::size_t>(rows * heads.values())),
                       std::vector(begin, begin + rows * heads.values()), test::tolerance_of(256),
                       fmt::format("{} rows from {}", rows, at));
    for (const float value : got) EXPECT_TRUE(std::isfinite(value));
    at += rows;
  }
  ASSERT_EQ(at, c.rows());
  std::vector<double> last;
  for (std::size_t h = 0; h < static_cast<std::size_t>(heads.value_heads); ++h) {
    const auto of_head = rule.last_state(h);
    last.insert(last.end(), of_head.begin(), of_head.end());
  }
  test::expect_close(context().read<float>(state), last, test::tolerance_of(256), "the state");
}

TEST_P(DeltaRuleTest, ASingleRowAtPositionZeroIgnoresTheState) {
  const Case c(kSmall, {1});
  const auto& heads = c.p.heads;
  const Tensor state = test::upload(context(), {heads.value_heads, heads.key_dim, heads.value_dim},
                                    std::vector<float>(std::size_t{4} * 6 * 5, NAN));
  const Output y(context(), c.out());
  run([&](Batch& batch) {
    record_delta_rule_cached(batch, y.tensor(), state, some_rows(c, 0, {0}));
  });
  test::expect_close(y.values(), DeltaRule(c.p, c.x).forward(), test::tolerance_of(16), "y");
}

TEST_P(DeltaRuleTest, RefusesTensorsThatDoNotFit) {
  const Case c(kSmall, {3});
  const auto make = [&](Shape shape, DType type = DType::f32) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor y = make(c.out());
  const auto error = [&](auto change) {
    DeltaRuleInputs in = inputs(c);
    change(in);
    return test::error_of([&] {
      Batch batch(context());
      record_delta_rule(batch, y, in);
    });
  };
  EXPECT_THAT(error([](auto& in) { in.heads.key_heads = 3; }),
              HasSubstr("value heads must be a multiple of key heads"));
  EXPECT_THAT(error([](auto& in) { in.heads.key_dim = 0; }), HasSubstr("and 2 of 0"));
  EXPECT_THAT(error([](auto& in) { in.qkv = {}; }), HasSubstr("at least one row, got nothing"));
  EXPECT_THAT(error([&](auto& in) { in.qkv = make({3, 45}); }), HasSubstr("must be f32 [3, 44]"));
  EXPECT_THAT(error([&](auto& in) { in.a = make({3, 5}); }), HasSubstr("a must be f32 [3, 4]"));
  EXPECT_THAT(error([&](auto& in) {
                in.b = make({3, 4}, DType::bf16);
              }),
              HasSubstr("b must be f32"));
  EXPECT_THAT(error([&](auto& in) { in.rate = make({5}); }), HasSubstr("rate must be f32 [4]"));
  EXPECT_THAT(error([&](auto& in) { in.dt_bias = make({5}); }), HasSubstr("dt_bias must be"));
  EXPECT_THAT(error([&](auto& in) { in.rows = make({4}, DType::i32); }),
              HasSubstr("first must be i32 [3]"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_delta_rule_cached(batch, y, make({4, 6, 6}), inputs(c));
              }),
              HasSubstr("state must be f32 [4, 6, 5]"));
  const auto gradient_error = [&](const DeltaRuleGradients& d, const Tensor& dy) {
    return test::error_of([&] {
      Batch batch(context());
      record_delta_rule_backward(batch, d, dy, inputs(c));
    });
  };
  const DeltaRuleGradients d{make(c.wide()), make(c.narrow()), make(c.narrow())};
  EXPECT_THAT(gradient_error(d, make({3, 21})), HasSubstr("dy must be f32 [3, 20]"));
  EXPECT_THAT(gradient_error({y, d.da, d.db}, y), HasSubstr("dqkv must be f32 [3, 44]"));
  EXPECT_THAT(gradient_error({d.dqkv, y, d.db}, y), HasSubstr("da must be f32 [3, 4]"));
  EXPECT_THAT(gradient_error({d.dqkv, d.da, y}, y), HasSubstr("db must be f32 [3, 4]"));
}

}  // namespace
}  // namespace clora
