// The value of --arg for a kernel's argument: 'x=rand(f32,1024x768,seed=1)'. Parsing does not need
// the kernel. The generated arrays are the same on every machine.
//
//   rand(TYPE,SHAPE[,seed=N][,min=A][,max=B])   uniform; floats in [-1, 1), integers in 0..100
//   zeros(TYPE,SHAPE)  const(TYPE,SHAPE,VALUE)  range(TYPE,SHAPE[,START][,STEP])
//   out(TYPE,SHAPE)                             written by the kernel; NaN before
//   FILE.npy  npy(FILE)  npy(FILE,bf16)         a file; bf16 reads its 16-bit elements as bf16
//   same(NAME[,OFFSET_BYTES])                   memory of another array, from the offset on
//   null                                        no array
//   local(BYTES)                                local memory of a work-group
//   3  0x10  1.5  (1,2,3,4)  int(3)             a value, of the kernel's type or the type named
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

#include "clora/runtime/commands/batch.hpp"
#include "tools/clc/call/host_array.hpp"

namespace clora {

struct ArraySpec {
  enum class Kind { random, zeros, constant, range, out, file };
  Kind kind = Kind::zeros;
  ElementType type = ElementType::f32;
  Dimensions shape;
  std::uint64_t seed = 0;
  // The bounds of random, the start and step of range, the value of constant.
  std::optional<double> first, second;
  std::uint64_t constant_bits = 0;
  std::filesystem::path file;
  bool as_bf16 = false;  // reads 16-bit elements as bf16
  // The array is from a captured launch: the file must hold `type` and `shape`, and the kernel's
  // pointer may have another type.
  bool captured = false;
};

// The memory of another array of the call.
struct SharedMemory {
  std::string array;  // by its name or position
  std::size_t offset_bytes = 0;
  // If absent: the type and shape of the other array; after an offset, its remaining elements in
  // one dimension.
  std::optional<ElementType> type;
  Dimensions shape;
};

// A null pointer.
struct NullMemory {};

// A scalar or the elements of a vector, as text.
struct ScalarSpec {
  std::string type;  // as in OpenCL C, "float4"; empty: the kernel's type
  std::vector<std::string> values;
};

using ArgumentValue = std::variant<ArraySpec, HostArray, LocalMemory, ScalarSpec, ValueBytes,
                                   SharedMemory, NullMemory>;

// An argument, addressed by its name in the kernel or by its position, counted from 0.
struct CallArgument {
  std::string name;
  ArgumentValue value;
};

// Errors: UsageError, with the text and the accepted forms.
CallArgument parse_argument(std::string_view text);

// The fill pattern of an out array before the kernel runs: bits that a kernel is unlikely to write.
// `nan` is a NaN with a distinctive payload, `number` a small number; read as integers, both are
// odd.
enum class OutFill { nan, number };

// Out arrays are filled with OutFill::nan. Errors: those of read_npy().
HostArray array_of(const ArraySpec& spec);
std::uint64_t fill_bits(ElementType type, OutFill fill);
void fill_out(HostArray& array, OutFill fill);

}  // namespace clora
