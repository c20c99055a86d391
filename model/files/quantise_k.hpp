// Quantisers of the formats with super-blocks of 256 values (dequantise.cpp describes them). Each
// writes one block and returns false if a value is too large for it. Private to quantise.cpp.
//
// Every sub-block is fitted by least squares: for several roundings of its values to levels, the
// scale (and minimum) with the least weighted square error is the solution of a linear system. The
// scales of the sub-blocks are then rounded to integers times the super-block's scale; each
// integer is the best of its neighbours for the levels that it gives, and the super-block's scale
// is solved again for all of its values.
#pragma once

#include <cstdint>

namespace clora {

bool encode_q4_k(const float* x, std::uint8_t* block);
bool encode_q5_k(const float* x, std::uint8_t* block);
bool encode_q6_k(const float* x, std::uint8_t* block);

}  // namespace clora
