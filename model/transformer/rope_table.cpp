#include "model/transformer/rope_table.hpp"

#include <algorithm>
#include <cmath>

#include "clora/model/configuration/model_config.hpp"
#include "runtime/fail.hpp"

namespace clora {

std::vector<float> make_rope_table(std::int64_t positions, std::span<const double> frequencies,
                                   double attention_factor) {
  require(positions >= 0, "rope table: positions must be 0 or more, got {}", positions);
  require(std::ranges::all_of(frequencies, [](double f) { return std::isfinite(f); }),
          "rope table: every frequency must be finite");
  require(std::isfinite(attention_factor), "rope table: the attention factor must be finite");
  std::vector<float> table;
  table.reserve(static_cast<std::size_t>(positions) * frequencies.size() * 2);
  for (std::int64_t p = 0; p < positions; ++p) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(p) * frequency;
      table.push_back(static_cast<float>(attention_factor * std::cos(angle)));
      table.push_back(static_cast<float>(attention_factor * std::sin(angle)));
    }
  }
  return table;
}

std::vector<float> make_rope_table(std::int64_t positions, const RopeSpec& rope) {
  const std::vector<double> frequencies = rope_frequencies(rope);
  std::vector<float> table = make_rope_table(positions, frequencies, rope.scaling.attention_factor);
  if (!rope.temperature) return table;
  const std::size_t row = 2 * frequencies.size();
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] *= static_cast<float>(query_factor(rope, static_cast<std::int64_t>(i / row)));
  }
  return table;
}

}  // namespace clora
