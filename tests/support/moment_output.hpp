// A moment in 8 bits on a device, for tests: codes and scales between canaries, and their values.
#pragma once

#include <cstdint>
#include <vector>

#include "clora/ops/optimizers/adamw_q8.hpp"
#include "tests/reference/adamw_q8_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {

// Codes between canaries, also within the last word of the output.
class CodeOutput {
 public:
  CodeOutput(Context& context, std::int64_t n)
      : words_(context, {(n + 3) / 4}), codes_(words_.tensor().slice(0, {n}, DType::u8)) {
    rest_ = bytes_after();
  }
  const Tensor& tensor() const { return codes_; }
  std::vector<std::uint8_t> values() const {
    std::vector<std::uint8_t> bytes = all_bytes();
    EXPECT_EQ(bytes_after(), rest_) << "written after the codes";
    bytes.resize(static_cast<std::size_t>(codes_.elements()));
    return bytes;
  }

 private:
  std::vector<std::uint8_t> all_bytes() const {
    const std::vector<float> words = words_.values();
    const auto* begin = reinterpret_cast<const std::uint8_t*>(words.data());
    return {begin, begin + 4 * words.size()};
  }
  std::vector<std::uint8_t> bytes_after() const {
    const std::vector<std::uint8_t> bytes = all_bytes();
    return {bytes.begin() + static_cast<std::ptrdiff_t>(codes_.elements()), bytes.end()};
  }

  Output words_;
  Tensor codes_;
  std::vector<std::uint8_t> rest_;
};

// One moment on the device.
struct MomentOutput {
  CodeOutput codes;
  Output scales;
  bool has_sign;

  MomentOutput(Context& context, std::int64_t n, bool signs)
      : codes(context, n), scales(context, {moment_blocks(n)}), has_sign(signs) {}
  QuantisedMoment tensors() const { return {codes.tensor(), scales.tensor()}; }
  std::vector<double> decoded() const {
    return reference::decoded(codes.values(), scales.values(), has_sign);
  }
};

}  // namespace clora::test
