#include "model/files/quantise_k.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "runtime/memory/half.hpp"

namespace clora {
namespace {

using Byte = std::uint8_t;

constexpr int kValues = 256;
constexpr int kRounds = 2;  // of solving the super-block's scales

// A scale as f16 holds it, with its bits.
struct StoredScale {
  std::uint16_t bits = 0;
  float value = 0;
  bool fits() const { return std::isfinite(value); }
};

StoredScale stored(double value) {
  const std::uint16_t bits = float_to_f16(static_cast<float>(value));
  return {bits, f16_to_float(bits)};
}

void put_16(Byte* out, std::uint16_t bits) { std::memcpy(out, &bits, sizeof bits); }

int nearest(float value, int least, int largest) {
  if (!(value > static_cast<float>(least))) return least;
  if (value >= static_cast<float>(largest)) return largest;
  return static_cast<int>(std::lrintf(value));
}

// Whether a value is beyond what the largest scales and levels give (q6_k: 65504 * 128 * 32), so
// that sums of squares below stay finite.
bool is_too_large(const float* x) {
  constexpr float kLargest = 3e8F;
  return std::any_of(x, x + kValues, [](float value) { return std::abs(value) > kLargest; });
}

// The weights of the square errors: those of ggml, by which larger values count more.
void set_weights(std::span<const float> x, std::span<float> weights) {
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  const auto base = static_cast<float>(std::sqrt(squares / static_cast<double>(x.size())));
  for (std::size_t i = 0; i < x.size(); ++i) weights[i] = base + std::abs(x[i]);
}

// ---- x = scale q - min, q from 0 to `levels`, min >= 0 ----

constexpr int kAffineSize = 32;
constexpr int kAffineCount = kValues / kAffineSize;
constexpr int kMaxAffineScale = 63;  // 6 bits

struct Affine {
  float scale = 0, min = 0;
};

struct AffineBlock {
  std::array<float, kAffineSize> x, w;
  std::array<int, kAffineSize> q;
  int scale = 0, min = 0;  // multiples of the super-block's
};

// Rounds to levels and returns the weighted square error.
float set_levels(AffineBlock& block, Affine fit, int levels) {
  const float inverse = fit.scale == 0 ? 0 : 1 / fit.scale;
  float error = 0;
  for (std::size_t i = 0; i < kAffineSize; ++i) {
    const int q = nearest((block.x[i] + fit.min) * inverse, 0, levels);
    const float difference = fit.scale * static_cast<float>(q) - fit.min - block.x[i];
    block.q[i] = q;
    error += block.w[i] * difference * difference;
  }
  return error;
}

// The least squares solution for the levels.
Affine solve(const AffineBlock& block) {
  double w = 0, wq = 0, wqq = 0, wx = 0, wqx = 0;
  for (std::size_t i = 0; i < kAffineSize; ++i) {
    const double weight = block.w[i], q = block.q[i], x = block.x[i];
    w += weight;
    wq += weight * q;
    wqq += weight * q * q;
    wx += weight * x;
    wqx += weight * q * x;
  }
  const double determinant = w * wqq - wq * wq;
  if (determinant <= 0) return {};
  const double offset = (wqq * wx - wq * wqx) / determinant;
  if (offset > 0) return {wqq > 0 ? static_cast<float>(std::max(0.0, wqx / wqq)) : 0.0F, 0};
  const double scale = (w * wqx - wq * wx) / determinant;
  return {static_cast<float>(std::max(0.0, scale)), static_cast<float>(-offset)};
}

// Keeps the better one of `best` and the solution for the levels of `start`, refined once.
void improve(AffineBlock& block, Affine start, int levels, Affine& best, float& least) {
  set_levels(block, start, levels);
  for (int round = 0; round < 2; ++round) {
    const Affine fit = solve(block);
    const float error = set_levels(block, fit, levels);
    if (error >= least) return;
    least = error;
    best = fit;
  }
}

Affine fit(AffineBlock& block, int levels) {
  const auto [least_at, largest_at] = std::ranges::minmax_element(block.x);
  const float low = std::min(0.0F, *least_at), high = *largest_at;
  if (high <= low) return {0, -low};
  Affine best{(high - low) / static_cast<float>(levels), -low};
  float least = set_levels(block, best, levels);
  constexpr int kSteps = 20;
  for (int step = 0; step <= kSteps; ++step) {
    const float range = static_cast<float>(levels) + 0.1F * static_cast<float>(step - kSteps / 2);
    improve(block, {(high - low) / range, -low}, levels, best, least);
  }
  return best;
}

struct AffineScales {
  StoredScale scale, min;
};

// Gives a sub-block the best of the integers next to its present ones; returns the error.
float choose_integers(AffineBlock& block, const AffineScales& of_all, int levels) {
  const int scale = block.scale, min = block.min;
  float least = std::numeric_limits<float>::infinity();
  for (int s = std::max(0, scale - 1); s <= std::min(kMaxAffineScale, scale + 1); ++s) {
    for (int m = std::max(0, min - 1); m <= std::min(kMaxAffineScale, min + 1); ++m) {
      const Affine fit{of_all.scale.value * static_cast<float>(s),
                       of_all.min.value * static_cast<float>(m)};
      const float error = set_levels(block, fit, levels);
      if (error >= least) continue;
      least = error;
      block.scale = s;
      block.min = m;
    }
  }
  set_levels(block,
             {of_all.scale.value * static_cast<float>(block.scale),
              of_all.min.value * static_cast<float>(block.min)},
             levels);
  return least;
}

// The super-block's scales for the levels and integers of all sub-blocks; unchanged if the system
// is singular.
AffineScales solve(std::span<const AffineBlock> blocks, const AffineScales& before) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
  for (const AffineBlock& block : blocks) {
    for (std::size_t i = 0; i < kAffineSize; ++i) {
      const double weight = block.w[i], x = block.x[i];
      const double a = block.scale * block.q[i], b = -block.min;
      aa += weight * a * a;
      ab += weight * a * b;
      bb += weight * b * b;
      ax += weight * a * x;
      bx += weight * b * x;
    }
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant <= 1e-9 * aa * bb) return before;
  const double scale = (bb * ax - ab * bx) / determinant;
  const double min = (aa * bx - ab * ax) / determinant;
  if (!(scale > 0) || !(min > 0)) return before;
  return {stored(scale), stored(min)};
}

int rounded_ratio(float value, float unit) {
  return unit == 0 ? 0 : nearest(value / unit, 0, kMaxAffineScale);
}

using AffineBlocks = std::array<AffineBlock, kAffineCount>;

// Fits all sub-blocks and chooses their integers.
AffineScales quantise(AffineBlocks& blocks, int levels) {
  std::array<Affine, kAffineCount> fits;
  Affine largest;
  for (std::size_t s = 0; s < kAffineCount; ++s) {
    fits[s] = fit(blocks[s], levels);
    largest = {std::max(largest.scale, fits[s].scale), std::max(largest.min, fits[s].min)};
  }
  AffineScales of_all{stored(largest.scale / kMaxAffineScale),
                      stored(largest.min / kMaxAffineScale)};
  if (!of_all.scale.fits() || !of_all.min.fits()) return of_all;
  float error = 0;
  for (std::size_t s = 0; s < kAffineCount; ++s) {
    blocks[s].scale = rounded_ratio(fits[s].scale, of_all.scale.value);
    blocks[s].min = rounded_ratio(fits[s].min, of_all.min.value);
    error += choose_integers(blocks[s], of_all, levels);
  }
  for (int round = 0; round < kRounds; ++round) {
    AffineBlocks other = blocks;
    const AffineScales solved = solve(other, of_all);
    if (!solved.scale.fits() || !solved.min.fits()) break;
    float error_then = 0;
    for (AffineBlock& block : other) error_then += choose_integers(block, solved, levels);
    if (error_then >= error) break;
    error = error_then;
    blocks = other;
    of_all = solved;
  }
  return of_all;
}

// 12 bytes, as dequantise.cpp reads them.
void put_scales_and_mins(const AffineBlocks& blocks, Byte* packed) {
  for (std::size_t s = 0; s < 4; ++s) {
    const AffineBlock &low = blocks[s], &high = blocks[s + 4];
    packed[s] = static_cast<Byte>(low.scale | ((high.scale >> 4) << 6));
    packed[s + 4] = static_cast<Byte>(low.min | ((high.min >> 4) << 6));
    packed[s + 8] = static_cast<Byte>((high.scale & 0xf) | ((high.min & 0xf) << 4));
  }
}

// qh: nullptr, or where the fifth bits go.
bool encode_affine(const float* x, Byte* out, Byte* qh, Byte* qs, int levels) {
  if (is_too_large(x)) return false;
  AffineBlocks blocks;
  for (std::size_t s = 0; s < kAffineCount; ++s) {
    std::copy_n(x + s * kAffineSize, kAffineSize, blocks[s].x.begin());
    set_weights(blocks[s].x, blocks[s].w);
  }
  const AffineScales scales = quantise(blocks, levels);
  put_16(out, scales.scale.bits);
  put_16(out + 2, scales.min.bits);
  if (!scales.scale.fits() || !scales.min.fits()) return false;
  put_scales_and_mins(blocks, out + 4);
  for (std::size_t i = 0; i < kAffineSize; ++i) {
    if (qh != nullptr) qh[i] = 0;
    for (std::size_t s = 0; s < kAffineCount; s += 2) {
      const int first = blocks[s].q[i], second = blocks[s + 1].q[i];
      qs[kAffineSize * (s / 2) + i] = static_cast<Byte>((first & 0xf) | ((second & 0xf) << 4));
      if (qh == nullptr) continue;
      qh[i] = static_cast<Byte>(qh[i] | ((first >> 4) << s) | ((second >> 4) << (s + 1)));
    }
  }
  return true;
}

// ---- x = scale q, q from -32 to 31 ----

constexpr int kLinearSize = 16;
constexpr int kLinearCount = kValues / kLinearSize;
constexpr int kLeastLevel = -32, kLargestLevel = 31;
constexpr int kLeastScale = -128, kLargestScale = 127;  // 8 bits

struct LinearBlock {
  std::array<float, kLinearSize> x, w;
  std::array<int, kLinearSize> q;
  int scale = 0;  // a multiple of the super-block's
};

float set_levels(LinearBlock& block, float scale) {
  const float inverse = scale == 0 ? 0 : 1 / scale;
  float error = 0;
  for (std::size_t i = 0; i < kLinearSize; ++i) {
    block.q[i] = nearest(block.x[i] * inverse, kLeastLevel, kLargestLevel);
    const float difference = scale * static_cast<float>(block.q[i]) - block.x[i];
    error += block.w[i] * difference * difference;
  }
  return error;
}

// The sums of a least squares problem x = scale a.
struct Sums {
  double aa = 0, ax = 0;
};

void add(Sums& sums, const LinearBlock& block, int scale) {
  for (std::size_t i = 0; i < kLinearSize; ++i) {
    const double a = scale * block.q[i], weight = block.w[i];
    sums.aa += weight * a * a;
    sums.ax += weight * a * static_cast<double>(block.x[i]);
  }
}

float solve(const LinearBlock& block) {
  Sums sums;
  add(sums, block, 1);
  return sums.aa > 0 ? static_cast<float>(sums.ax / sums.aa) : 0.0F;
}

// The scale may be negative: the value of the largest magnitude has the level -32.
float fit(LinearBlock& block) {
  const float extreme = *std::ranges::max_element(block.x, {}, [](float x) { return std::abs(x); });
  if (extreme == 0) return 0;
  float best = extreme / kLeastLevel;
  float least = set_levels(block, best);
  constexpr int kSteps = 20;
  for (int step = 0; step <= kSteps; ++step) {
    const float range =
        -static_cast<float>(kLeastLevel) + 0.1F * static_cast<float>(step - kSteps / 2);
    set_levels(block, -extreme / range);
    for (int round = 0; round < 2; ++round) {
      const float scale = solve(block);
      const float error = set_levels(block, scale);
      if (error >= least) break;
      least = error;
      best = scale;
    }
  }
  return best;
}

float choose_integer(LinearBlock& block, float of_all) {
  const int before = block.scale;
  float least = std::numeric_limits<float>::infinity();
  for (int s = std::max(kLeastScale, before - 1); s <= std::min(kLargestScale, before + 1); ++s) {
    const float error = set_levels(block, of_all * static_cast<float>(s));
    if (error >= least) continue;
    least = error;
    block.scale = s;
  }
  set_levels(block, of_all * static_cast<float>(block.scale));
  return least;
}

using LinearBlocks = std::array<LinearBlock, kLinearCount>;

float choose_integers(LinearBlocks& blocks, float of_all) {
  float error = 0;
  for (LinearBlock& block : blocks) error += choose_integer(block, of_all);
  return error;
}

StoredScale quantise(LinearBlocks& blocks) {
  std::array<float, kLinearCount> fits;
  float extreme = 0;
  for (std::size_t s = 0; s < kLinearCount; ++s) {
    fits[s] = fit(blocks[s]);
    if (std::abs(fits[s]) > std::abs(extreme)) extreme = fits[s];
  }
  StoredScale of_all = stored(extreme / kLeastScale);
  if (!of_all.fits()) return of_all;
  for (std::size_t s = 0; s < kLinearCount; ++s) {
    const float ratio = of_all.value == 0 ? 0 : fits[s] / of_all.value;
    blocks[s].scale = nearest(ratio, kLeastScale, kLargestScale);
  }
  float error = choose_integers(blocks, of_all.value);
  for (int round = 0; round < kRounds; ++round) {
    LinearBlocks other = blocks;
    Sums sums;
    for (const LinearBlock& block : other) add(sums, block, block.scale);
    const StoredScale solved = stored(sums.aa > 0 ? sums.ax / sums.aa : 0);
    if (!solved.fits()) break;
    const float error_then = choose_integers(other, solved.value);
    if (error_then >= error) break;
    error = error_then;
    blocks = other;
    of_all = solved;
  }
  return of_all;
}

}  // namespace

bool encode_q4_k(const float* x, std::uint8_t* block) {
  return encode_affine(x, block, nullptr, block + 16, 15);
}

bool encode_q5_k(const float* x, std::uint8_t* block) {
  return encode_affine(x, block, block + 16, block + 48, 31);
}

bool encode_q6_k(const float* x, std::uint8_t* block) {
  if (is_too_large(x)) return false;
  LinearBlocks blocks;
  for (std::size_t s = 0; s < kLinearCount; ++s) {
    std::copy_n(x + s * kLinearSize, kLinearSize, blocks[s].x.begin());
    set_weights(blocks[s].x, blocks[s].w);
  }
  const StoredScale d = quantise(blocks);
  put_16(block + 208, d.bits);
  if (!d.fits()) return false;
  std::fill_n(block, 192, Byte{0});
  for (std::size_t row = 0; row < 8; ++row) {  // rows of 32 values, as decode_q6_k() reads them
    const std::size_t half = row / 4, r = row % 4;
    for (std::size_t i = 0; i < 32; ++i) {
      const LinearBlock& of_value = blocks[2 * row + i / kLinearSize];
      const int q = of_value.q[i % kLinearSize] - kLeastLevel;
      Byte& nibbles = block[64 * half + 32 * (r % 2) + i];
      Byte& pairs = block[128 + 32 * half + i];
      nibbles = static_cast<Byte>(nibbles | ((q & 0xf) << (r < 2 ? 0 : 4)));
      pairs = static_cast<Byte>(pairs | ((q >> 4) << (2 * r)));
    }
  }
  for (std::size_t s = 0; s < kLinearCount; ++s) {
    block[192 + s] = static_cast<Byte>(static_cast<std::int8_t>(blocks[s].scale));
  }
  return true;
}

}  // namespace clora
