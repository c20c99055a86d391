// soft_cap, portable: x = c tanh(x / c).
// Shapes: x as one flat range of n elements, a multiple of VEC_SIZE
// Types: f32
// Work: a work-item owns a vector of VEC_SIZE elements
// Local: none
// Cost: reads and writes x; one tanh per element
// Numerics: the device's tanh. The cap is an argument here, so one program serves all
//! clc: build X_TYPE=f32 VEC_SIZE={1,4}
//! clc: budget on gfx90a registers<=64 spills=0
#include "activations.clh"
#define SOFT_CAP cap
#include "soft_cap.clh"

__kernel void soft_cap(__global STORED(X_TYPE)* x, float cap, long n) {
  const long i = get_global_id(0);
  if (i >= n / VEC_SIZE) return;
  vec v = LOAD_VEC(X_TYPE, x, i);
  CAP_SCORES(v, 1.0f);
  STORE_VEC(X_TYPE, x, i, v);
}
