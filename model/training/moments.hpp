// The moments of AdamW: in which form a Trainer stores them, and their values on the host, as
// checkpoints hold them. Values; thread-safe as such.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace clora {

// f32 takes 8 bytes per parameter for both moments, q8 about 2 (ops/adamw_q8.hpp).
enum class MomentType { f32, q8 };
std::string_view name_of(MomentType type);  // "f32"
// The type of that name. Errors: invalid_argument.
MomentType named_moment_type(std::string_view name);

// All arrays are in the adapter's flat order.
struct MomentsF32 {
  std::vector<float> first;
  std::vector<float> second;
  bool operator==(const MomentsF32&) const = default;
};

// One moment in blocks of kMomentBlock values.
struct CodedMoment {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;  // one per block
  bool operator==(const CodedMoment&) const = default;
};
struct MomentsQ8 {
  CodedMoment first;
  CodedMoment root;  // of the second moment
  bool operator==(const MomentsQ8&) const = default;
};

// In the order of MomentType.
using Moments = std::variant<MomentsF32, MomentsQ8>;
MomentType type_of(const Moments& moments);

}  // namespace clora
