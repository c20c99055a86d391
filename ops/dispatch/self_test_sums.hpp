// Expected results of self-tests: for the inputs of each test, a few sums of the results of the
// portable kernels. A fast kernel whose results have these sums is correct, and the portable
// kernels need not be built to check it, which takes a driver seconds. If sums differ or are not
// known, they are built and every element is compared (ops/dispatch/variant_dispatch.hpp), so
// outdated sums only cost time.
//
// The sums of an output of floats: element i is added to sum i % 8, with a sign chosen by a hash of
// i. All are in millionths of the largest magnitude. Values of bf16 count as floats; values of any
// other type must be equal, and their digest replaces the sums.
// tools/write_self_test_sums writes the table, self_test_sums_table.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/files/digest.hpp"
#include "clora/runtime/memory/dtype.hpp"

namespace clora {

// The bytes of one result of a self-test.
struct SelfTestResult {
  DType type;
  std::vector<std::byte> bytes;

  bool holds_floats() const noexcept {
    return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::q8_0;
  }
  // REQUIRES: holds_floats().
  std::vector<float> floats() const;
};

// The sums of a test's results in the format of the table, "9.43 12 -3 ...;1 0 ...".
std::string self_test_sums(const std::vector<SelfTestResult>& results);

// The key of a test's entry: the op that kernel `kernel` belongs to ("gemm" of "gemm_tiles q4_1",
// since all of its kernels must give the same results) and the digest of the test's inputs and
// outputs.
std::string self_test_key(std::string_view kernel, const Digest& inputs);

// The entry with that key; empty if there is none.
std::optional<std::string_view> known_self_test_sums(std::string_view key);

// Whether the results have these sums. `tolerance` is that of an element, relative to the largest;
// rounding errors grow with the root of the number of elements in a sum, the errors of a wrong
// kernel far more.
bool have_sums(const std::vector<SelfTestResult>& results, std::string_view sums, double tolerance);

}  // namespace clora
