#include "clora/model/weights/block_split.hpp"

#include <algorithm>
#include <limits>

#include "runtime/fail.hpp"

namespace clora {
namespace {

void check_shares(std::size_t blocks, std::span<const std::int64_t> shares) {
  require(!shares.empty() && std::ranges::all_of(shares, [](auto share) { return share > 0; }),
          "model: the shares of the stages must be above 0, and there must be one");
  require(shares.size() <= blocks,
          "model: its {} blocks cannot be split over {} devices, since each needs one; use at most "
          "{} devices",
          blocks, shares.size(), blocks);
}

}  // namespace

std::vector<std::size_t> block_bytes(const WeightFiles& files) {
  const ModelConfig& config = files.config();
  const std::vector<WeightView> views = files.all();
  std::vector<std::size_t> bytes(static_cast<std::size_t>(config.layers));
  for (std::int64_t block = 0; block < config.layers; ++block) {
    for (const WeightView& view : views) {
      if (!holds_tensor(config, {block, block + 1}, view.name)) continue;
      bytes[static_cast<std::size_t>(block)] += size_bytes(view);
    }
  }
  return bytes;
}

// best[s][n]: the smallest largest quotient of the first n blocks over the first s + 1 stages.
std::vector<BlockRange> split_blocks(std::span<const std::size_t> bytes,
                                     std::span<const std::int64_t> shares) {
  check_shares(bytes.size(), shares);
  const std::size_t blocks = bytes.size(), stages = shares.size();
  std::vector<double> before(blocks + 1, 0);  // bytes of the blocks before
  for (std::size_t n = 0; n < blocks; ++n) {
    before[n + 1] = before[n] + static_cast<double>(bytes[n]);
  }
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector best(stages, std::vector<double>(blocks + 1, kNone));
  std::vector begins(stages, std::vector<std::size_t>(blocks + 1, 0));
  for (std::size_t s = 0; s < stages; ++s) {
    const auto share = static_cast<double>(shares[s]);
    for (std::size_t end = s + 1; end + (stages - s - 1) <= blocks; ++end) {
      for (std::size_t begin = s; begin < (s == 0 ? 1 : end); ++begin) {
        const double earlier = s == 0 ? 0 : best[s - 1][begin];
        const double most = std::max(earlier, (before[end] - before[begin]) / share);
        if (most >= best[s][end]) continue;
        best[s][end] = most;
        begins[s][end] = begin;
      }
    }
  }
  std::vector<BlockRange> ranges(stages);
  std::size_t end = blocks;
  for (std::size_t s = stages; s-- > 0; end = begins[s][end]) {
    ranges[s] = {static_cast<std::int64_t>(begins[s][end]), static_cast<std::int64_t>(end)};
  }
  return ranges;
}

std::vector<BlockRange> split_blocks(const WeightFiles& files,
                                     std::span<const std::int64_t> shares) {
  return split_blocks(block_bytes(files), shares);
}

}  // namespace clora
