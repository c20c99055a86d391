#include "tools/clora/implementation_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace clora {
namespace {

std::string heading_of(const ReportedChoice& choice) {
  return choice.problem.empty() ? choice.family
                                : fmt::format("{} ({})", choice.family, choice.problem);
}

std::string taken_text(const ReportedChoice& choice) {
  if (!choice.error.empty() || choice.considered.empty()) {
    return fmt::format("none: {}", choice.error);
  }
  const ConsideredImplementation& taken = choice.considered.back();
  return taken.file.empty() ? taken.name : fmt::format("{} ({})", taken.name, taken.file);
}

// Neighbours that are not taken for the same reason share a line.
void append_reasons(std::vector<std::string>& lines, const ReportedChoice& choice) {
  std::string names, reason;
  const auto end_line = [&] {
    if (!names.empty()) lines.push_back(fmt::format("  not {}: {}", names, reason));
    names.clear();
  };
  for (const ConsideredImplementation& each : choice.considered) {
    if (each.reason.empty()) continue;
    if (each.reason != reason) end_line();
    names += names.empty() ? each.name : ", " + each.name;
    reason = each.reason;
  }
  end_line();
}

}  // namespace

std::vector<std::string> implementation_lines(std::span<const ReportedChoice> report) {
  std::vector<std::string> lines;
  for (const ReportedChoice& choice : report) {
    lines.push_back(fmt::format("{}: {}", heading_of(choice), taken_text(choice)));
    append_reasons(lines, choice);
  }
  return lines;
}

nlohmann::ordered_json implementations_json(std::span<const ReportedChoice> report) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ReportedChoice& choice : report) {
    nlohmann::ordered_json considered = nlohmann::ordered_json::array();
    for (const auto& [name, file, reason] : choice.considered) {
      considered.push_back({{"name", name}, {"file", file}, {"reason", reason}});
    }
    all.push_back({{"family", choice.family},
                   {"problem", choice.problem},
                   {"considered", considered},
                   {"error", choice.error}});
  }
  return all;
}

}  // namespace clora
