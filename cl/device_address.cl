// device_address: where a buffer begins in the device's address space, and a word written through
// such an address (runtime/device_addresses.hpp).
//
// Shapes  words [2], the first one's address or the value; memory of any size
// Types   64 bits, whatever the device's addresses have
// Work    one work-item
// Local   none
// Cost    8 bytes written
// Numerics  none: whole numbers
//! clc: build
//! clc: budget on gfx90a registers<=32 spills=0
__kernel void device_address(__global ulong* words, __global const uchar* memory) {
  words[0] = (ulong)memory;
}

// word is bound by its address.
__kernel void device_address_write(__global ulong* word, ulong value) { word[0] = value; }
