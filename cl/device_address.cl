// device_address: the address of a buffer in the device's address space, and the write of a word
// through an address (runtime/device/device_addresses.hpp).
//
// Shapes  words [2], of which the first one receives the address or the value; memory of any size
// Types   64 bits, whatever the width of the device's addresses
// Work    one work-item
// Local   none
// Cost    8 bytes written
// Numerics  none: integers
//! clc: build
//! clc: budget on gfx90a registers<=32 spills=0
__kernel void device_address(__global ulong* words, __global const uchar* memory) {
  words[0] = (ulong)memory;
}

// word is bound by its device address.
__kernel void device_address_write(__global ulong* word, ulong value) { word[0] = value; }
