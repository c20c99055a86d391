// ggml's numbers for the types of tensors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "clora/model/files/gguf.hpp"
#include "clora/runtime/error.hpp"

namespace clora {
namespace {

struct GgmlType {
  std::uint32_t number;
  std::string_view name;
  std::optional<DType> type;
};

constexpr std::array kGgmlTypes{
    GgmlType{0, "F32", DType::f32},        GgmlType{1, "F16", DType::f16},
    GgmlType{2, "Q4_0", DType::q4_0},      GgmlType{3, "Q4_1", DType::q4_1},
    GgmlType{6, "Q5_0", DType::q5_0},      GgmlType{7, "Q5_1", DType::q5_1},
    GgmlType{8, "Q8_0", DType::q8_0},      GgmlType{9, "Q8_1", std::nullopt},
    GgmlType{10, "Q2_K", DType::q2_k},     GgmlType{11, "Q3_K", DType::q3_k},
    GgmlType{12, "Q4_K", DType::q4_k},     GgmlType{13, "Q5_K", DType::q5_k},
    GgmlType{14, "Q6_K", DType::q6_k},     GgmlType{15, "Q8_K", std::nullopt},
    GgmlType{16, "IQ2_XXS", std::nullopt}, GgmlType{17, "IQ2_XS", std::nullopt},
    GgmlType{18, "IQ3_XXS", std::nullopt}, GgmlType{19, "IQ1_S", std::nullopt},
    GgmlType{20, "IQ4_NL", DType::iq4_nl}, GgmlType{21, "IQ3_S", std::nullopt},
    GgmlType{22, "IQ2_S", std::nullopt},   GgmlType{23, "IQ4_XS", DType::iq4_xs},
    GgmlType{24, "I8", std::nullopt},      GgmlType{25, "I16", std::nullopt},
    GgmlType{26, "I32", DType::i32},       GgmlType{27, "I64", std::nullopt},
    GgmlType{28, "F64", std::nullopt},     GgmlType{29, "IQ1_M", std::nullopt},
    GgmlType{30, "BF16", DType::bf16},     GgmlType{34, "TQ1_0", DType::tq1_0},
    GgmlType{35, "TQ2_0", DType::tq2_0},   GgmlType{39, "MXFP4", DType::mxfp4},
    GgmlType{40, "NVFP4", std::nullopt},   GgmlType{41, "Q1_0", std::nullopt},
};

const GgmlType* find_ggml_type(std::uint32_t number) {
  const auto at = std::ranges::find(kGgmlTypes, number, &GgmlType::number);
  return at == kGgmlTypes.end() ? nullptr : &*at;
}

}  // namespace

std::optional<DType> dtype_of_ggml(std::uint32_t type_number) {
  const GgmlType* known = find_ggml_type(type_number);
  return known != nullptr ? known->type : std::nullopt;
}

std::optional<std::uint32_t> ggml_type_of(DType type) {
  const auto at = std::ranges::find(kGgmlTypes, std::optional(type), &GgmlType::type);
  return at == kGgmlTypes.end() ? std::nullopt : std::optional(at->number);
}

std::string ggml_type_name(std::uint32_t type_number) {
  const GgmlType* known = find_ggml_type(type_number);
  return known != nullptr ? std::string(known->name) : fmt::format("type {}", type_number);
}

}  // namespace clora
