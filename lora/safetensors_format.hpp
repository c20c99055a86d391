// What the reader (safetensors.cpp) and the writer (safetensors_writing.cpp) share of the format.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "clora/runtime/memory/dtype.hpp"

namespace clora {

static_assert(std::endian::native == std::endian::little, "safetensors are little endian");

inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

struct SafetensorsType {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<DType> type;
};

inline constexpr std::array kSafetensorsTypes{
    SafetensorsType{"F32", 4, DType::f32},       SafetensorsType{"F16", 2, DType::f16},
    SafetensorsType{"BF16", 2, DType::bf16},     SafetensorsType{"I32", 4, DType::i32},
    SafetensorsType{"U32", 4, DType::u32},       SafetensorsType{"U8", 1, DType::u8},
    SafetensorsType{"F64", 8, std::nullopt},     SafetensorsType{"I64", 8, std::nullopt},
    SafetensorsType{"U64", 8, std::nullopt},     SafetensorsType{"I16", 2, std::nullopt},
    SafetensorsType{"U16", 2, std::nullopt},     SafetensorsType{"I8", 1, std::nullopt},
    SafetensorsType{"BOOL", 1, std::nullopt},    SafetensorsType{"F8_E4M3", 1, std::nullopt},
    SafetensorsType{"F8_E5M2", 1, std::nullopt}, SafetensorsType{"F8_E8M0", 1, std::nullopt},
    SafetensorsType{"C64", 8, std::nullopt},
};

}  // namespace clora
