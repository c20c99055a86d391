// What a grammar may use. A schema or a grammar text is of unknown origin, so that reading it,
// compiling it and following it are bounded, whatever it says. Beyond a limit there is an Error
// that names it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace clora::grammar {

struct GrammarLimits {
  std::size_t source_bytes = std::size_t{256} << 10U;
  std::size_t source_depth = 100;  // nesting of a schema, of a grammar's groups or of a pattern's
  std::size_t object_keys = 4096;  // of one object of a schema
  std::size_t alternatives = 256;  // of one schema, after allOf and anyOf are multiplied out
  std::size_t copied_values = 500'000;  // JSON values of schemas that are combined, in all
  std::size_t key_characters = 500;     // of a property beside additional ones
  std::size_t rules = 5'000;
  std::size_t nfa_states = 400'000;  // of one rule, before it is made deterministic
  std::size_t states = 150'000;      // of all rules
  std::size_t work = 10'000'000;     // elements of the sets that make states deterministic
};

// Frames of the stack: in JSON, one for each open object or array, and two for strings in them.
inline constexpr std::uint32_t kMaxDepth = 130;
// Ways to read the same text that are followed at once.
inline constexpr std::size_t kMaxPositions = 256;
// Positions that one mask may visit; a hundred times what a mask of 150,000 tokens needs.
inline constexpr std::size_t kMaxMaskWork = 40'000'000;
// Bytes of the masks that a grammar keeps.
inline constexpr std::size_t kMaxCachedMaskBytes = std::size_t{16} << 20U;

}  // namespace clora::grammar
