// tensor_map: writes the tables through which kernels reach tensors that are not their arguments
// (tensor_maps.hpp): descriptors for TMA copies of boxes of a bf16 matrix; addresses; counters.
//
// Shapes  matrix [rows, columns] with `stride` elements per row, a multiple of 8; maps 128 bytes
//         each
// Types   bf16; a map is 16 words of 64 bits
// Work    one work-item
// Local   none
// Cost    128 bytes written
// Numerics  none: integers
// A load of a box [box_rows, 64] fills with zeros outside of the matrix. Its rows of 128 bytes are
// contiguous in shared memory, with 16-byte chunk c of row r at chunk c ^ (r & 7): the 128-byte
// swizzle that wgmma reads. The bits of a map are those that cuTensorMapEncodeTiled writes for
// bf16, two dimensions, this swizzle and L2 promotion to 128 bytes.
//! clc: build on wgmma:
#define BOX_COLUMNS 64UL

__kernel void tensor_map(__global ulong* maps, __global const ushort* matrix, uint rows,
                         uint columns, uint stride, uint box_rows, uint number) {
  __global ulong* map = maps + number * 16;
  for (uint i = 0; i < 16; ++i) map[i] = 0;
  map[0] = (ulong)matrix;
  map[1] = 0x46510UL | (ulong)(stride / 8) << 32;
  map[4] = (columns - 1) | (ulong)(rows - 1) << 32;
  map[6] = (BOX_COLUMNS - 1) << 56;
  map[7] = box_rows - 1;
  map[8] = BOX_COLUMNS * 2 * box_rows;
  map[9] = BOX_COLUMNS * 2 * 8;
}

// table[first + i] = the address of tensor i, for `count` tensors, at most 8; 0 for an empty one.
__kernel void tensor_addresses(__global ulong* table, uint first, uint count,
                               __global const uchar* t0, __global const uchar* t1,
                               __global const uchar* t2, __global const uchar* t3,
                               __global const uchar* t4, __global const uchar* t5,
                               __global const uchar* t6, __global const uchar* t7) {
  const ulong all[8] = {(ulong)t0, (ulong)t1, (ulong)t2, (ulong)t3,
                        (ulong)t4, (ulong)t5, (ulong)t6, (ulong)t7};
  for (uint i = 0; i < count; ++i) table[first + i] = all[i];
}

// words[first + i] = 0 for `count` words; one work-item per word.
__kernel void tensor_counters(__global uint* words, ulong first, ulong count) {
  const ulong i = get_global_id(0);
  if (i < count) words[first + i] = 0;
}
