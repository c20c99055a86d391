// The ops that self-tests of attention's kernels record (ops/dispatch/variant_dispatch.hpp).
#pragma once

#include <fmt/format.h>

#include <string>

#include "ops/attention/attention_spec.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

// What changes the scores of a test.
struct ScoreChanges {
  float soft_cap = 0;  // as in AttentionInputs
  bool has_bias = false;
};

// Attention of `rows` queries at the end of a sequence of `keys` keys; the first keys are a
// separate document. `width` is the head dim.
struct TestedAttention {
  std::int64_t rows, keys, width;
  DType type = DType::f32, key_type = DType::f32;  // of q and y; of k and v
  ScoreChanges scores = {};
  bool in_pages = false;  // the keys
  // Whether the first row attends to its last 3 keys only, so that a key that it should not attend
  // to changes its result by more than rounding does.
  bool has_short_row = false;
};
void test_attention(SelfTest& test, const TestedAttention& tested);
// Its inputs, for tests that record a kernel themselves.
AttentionInputs attention_test_inputs(SelfTest& test, const TestedAttention& tested);
// Its backward. Any y and log_sum_exp can replace those of the forward, which is tested separately.
void test_attention_backward(SelfTest& test, std::int64_t rows, std::int64_t width,
                             DType type = DType::f32, const ScoreChanges& scores = {});

// A kernel with a soft cap or a bias is another program, whose self-test has a name with this
// suffix. It has a cap that matters for the test's scores, whatever that of the call.
inline std::string_view program_suffix(const AttentionSpec& spec) {
  if (spec.has_bias) return " biased";
  return spec.soft_cap == 0 ? "" : " capped";
}
inline ScoreChanges self_test_scores(const AttentionSpec& spec) {
  return {.soft_cap = spec.soft_cap == 0 ? 0.0F : 1.5F, .has_bias = spec.has_bias};
}
// The same for the forward's programs for keys of another type than f32, or in pages.
inline std::string key_suffix(const AttentionSpec& spec) {
  const std::string type =
      spec.key_type == DType::f32 ? "" : fmt::format(" {} keys", name_of(spec.key_type));
  return spec.page > 0 ? type + " in pages" : type;
}

}  // namespace clora
