#include "tools/clora/report/run_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/clora/report/heat_map.hpp"
#include "tools/clora/report/html_page.hpp"
#include "tools/clora/report/run_charts.hpp"
#include "tools/command_line/markup.hpp"
#include "tools/command_line/output.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

// A fact as text: a number with separators, a text as it is; empty for anything else.
std::string fact_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return grouped(value.get<std::int64_t>());
  return value.is_number() ? short_number(value.get<double>()) : std::string();
}

std::string fact(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() ? std::string() : fact_text(*found);
}

std::string head_of(const LoggedRun& run) {
  const Json& start = run.record.start();
  std::string text = html_chart_page_head("clora train: " + run.name) +
                     fmt::format("<h1>{}</h1>\n", html_escaped(run.name));
  std::string line;
  for (const char* key : {"model", "device"}) {
    const std::string value = fact(start, key);
    if (!value.empty()) line += (line.empty() ? "" : " · ") + html_escaped(value);
  }
  return text + fmt::format("<p>{}</p>\n", line);
}

std::string tiles_of(const RunRecord& record) {
  const auto& loss = record.points("step", "loss");
  const auto& held_out = record.points("eval", "loss");
  std::string text = html_tile(
      state_of(record, "running"),
      fmt::format("step {} of {}", grouped(record.last_step()), grouped(record.planned_steps())));
  if (!loss.empty()) {
    text += html_tile(short_number(level_at_end(loss)), "training loss, mean of the last tenth");
  }
  if (!held_out.empty()) {
    const SeriesPoint& best = *lowest(held_out);
    text += html_tile(short_number(held_out.back().value), "held-out loss");
    text += html_tile(short_number(best.value),
                      fmt::format("lowest held-out loss, step {}", grouped(best.step)));
  }
  const auto& speed = record.points("step", "tokens_per_s");
  if (!speed.empty())
    text += html_tile(short_number(median_of(speed)), "tokens per second, median");
  if (const auto seconds = record.seconds()) text += html_tile(clock_time(*seconds), "duration");
  const auto& peak = record.points("step", "peak_bytes");
  if (!peak.empty()) {
    text += html_tile(readable_bytes(peak.back().value), "peak device memory");
  }
  const std::string parameters = fact(record.start(), "trainable_parameters");
  if (!parameters.empty()) text += html_tile(parameters, "trainable parameters");
  return "<div class=\"tiles\">\n" + text + "</div>\n";
}

std::string curves_of(const RunRecord& record) {
  std::string text;
  for (const LineChart& chart : charts_of(record)) text += line_chart(chart);
  if (text.empty()) return {};
  std::string notes =
      "Faint lines are the values of steps, strong ones their running mean. Point at a chart, or "
      "focus it and press the arrow keys, to read the values at a step.";
  if (!record.resumed().empty()) notes += " Vertical lines mark where the run was resumed.";
  return fmt::format("<h2 id=\"curves\">Curves</h2>\n<p>{}</p>\n<div class=\"charts\">\n{}</div>\n",
                     notes, text);
}

std::string norms_of(const RunRecord& record) {
  if (record.norms().empty()) return {};
  std::string text = line_chart(norm_chart(record));
  for (const HeatMap& map : norm_maps(record)) text += heat_map(map);
  return "<h2 id=\"norms\">Adapter norms</h2>\n<p>The Frobenius norm of each layer's update, scale "
         "· B A, which is added to its weight.</p>\n<div class=\"charts\">\n" +
         text + "</div>\n";
}

// Without white space at the beginning, with which many replies start.
std::string reply(std::string_view title, std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n\t\r"), text.size()));
  return fmt::format("<div class=\"reply\"><h4>{}</h4><pre tabindex=\"0\">{}</pre></div>\n",
                     html_escaped(title), html_escaped(text));
}

// The replies to the i-th prompt: base and latest adapter side by side, then the earlier ones.
std::string sample_of(const std::vector<SamplesAtStep>& all, std::size_t i) {
  const ReplySample& last = all.back().samples[i];
  std::string text = fmt::format(
      "<div class=\"sample\"><h3>Prompt {}</h3><pre tabindex=\"0\">{}</pre>\n<div "
      "class=\"replies\">\n",
      i + 1, html_escaped(last.prompt));
  text += reply("Reference", last.wanted) + reply("Base model", last.base) +
          reply(fmt::format("Adapter, step {}", grouped(all.back().step)), last.adapter) +
          "</div>\n";
  std::string earlier;
  for (std::size_t at = all.size() - 1; at-- > 0;) {
    if (i >= all[at].samples.size()) continue;
    earlier +=
        reply(fmt::format("Adapter, step {}", grouped(all[at].step)), all[at].samples[i].adapter);
  }
  if (!earlier.empty()) {
    text += fmt::format(
        "<details><summary>Earlier replies of the adapter</summary>\n<div "
        "class=\"replies\">\n{}</div></details>\n",
        earlier);
  }
  return text + "</div>\n";
}

std::string samples_of(const RunRecord& record) {
  const auto& all = record.samples();
  if (all.empty() || all.back().samples.empty()) return {};
  std::string text =
      "<h2 id=\"replies\">Replies</h2>\n<p>The most likely token at each place (greedy), to "
      "prompts "
      "of the held-out records.</p>\n";
  for (std::size_t i = 0; i < all.back().samples.size(); ++i) text += sample_of(all, i);
  return text;
}

std::string settings_of_page(const LoggedRun& run) {
  if (run.settings.empty()) return {};
  return "<h2 id=\"settings\">Settings</h2>\n<div class=\"scroll\">\n" + html_pairs(run.settings) +
         "</div>\n";
}

// The facts of each data set, without those that are lists.
std::string data_of_page(const RunRecord& record) {
  if (!record.start().is_object() || !record.start().contains("data")) return {};
  std::string text;
  for (const Json& set : record.start()["data"]) {
    if (!set.is_object()) continue;
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const auto& [key, value] : set.items()) {
      std::string name = key;
      std::ranges::replace(name, '_', ' ');
      if (const std::string shown = fact_text(value); !shown.empty())
        pairs.emplace_back(name, shown);
    }
    text += "<figure>" + html_pairs(pairs) + "</figure>\n";
  }
  if (text.empty()) return {};
  return "<h2 id=\"data\">Data</h2>\n<div class=\"charts\">\n" + text + "</div>\n";
}

std::string contents_of(const std::string& body) {
  std::string text;
  const std::pair<const char*, const char*> parts[] = {{"curves", "Curves"},
                                                       {"norms", "Adapter norms"},
                                                       {"replies", "Replies"},
                                                       {"settings", "Settings"},
                                                       {"data", "Data"}};
  for (const auto& [id, title] : parts) {
    if (body.find(fmt::format("<h2 id=\"{}\">", id)) == std::string::npos) continue;
    text += fmt::format("<a href=\"#{}\">{}</a> ", id, title);
  }
  return "<nav>" + text + "</nav>\n";
}

}  // namespace

std::string state_of(const RunRecord& record, std::string_view without_end) {
  switch (record.end()) {
    case RunEnd::done:
      return "done";
    case RunEnd::stopped:
      return "stopped";
    case RunEnd::cut:
      break;
  }
  return std::string(without_end);
}

std::string run_page(const LoggedRun& run) {
  const RunRecord& record = run.record;
  const std::string body = curves_of(record) + norms_of(record) + samples_of(record) +
                           settings_of_page(run) + data_of_page(record);
  return head_of(run) + tiles_of(record) + contents_of(body) + body + html_chart_page_end();
}

}  // namespace clora
