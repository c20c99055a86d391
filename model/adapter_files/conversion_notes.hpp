// ConversionNotes: what writing an adapter in another format changed in its matrices, so that it
// computes the same there.
//
// A format with one scale for all modules multiplies B of a module with another scale by their
// ratio. A ratio that is a power of two is exact; any other rounds each value of B once, in f32.
#pragma once

#include <cstdint>

namespace clora {

struct ConversionNotes {
  std::int64_t folded = 0;   // modules whose B was multiplied
  std::int64_t rounded = 0;  // those of them whose values were rounded
  std::int64_t padded = 0;   // modules with rows and columns of zeros up to a common rank
};

}  // namespace clora
