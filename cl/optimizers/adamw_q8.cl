// adamw_q8: adamw over one flat buffer of parameters whose moments are in 8 bits, in blocks of
// BLOCK values with a scale each.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   m = first_scale value(first_code);  r = root_scale value(root_code);  v = r^2
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (weight_decay p + (m / correction1) / (sqrt(v / correction2) + epsilon))
//   first_scale = max |m| and root_scale = max sqrt(v) of the block;  codes nearest to
//   m / first_scale and sqrt(v) / root_scale, except that a root above 0 has a code above 0
//
// Shapes  p, g [n], first_codes, root_codes [n], first_scales, root_scales [ceil(n / BLOCK)],
//         settings [8], partials [groups of gradient_square_sums], grad_norm [1]; with GROUPED the
//         rates of update_settings.clh
// Types   f32, g aligned to 16 bytes; codes u8 (moment_codes.clh), first_codes with sign
// Work    gradient_square_sums is in gradient_norm.clh
//         adamw_q8_update: a team of TEAM items owns a block: item i of it the quads i, i + TEAM,
//         ...; the teams of all groups take the blocks in turns. A block ends at n
// Local   4 GROUP floats
// Cost    square sums n reads; update 10 n bytes read and 6 n written, and 4 scales a block;
//         about 60 flops per element
// Numerics  arithmetic in f32; v and m are rounded only when they are stored. A block with a value
//         that is not finite gets an infinite scale.
//! clc: build GROUP={64,256} BLOCK=256 GROUPED={0,1}
//! clc: build GROUP=16 BLOCK=256 GROUPED=0
//! clc: budget on gfx90a registers<=128 spills=0
#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif
#ifndef BLOCK
#error "BLOCK: values with one scale, a power of two"
#endif

#define LANES 4
#include "optimizers/gradient_norm.clh"
#include "optimizers/adamw_q8.clh"

#define QUADS_OF_BLOCK (BLOCK / LANES)
#define TEAM (GROUP < QUADS_OF_BLOCK ? GROUP : QUADS_OF_BLOCK)
#define TEAMS (GROUP / TEAM)
#define QUADS (QUADS_OF_BLOCK / TEAM)  // of an item, in each block

// The first `count` elements, at most 4; zeros for the others. Nothing beyond them is read.
float4 first_floats(__global const float* x, long count) {
  if (count >= 4) return vload4(0, x);
  return (float4)(count > 0 ? x[0] : 0.0f, count > 1 ? x[1] : 0.0f, count > 2 ? x[2] : 0.0f, 0.0f);
}
uchar4 first_bytes(__global const uchar* x, long count) {
  if (count >= 4) return vload4(0, x);
  return (uchar4)(count > 0 ? x[0] : 0, count > 1 ? x[1] : 0, count > 2 ? x[2] : 0, 0);
}

// Writes the first `count` elements, at most 4, and nothing beyond them.
void store_floats(float4 v, __global float* x, long count) {
  if (count >= 4) {
    vstore4(v, 0, x);
    return;
  }
  if (count > 0) x[0] = v.x;
  if (count > 1) x[1] = v.y;
  if (count > 2) x[2] = v.z;
}
void store_bytes(uchar4 v, __global uchar* x, long count) {
  if (count >= 4) {
    vstore4(v, 0, x);
    return;
  }
  if (count > 0) x[0] = v.x;
  if (count > 1) x[1] = v.y;
  if (count > 2) x[2] = v.z;
}

float largest_of(float4 v) { return fmax(fmax(v.x, v.y), fmax(v.z, v.w)); }

// The largest of each component over the team. Every item of the group must call.
INLINED float2 team_max(float2 value, __local float2* scratch) {
  const int item = (int)get_local_id(0);
  const int lane = item % TEAM;
  // The previous result has been read, and the scales of the block, which will be overwritten.
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  scratch[item] = value;
  for (int half_size = TEAM / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);  // the previous level is written
    if (lane < half_size) scratch[item] = fmax(scratch[item], scratch[item + half_size]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the team's first element is the largest
  return scratch[item - lane];
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void adamw_q8_update(__global float* p, __global uchar* first_codes,
                              __global float* first_scales, __global uchar* root_codes,
                              __global float* root_scales, __global float* grad_norm,
                              __global const float* g, __global const float* settings,
                              __global const float* partials, int partial_count,
                              long n RATE_ARGUMENTS) {
  __local float2 scratch[GROUP];
  const float norm = gradient_norm(partials, partial_count, scratch);
  if (get_global_id(0) == 0) grad_norm[0] = norm;
  const float clip = clip_factor(norm, settings);
  const int lane = (int)get_local_id(0) % TEAM;
  // The bound is that of the group's first block, so that every item reaches all barriers.
  for (long begin = (long)get_group_id(0) * TEAMS; begin * BLOCK < n;
       begin += (long)get_num_groups(0) * TEAMS) {
    const long block = begin + (long)get_local_id(0) / TEAM;
    const bool exists = block * BLOCK < n;
    const float first_scale = exists ? first_scales[block] : 0.0f;
    const float root_scale = exists ? root_scales[block] : 0.0f;
    Moments moments[QUADS];
    float2 largest = 0.0f;
#pragma unroll
    for (int quad = 0; quad < QUADS; ++quad) {
      const long i = block * BLOCK + (quad * TEAM + lane) * LANES;
      const long count = n - i;
      float4 parameter = first_floats(p + i, count);
      const float2 rates = RATES_OF(min(i, n - 1));
      moments[quad] = moments_of_codes(first_bytes(first_codes + i, count), first_scale,
                                       first_bytes(root_codes + i, count), root_scale);
      update_q8(&parameter, &moments[quad], first_floats(g + i, count) * clip, settings,
                rates);
      store_floats(parameter, p + i, count);
      // Elements past n are 0 before and after the update.
      largest = fmax(largest, (float2)(largest_of(for_scale(moments[quad].first)),
                                       largest_of(for_scale(moments[quad].root))));
    }
    const float2 scales = team_max(largest, scratch);
    const float2 per_scale = 1.0f / scales;
#pragma unroll
    for (int quad = 0; quad < QUADS; ++quad) {
      const long i = block * BLOCK + (quad * TEAM + lane) * LANES;
      store_bytes(codes_of_first(moments[quad].first, per_scale.x), first_codes + i, n - i);
      store_bytes(codes_of_root(moments[quad].root, per_scale.y), root_codes + i, n - i);
    }
    if (lane == 0 && exists) {
      first_scales[block] = scales.x;
      root_scales[block] = scales.y;
    }
  }
}
