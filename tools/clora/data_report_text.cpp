#include "tools/clora/data_report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tools/command_line/output.hpp"

namespace clora {
namespace {

constexpr std::size_t kBarWidth = 40;

std::string count(std::size_t value) { return grouped(static_cast<long long>(value)); }

double percent(std::size_t part, std::size_t of) {
  return of == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(of);
}

// "1,234 (messages 1,000, text 234)"; a single form without its number.
std::string text_of_forms(const DataReport& report) {
  std::string forms;
  for (std::size_t i = 0; i < report.by_form.size(); ++i) {
    const std::size_t records = report.by_form[i];
    if (records == 0) continue;
    const std::string number = records == report.records ? "" : " " + count(records);
    forms += fmt::format("{}{}{}", forms.empty() ? "" : ", ", name_of(static_cast<RecordForm>(i)),
                         number);
  }
  return fmt::format("{} ({})", count(report.records), forms);
}

std::string text_of_tokens(const DataReport& report) {
  std::string text = count(report.tokens);
  if (report.kept_tokens != report.tokens) {
    text += fmt::format(", {} after truncation", count(report.kept_tokens));
  }
  if (report.trained_tokens == 0) return text;
  return text + fmt::format("; {:.1f} % of them are trained",
                            percent(report.trained_tokens, report.kept_tokens));
}

void append_histogram(std::vector<std::string>& lines, const DataReport& report) {
  const std::vector<LengthBin> bins = length_histogram(report);
  std::size_t most = 1;
  for (const LengthBin& bin : bins) most = std::max(most, bin.records);
  for (const LengthBin& bin : bins) {
    const std::size_t width = (bin.records * kBarWidth + most - 1) / most;
    lines.push_back(fmt::format("  {:>15}  {:<{}}  {}", fmt::format("{}-{}", bin.low, bin.high),
                                std::string(width, '#'), kBarWidth, count(bin.records)));
  }
}

// Calls f(i, k, duplicates) for data sets i < k that share records.
void for_each_overlap(
    const std::vector<NamedReport>& data,
    const std::function<void(const NamedReport&, const NamedReport&, const Duplicates&)>& f) {
  for (std::size_t k = 1; k < data.size(); ++k) {
    for (std::size_t i = 0; i < k; ++i) {
      const Duplicates found = duplicates_between(data[i].report, data[k].report);
      if (found.records > 0) f(data[i], data[k], found);
    }
  }
}

}  // namespace

std::vector<std::string> lines_of(const NamedReport& data, std::size_t max_seq_length) {
  const DataReport& report = data.report;
  const auto line = [](const char* what, const std::string& text) {
    return fmt::format("  {:<11} {}", what, text);
  };
  std::vector<std::string> lines{data.name, line("records", text_of_forms(report)),
                                 line("tokens", text_of_tokens(report))};
  if (report.records == 0) return lines;
  lines.push_back(
      line("lengths",
           fmt::format("median {}, 95 % up to {}, longest {}", count(length_quantile(report, 0.5)),
                       count(length_quantile(report, 0.95)), count(length_quantile(report, 1)))));
  append_histogram(lines, report);
  lines.push_back(
      line("truncated", fmt::format("{} at {} tokens ({:.1f} %)", count(report.cut), max_seq_length,
                                    percent(report.cut, report.records))));
  lines.push_back(
      line("skipped", fmt::format("{}, without a trained token", count(report.skipped))));
  if (report.with_special > 0) {
    lines.push_back(line("special", fmt::format("{} with special tokens that are read as text",
                                                count(report.with_special))));
  }
  const Duplicates found = duplicates_within(report);
  std::string duplicates = count(found.records);
  if (found.records > 0) {
    duplicates += fmt::format("; record {} repeats record {}", found.second, found.first);
  }
  lines.push_back(line("duplicates", duplicates));
  return lines;
}

std::vector<std::string> lines_of_overlaps(const std::vector<NamedReport>& data) {
  std::vector<std::string> lines;
  for_each_overlap(data, [&](const NamedReport& first, const NamedReport& second,
                             const Duplicates& found) {
    lines.push_back(fmt::format("{} of {} records of {} are also in {}: record {} is its record {}",
                                count(found.records), count(second.report.records), second.name,
                                first.name, found.second, found.first));
  });
  return lines;
}

nlohmann::ordered_json json_of(const NamedReport& data) {
  const DataReport& report = data.report;
  nlohmann::ordered_json forms = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < report.by_form.size(); ++i) {
    if (report.by_form[i] == 0) continue;
    forms[std::string(name_of(static_cast<RecordForm>(i)))] = report.by_form[i];
  }
  nlohmann::ordered_json histogram = nlohmann::ordered_json::array();
  for (const LengthBin& bin : length_histogram(report)) {
    histogram.push_back({{"from", bin.low}, {"to", bin.high}, {"records", bin.records}});
  }
  return {{"data", data.name},
          {"records", report.records},
          {"forms", forms},
          {"tokens", report.tokens},
          {"kept_tokens", report.kept_tokens},
          {"trained_tokens", report.trained_tokens},
          {"truncated_records", report.cut},
          {"skipped_records", report.skipped},
          {"records_with_special_text", report.with_special},
          {"duplicate_records", duplicates_within(report).records},
          {"median_length", length_quantile(report, 0.5)},
          {"length_95_percent", length_quantile(report, 0.95)},
          {"longest", length_quantile(report, 1)},
          {"lengths", histogram}};
}

nlohmann::ordered_json json_of_overlaps(const std::vector<NamedReport>& data) {
  nlohmann::ordered_json overlaps = nlohmann::ordered_json::array();
  for_each_overlap(
      data, [&](const NamedReport& first, const NamedReport& second, const Duplicates& found) {
        overlaps.push_back({{"records", found.records}, {"of", second.name}, {"in", first.name}});
      });
  return overlaps;
}

}  // namespace clora
