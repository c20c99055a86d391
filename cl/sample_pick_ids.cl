// sample_pick_ids: the ids of the next step's rows, drawn on the device or given by the host.
//
//   ids_out[t] = source[t] >= 0 ? max(latest[source[t]], 0) : ids[t]
//
// Shapes  ids_out, ids, source [T], latest [S]
// Types   i32
// Work    item t owns row t
// Local   none
// Cost    3 T reads, T writes
// Numerics  none
//! clc: build
__kernel void sample_pick_ids(__global int* ids_out, __global const int* ids,
                              __global const int* source, __global const int* latest, int rows) {
  const int t = (int)get_global_id(0);
  if (t < rows) ids_out[t] = source[t] >= 0 ? max(latest[source[t]], 0) : ids[t];
}
