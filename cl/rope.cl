// rope, portable: each pair (a, b) of a head becomes (a c - b s, a s + b c), with cosine c and sine
// s of the token's position and the pair; the gradient turns the other way: sign -1 makes s -s.
// Shapes: x, y [T, H, E]; positions [T]; table [P, E/2, 2] (cosine, sine)
// Types: f32, positions i32
// Work: one work-item a pair, in the order [T, H, E/2]: pair i of a head is the elements
//   i * stride and i * stride + partner; (stride, partner) is (1, E/2) in half_split and (2, 1) in
//   interleaved layout
// Cost: reads x, the table's row of each token and positions, writes y: 6 flops a pair
// Numerics: two products and a sum an element. A pair is read and written by one item: y may be x

__kernel void rope(__global float* y, __global const float* x, __global const int* positions,
                   __global const float* table, long tokens, int heads, int half_width, int stride,
                   int partner, float sign) {
  const long item = (long)get_global_id(0);
  if (item >= tokens * heads * half_width) return;
  const long head = item / half_width;  // of all tokens
  const int pair = (int)(item - head * half_width);
  const long angle = (long)positions[head / heads] * half_width + pair;
  const float c = table[2 * angle];
  const float s = sign * table[2 * angle + 1];
  const long first = head * 2 * half_width + (long)pair * stride;
  const float a = x[first];
  const float b = x[first + partner];
  y[first] = a * c - b * s;
  y[first + partner] = a * s + b * c;
}
