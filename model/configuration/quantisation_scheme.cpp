#include "model/configuration/quantisation_scheme.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kKey = "quantization_config";
constexpr std::int64_t kBlock = 32;  // elements of the blocks that weights are arranged in

[[noreturn]] void refuse(const JsonKeys& scheme, std::string_view key, std::string_view supported) {
  const nlohmann::json* value = scheme.find(key);
  fail(ErrorCode::unsupported,
       "{}: {} = {} is not supported: {}; use other weights of this model, such as a GGUF file",
       scheme.source(), scheme.name_of_key(key), value == nullptr ? "null" : json_excerpt(*value),
       supported);
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_set(const nlohmann::json* value) {
  if (value == nullptr || (value->is_boolean() && !value->get<bool>())) return false;
  return !(value->is_structured() && value->empty());
}

std::int64_t group_size_of(const JsonKeys& scheme) {
  const std::int64_t size = scheme.integer("group_size");
  if (size != -1 && (size <= 0 || size % kBlock != 0))
    refuse(scheme, "group_size", "it must be a multiple of 32, or -1");
  return size;
}

QuantisationScheme read_gptq(const JsonKeys& scheme) {
  QuantisationScheme read{.method = QuantisationScheme::Method::gptq};
  read.bits = scheme.integer("bits");
  if (read.bits != 4 && read.bits != 8) refuse(scheme, "bits", "gptq is read with 4 or 8 bits");
  read.group_size = group_size_of(scheme);
  const char* format_key =
      scheme.find("checkpoint_format") != nullptr ? "checkpoint_format" : "format";
  const std::string format = scheme.find_text(format_key).value_or("gptq");
  if (format != "gptq" && format != "gptq_v2")
    refuse(scheme, format_key, "gptq and gptq_v2 are read");
  read.zero_offset = format == "gptq" ? 1 : 0;
  for (const char* key : {"dynamic", "is_marlin_format"})
    if (is_set(scheme.find(key))) refuse(scheme, key, "all layers must be stored in one way");
  if (scheme.find_text("pack_dtype").value_or("int32") != "int32")
    refuse(scheme, "pack_dtype", "codes must be packed in int32");
  return read;
}

QuantisationScheme read_awq(const JsonKeys& scheme) {
  QuantisationScheme read{.method = QuantisationScheme::Method::awq};
  read.bits = scheme.integer("bits");
  if (read.bits != 4) refuse(scheme, "bits", "awq is read with 4 bits");
  read.group_size = group_size_of(scheme);
  if (lower_case(scheme.find_text("version").value_or("gemm")) != "gemm")
    refuse(scheme, "version", "awq is read in the layout 'gemm'");
  if (!scheme.find_flag("zero_point").value_or(true))
    refuse(scheme, "zero_point", "awq is read with zero points");
  return read;
}

QuantisationScheme read_bitsandbytes(const JsonKeys& scheme) {
  if (scheme.find_flag("load_in_8bit").value_or(false))
    refuse(scheme, "load_in_8bit", "bitsandbytes is read with 4 bits (nf4)");
  // transformers' default is fp4.
  if (scheme.find_text("bnb_4bit_quant_type").value_or("fp4") != "nf4")
    refuse(scheme, "bnb_4bit_quant_type", "bitsandbytes is read as nf4");
  if (scheme.find_text("bnb_4bit_quant_storage").value_or("uint8") != "uint8")
    refuse(scheme, "bnb_4bit_quant_storage", "codes must be stored as uint8");
  return {.method = QuantisationScheme::Method::nf4};
}

}  // namespace

QuantisationScheme read_quantisation(const JsonKeys& scheme) {
  const std::string method = scheme.find_text("quant_method").value_or("unknown");
  if (method == "gptq") return read_gptq(scheme);
  if (method == "awq") return read_awq(scheme);
  if (method == "bitsandbytes") return read_bitsandbytes(scheme);
  fail(ErrorCode::unsupported,
       "{}: the quantisation '{}' is not supported; use weights quantised by gptq, awq or "
       "bitsandbytes (nf4), unquantised weights or a GGUF file",
       scheme.source(), method);
}

std::optional<QuantisationScheme> find_quantisation(const nlohmann::json& config,
                                                    std::string_view file) {
  const auto scheme = JsonKeys(config, file).find_object(kKey);
  if (!scheme) return std::nullopt;
  return read_quantisation(*scheme);
}

}  // namespace clora
