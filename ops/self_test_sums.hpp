// What self-tests should find, known beforehand: of each test's inputs and of the results that the
// portable kernels gave for them, a few sums. A fast kernel whose results have these sums is right,
// and the portable kernels need not be built to say so, which takes a driver seconds. Where sums
// differ or are not known, they are built and every element is compared (ops/variant_dispatch.hpp),
// so that sums which are out of date cost time and nothing else.
//
// The sums of an output of floats: element i counts in sum i % 8, half of them with the other sign,
// chosen by a hash of i. All are in millionths of the largest magnitude. Values of bf16 count as
// floats; those of any other type must be the same, and have their digest for a sum.
// The table, self_test_sums_table.hpp, is written by tools/write_self_test_sums.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/digest.hpp"
#include "runtime/dtype.hpp"

namespace clora {

// The bytes of one result of a self-test.
struct SelfTestResult {
  DType type;
  std::vector<std::byte> bytes;

  bool holds_floats() const noexcept { return type == DType::f32 || type == DType::bf16; }
  // REQUIRES: holds_floats().
  std::vector<float> floats() const;
};

// The sums of a test's results as the table has them, "9.43 12 -3 ...;1 0 ...".
std::string self_test_sums(const std::vector<SelfTestResult>& results);

// The name of a test's entry: of the op that kernel `name` belongs to ("gemm" of "gemm_tiles q4_1",
// since all of its kernels owe the same results) and of the digest of the test's inputs and
// outputs.
std::string self_test_key(std::string_view kernel, const Digest& inputs);

// The entry of that name; nothing where there is none.
std::optional<std::string_view> known_self_test_sums(std::string_view key);

// Whether the results have these sums. `tolerance` is that of an element, relative to the largest;
// rounding errors grow with the root of the number of elements in a sum, a wrong kernel's far more.
bool have_sums(const std::vector<SelfTestResult>& results, std::string_view sums, double tolerance);

}  // namespace clora
