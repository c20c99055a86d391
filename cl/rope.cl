// rope, portable: each pair (a, b) of a head becomes (a c - b s, a s + b c), with cosine c and sine
// s of the token's position and the pair; the gradient turns the other way: sign -1 makes s -s.
// Shapes: x, y [T, H, E]; more_x, more_y [T, G, E], where G is more than 0; positions [T];
//   table [P, E/2, 2] (cosine, sine)
// Types: x, y and the further ones f32 or bf16 (-D X_TYPE), table f32, positions i32
// Work: one work-item PIECE neighbouring pairs of a head, a divisor of E/2, in the order
//   [T, H + G, E/2]: pair i of a head is the elements i * stride and i * stride + partner;
//   (stride, partner) is (1, E/2) in half_split and (2, 1) in interleaved layout.
//   REQUIRES: less than 2^31 pairs
// Cost: reads x, the table's row of each token and positions, writes y: 6 flops a pair
// Numerics: two products and a sum an element. A pair is read and written by one item: y may be x
#include "activations.clh"

// Two pieces side by side, whose even and odd lanes are parted and joined.
#if PIECE == 1
typedef float2 two_pieces;
#elif PIECE == 4
typedef float8 two_pieces;
#else
typedef float16 two_pieces;
#endif

__kernel void rope(__global STORED(X_TYPE)* y, __global const STORED(X_TYPE)* x,
                   __global STORED(X_TYPE)* more_y, __global const STORED(X_TYPE)* more_x,
                   __global const int* positions, __global const float* table, uint pairs,
                   uint heads, uint more_heads, uint half_width, int stride, uint partner,
                   float sign) {
  const uint item = (uint)get_global_id(0);
  if (item >= pairs / PIECE) return;
  const uint pieces = half_width / PIECE;
  const uint row = item / pieces;
  const uint own = item - row * pieces;
  const uint token = row / (heads + more_heads);
  uint head = row - token * (heads + more_heads);
  const long angles = 2 * ((long)positions[token] * pieces + own);
  if (head >= heads) {
    head -= heads;
    heads = more_heads;
    x = more_x;
    y = more_y;
  }
  const two_pieces turns =
      (two_pieces)(LOAD_PIECE(f32, table, angles), LOAD_PIECE(f32, table, angles + 1));
  const piece c = turns.even;
  const piece s = sign * turns.odd;
  const int apart = stride == 1;  // a piece of firsts and one of seconds, else mixed in both
  const long first = 2 * ((long)token * heads + head) * pieces + (apart ? own : 2 * own);
  const long second = first + (apart ? partner / PIECE : 1);
  const piece low = LOAD_PIECE(X_TYPE, x, first);
  const piece high = LOAD_PIECE(X_TYPE, x, second);
  const two_pieces mixed = (two_pieces)(low, high);
  const piece a = apart ? low : mixed.even;
  const piece b = apart ? high : mixed.odd;
  two_pieces turned;
  turned.even = a * c - b * s;
  turned.odd = a * s + b * c;
  STORE_PIECE(X_TYPE, y, first, apart ? turned.even : turned.lo);
  STORE_PIECE(X_TYPE, y, second, apart ? turned.odd : turned.hi);
}
