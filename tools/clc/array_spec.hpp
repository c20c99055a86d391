// What --arg says of a kernel's argument: 'x=rand(f32,1024x768,seed=1)'. Parsed without knowing the
// kernel; arrays are made from it the same on every machine.
//
//   rand(TYPE,SHAPE[,seed=N][,min=A][,max=B])   uniform; floats in [-1, 1), integers in 0..100
//   zeros(TYPE,SHAPE)  const(TYPE,SHAPE,VALUE)  range(TYPE,SHAPE[,START][,STEP])
//   out(TYPE,SHAPE)                             written by the kernel; NaN before
//   FILE.npy  npy(FILE)  npy(FILE,bf16)         a file, its 16 bits as bf16
//   same(NAME[,OFFSET_BYTES])                   memory of another array, from the offset on
//   null                                        no array
//   local(BYTES)                                memory of a work-group
//   3  0x10  1.5  (1,2,3,4)  int(3)             a value, of the kernel's type or one that is named
//
// TYPE: see element_type(); SHAPE: 4x768.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/batch.hpp"
#include "tools/clc/host_array.hpp"

namespace clora {

struct ArraySpec {
  enum class Kind { random, zeros, constant, range, out, file };
  Kind kind = Kind::zeros;
  ElementType type = ElementType::f32;
  Dimensions shape;
  std::uint64_t seed = 0;
  // Of random the bounds, of range start and step, of constant the value.
  std::optional<double> first, second;
  std::uint64_t constant_bits = 0;
  std::filesystem::path file;
  bool as_bf16 = false;  // what the file's 16 bits are
  // Of a launch that ran so: the file must hold `type` and `shape`, and the kernel's pointer may be
  // to another type.
  bool captured = false;
};

// Memory of another array of the call.
struct SharedMemory {
  std::string array;  // by its name or position
  std::size_t offset_bytes = 0;
  // Not given: those of the array, after an offset what is left of it in one dimension.
  std::optional<ElementType> type;
  Dimensions shape;
};

// A null pointer.
struct NullMemory {};

// A value, or the elements of a vector, as they were written.
struct ScalarSpec {
  std::string type;  // as in OpenCL C, "float4"; empty: as the kernel says
  std::vector<std::string> values;
};

using ArgumentValue = std::variant<ArraySpec, HostArray, LocalMemory, ScalarSpec, ValueBytes,
                                   SharedMemory, NullMemory>;

// An argument by its name in the kernel, or its position, from 0.
struct CallArgument {
  std::string name;
  ArgumentValue value;
};

// Errors: UsageError, with the text and what may stand there.
CallArgument parse_argument(std::string_view text);

// What an out array is full of before the kernel runs: bits that a kernel hardly writes. `nan` is a
// NaN of its own payload, `number` a small number; both are odd numbers in integers.
enum class OutFill { nan, number };

// Errors: those of read_npy(). Out arrays are full of OutFill::nan.
HostArray array_of(const ArraySpec& spec);
std::uint64_t fill_bits(ElementType type, OutFill fill);
void fill_out(HostArray& array, OutFill fill);

}  // namespace clora
