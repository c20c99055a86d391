// adamw_q8 on CPU devices: the formulas of adamw_q8.cl in explicit float16 vectors.
//
//   m = first_scale value(first_code);  r = root_scale value(root_code);  v = r^2
//   adamw_cpu.cl's update of p, m and v by clipped gradients
//   first_scale = max |m| and root_scale = max sqrt(v) of the block;  codes nearest to
//   m / first_scale and sqrt(v) / root_scale, except that a root above 0 has a code above 0
//
// Shapes  p, g [n], first_codes, root_codes [n], first_scales, root_scales [ceil(n / BLOCK)],
//         settings [8], partials [groups], grad_norm [1]; with GROUPED the rates of
//         update_settings.clh
// Types   f32; codes u8 (moment_codes.clh), first_codes with sign
// Work    a group is one item. gradient_square_sums is in gradient_norm_cpu.clh; adamw_q8_update: a
//         group owns a range of blocks of BLOCK elements. The last block ends at n
// Local   none; the moments of a block are private, 2 BLOCK floats
// Cost    square sums n reads; update 10 n bytes read and 6 n written
// Numerics  as adamw_q8.cl.
//! clc: build on cpu: BLOCK=256 GROUPED={0,1}
#ifndef BLOCK
#error "BLOCK: values with one scale, a multiple of 16"
#endif

#define LANES 16
#include "optimizers/gradient_norm_cpu.clh"
#include "optimizers/adamw_q8.clh"

// The first `count` elements, at most 16; zeros for the others. Nothing beyond them is read.
float16 first_floats(__global const float* x, int count) {
  return count >= 16 ? vload16(0, x) : load16_tail(x, count, 0.0f);
}
uchar16 first_bytes(__global const uchar* x, int count) {
  if (count >= 16) return vload16(0, x);
  uchar lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = i < count ? x[i] : 0;
  return vload16(0, lanes);
}

// Writes the first `count` elements, at most 16, and nothing beyond them.
void store_floats(float16 v, __global float* x, int count) {
  if (count >= 16) {
    vstore16(v, 0, x);
  } else {
    store16_tail(v, x, count);
  }
}
void store_bytes(uchar16 v, __global uchar* x, int count) {
  if (count >= 16) {
    vstore16(v, 0, x);
    return;
  }
  uchar lanes[16];
  vstore16(v, 0, lanes);
  for (int i = 0; i < count; ++i) x[i] = lanes[i];
}

CPU_KERNEL adamw_q8_update(__global float* p, __global uchar* first_codes,
                           __global float* first_scales, __global uchar* root_codes,
                           __global float* root_scales, __global float* grad_norm,
                           __global const float* g, __global const float* settings,
                           __global const float* partials, int partial_count,
                           long n RATE_ARGUMENTS) {
  const float norm = gradient_norm(partials, partial_count);
  const long group = (long)get_group_id(0), groups = (long)get_num_groups(0);
  if (group == 0) grad_norm[0] = norm;
  const float clip = clip_factor(norm, settings);
  const long blocks = (n + BLOCK - 1) / BLOCK;
  for (long block = blocks * group / groups; block < blocks * (group + 1) / groups; ++block) {
    const long begin = block * BLOCK;
    const int elements = (int)min((long)BLOCK, n - begin);
    const float first_scale = first_scales[block], root_scale = root_scales[block];
    Moments moments[BLOCK / LANES];
    float16 largest_first = 0.0f, largest_root = 0.0f;
    for (int k = 0; k < elements; k += LANES) {
      const long i = begin + k;
      const int count = elements - k;
      float16 parameters = first_floats(p + i, count);
      Moments of_vector = moments_of_codes(first_bytes(first_codes + i, count), first_scale,
                                           first_bytes(root_codes + i, count), root_scale);
      update_q8(&parameters, &of_vector, first_floats(g + i, count) * clip, settings,
                RATES_OF(i));
      store_floats(parameters, p + i, count);
      // Lanes past n are 0 before and after the update.
      const float16 first = for_scale(of_vector.first), root = for_scale(of_vector.root);
      largest_first = MAX16(largest_first, first);
      largest_root = MAX16(largest_root, root);
      moments[k / LANES] = of_vector;
    }
    const float new_first = max16(largest_first), new_root = max16(largest_root);
    const float per_first = 1.0f / new_first, per_root = 1.0f / new_root;
    for (int k = 0; k < elements; k += LANES) {
      const Moments of_vector = moments[k / LANES];
      store_bytes(codes_of_first(of_vector.first, per_first), first_codes + begin + k,
                  elements - k);
      store_bytes(codes_of_root(of_vector.root, per_root), root_codes + begin + k, elements - k);
    }
    first_scales[block] = new_first;
    root_scales[block] = new_root;
  }
}
