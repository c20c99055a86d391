// Names in GGUF files of adapters. Private to model/adapter_files.
#pragma once

#include <string_view>

namespace clora::gguf_adapter {

inline constexpr std::string_view kType = "general.type";
inline constexpr std::string_view kIsAdapter = "adapter";
inline constexpr std::string_view kArchitecture = "general.architecture";
inline constexpr std::string_view kAdapterType = "adapter.type";
inline constexpr std::string_view kIsLora = "lora";
inline constexpr std::string_view kAlpha = "adapter.lora.alpha";
inline constexpr std::string_view kSuffixA = ".lora_a";
inline constexpr std::string_view kSuffixB = ".lora_b";

}  // namespace clora::gguf_adapter
