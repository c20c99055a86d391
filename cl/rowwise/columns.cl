// columns: to[:, to_begin : to_begin + n] = from[:, from_begin : from_begin + n].
// Shapes: to [T, to_width], from [T, from_width]
// Types: elements of ELEMENT_BYTES, copied as bits
// Work: a work-item owns a vector of VEC_SIZE columns, of every get_global_size(1)-th row
// Local: none
// Cost: reads and writes T n elements
// Numerics: exact
//! clc: build ELEMENT_BYTES={2,4} VEC_SIZE={1,4}
//! clc: budget on gfx90a registers<=32 spills=0
#if !defined(ELEMENT_BYTES) || !defined(VEC_SIZE)
#error "ELEMENT_BYTES: 2 or 4; VEC_SIZE: 1, or 4 where all widths and begins are multiples of 4"
#endif

#if ELEMENT_BYTES == 2
#define ELEMENT ushort
#else
#define ELEMENT uint
#endif
#define VEC_OF(type) type##4
#define VEC(type) VEC_OF(type)
#if VEC_SIZE == 4
typedef VEC(ELEMENT) vec;
#else
typedef ELEMENT vec;
#endif

// n, widths and begins are in vectors.
__kernel void copy_columns(__global vec* restrict to, __global const vec* restrict from, uint T,
                           uint n, uint to_width, uint to_begin, uint from_width, uint from_begin) {
  const uint c = get_global_id(0);
  if (c >= n) return;
  for (uint t = get_global_id(1); t < T; t += get_global_size(1)) {
    to[(size_t)t * to_width + to_begin + c] = from[(size_t)t * from_width + from_begin + c];
  }
}
