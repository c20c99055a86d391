// The ops that self-tests of attention's kernels record (ops/dispatch/variant_dispatch.hpp).
#pragma once

#include "clora/ops/attention/attention.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

// Attention of `rows` queries at the end of a sequence of `keys` keys; the first keys are a
// separate document. `width` is the head dim.
void test_attention(SelfTest& test, std::int64_t rows, std::int64_t keys, std::int64_t width,
                    DType type = DType::f32);
// Its backward. Any y and log_sum_exp can replace those of the forward, which is tested separately.
void test_attention_backward(SelfTest& test, std::int64_t rows, std::int64_t width,
                             DType type = DType::f32);

}  // namespace clora
