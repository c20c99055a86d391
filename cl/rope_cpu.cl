// rope for CPU devices: each pair (a, b) of a head becomes (a c - b s, a s + b c), with cosine c
// and sine s of the token's position and the pair; the gradient turns the other way: sign -1 makes
// s -s.
// Shapes: x, y [tokens, heads, 2 half_width]; positions [tokens]; table [P, half_width, 2]
//   (cosine, sine)
// Types: f32, positions i32
// Work: a work-group of one item owns an even share of the tokens. 16 angles at a time are taken
//   apart once for all heads of the token, the pairs beyond the last whole 16 one by one.
//   Pair i of a head is the elements i * stride and i * stride + partner; (stride, partner) is
//   (1, half_width) in half_split and (2, 1) in interleaved layout
// Local: none
// Cost: reads x, the table's row of each token and positions, writes y: 6 flops a pair
// Numerics: two products and a sum an element. A pair is read before it is written: y may be x
#include "float16_math.clh"
#include "group_range.clh"

// 16 pairs whose halves lie apart.
void rotate16_split(__global float* y, __global const float* x, int partner, float16 c, float16 s) {
  const float16 a = vload16(0, x);
  const float16 b = vload16(0, x + partner);
  vstore16(a * c - b * s, 0, y);
  vstore16(a * s + b * c, 0, y + partner);
}

// 16 pairs side by side.
void rotate16_interleaved(__global float* y, __global const float* x, float16 c, float16 s) {
  const float16 low = vload16(0, x);
  const float16 high = vload16(1, x);
  const float16 a = (float16)(low.even, high.even);
  const float16 b = (float16)(low.odd, high.odd);
  const float16 turned_a = a * c - b * s;
  const float16 turned_b = a * s + b * c;
  float16 out;
  out.even = turned_a.lo;
  out.odd = turned_b.lo;
  vstore16(out, 0, y);
  out.even = turned_a.hi;
  out.odd = turned_b.hi;
  vstore16(out, 1, y);
}

void rotate_token(__global float* y, __global const float* x, __global const float* angles,
                  int heads, int half_width, int stride, int partner, float sign) {
  int i = 0;
  for (; i + 16 <= half_width; i += 16) {
    const float16 low = vload16(0, angles + 2 * i);
    const float16 high = vload16(1, angles + 2 * i);
    const float16 c = (float16)(low.even, high.even);
    const float16 s = sign * (float16)(low.odd, high.odd);
    for (int head = 0; head < heads; ++head) {
      const long first = (long)head * 2 * half_width + (long)i * stride;
      if (stride == 1) {
        rotate16_split(y + first, x + first, partner, c, s);
      } else {
        rotate16_interleaved(y + first, x + first, c, s);
      }
    }
  }
  for (; i < half_width; ++i) {
    const float c = angles[2 * i];
    const float s = sign * angles[2 * i + 1];
    for (int head = 0; head < heads; ++head) {
      const long first = (long)head * 2 * half_width + (long)i * stride;
      const float a = x[first];
      const float b = x[first + partner];
      y[first] = a * c - b * s;
      y[first + partner] = a * s + b * c;
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void rope(
    __global float* y, __global const float* x, __global const int* positions,
    __global const float* table, long tokens, int heads, int half_width, int stride, int partner,
    float sign) {
  const long width = (long)heads * 2 * half_width;
  const long end = group_end(tokens);
  for (long t = group_begin(tokens); t < end; ++t) {
    rotate_token(y + t * width, x + t * width, table + (long)positions[t] * 2 * half_width, heads,
                 half_width, stride, partner, sign);
  }
}
