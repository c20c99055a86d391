#include "clora/runtime/memory/dtype.hpp"

#include <array>

#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::array<DTypeFacts, 24> kFacts{{
    {"f32", 1, 4},      {"f16", 1, 2},        {"bf16", 1, 2},    {"i32", 1, 4},
    {"u32", 1, 4},      {"u8", 1, 1},         {"q4_0", 32, 18},  {"q4_1", 32, 20},
    {"q5_0", 32, 22},   {"q5_1", 32, 24},     {"q8_0", 32, 34},  {"q4_k", 256, 144},
    {"q5_k", 256, 176}, {"q6_k", 256, 210},   {"q2_k", 256, 84}, {"q3_k", 256, 110},
    {"iq4_nl", 32, 18}, {"iq4_xs", 256, 136}, {"mxfp4", 32, 17}, {"tq1_0", 256, 54},
    {"tq2_0", 256, 66}, {"nf4", 64, 36},      {"q4_z", 32, 20},  {"q8_z", 32, 36},
}};

}  // namespace

const DTypeFacts& facts_of(DType type) { return kFacts.at(static_cast<std::size_t>(type)); }

std::string_view name_of(DType type) { return facts_of(type).name; }

bool is_quantised(DType type) { return facts_of(type).block_elements > 1; }

std::size_t bytes_of(DType type, std::size_t elements) {
  const DTypeFacts& facts = facts_of(type);
  require(elements % facts.block_elements == 0,
          "bytes_of: {} needs a multiple of {} elements, got {}", facts.name, facts.block_elements,
          elements);
  return elements / facts.block_elements * facts.block_bytes;
}

}  // namespace clora
