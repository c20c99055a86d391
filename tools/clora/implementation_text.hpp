// The implementations that ops take on a device, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "ops/dispatch/implementation_report.hpp"

namespace clora {

// "gemm (512 rows, bf16 weights): packed_cpu (gemm_packed_cpu.cl)", and a line for each reason why
// the implementations before it are not taken: "  not wgmma, mma: it needs ...".
std::vector<std::string> implementation_lines(std::span<const ReportedChoice> report);

nlohmann::ordered_json implementations_json(std::span<const ReportedChoice> report);

}  // namespace clora
