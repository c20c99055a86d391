// clora adapters diff: the norms of an adapter by layer, or of two and of their difference.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "clora/lora/adapter_errors.hpp"
#include "runtime/parse_integer.hpp"
#include "tools/clora/adapters/adapters_commands.hpp"
#include "tools/clora/adapters/result_options.hpp"
#include "tools/command_line/local_path.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora adapters diff sql
  clora adapters diff sql chat --modules
Norms are Frobenius norms of scale * B A, the change of the weights; share is of the squared norm.
The cosine is that of the changes as vectors: near 0, adapters hardly interfere.)";

struct Options {
  CommonOptions common;
  std::string adapter, other;
  bool by_module = false;
};

struct Row {
  std::string name;
  std::size_t modules = 1;
  ModuleComparison compared;
};

// "model.layers.3.mlp.up_proj" is of layer 3; a path without a number is a layer of its own.
std::string layer_of(const std::string& path) {
  for (std::size_t dot = path.find('.'); dot != std::string::npos;) {
    const std::size_t end = path.find('.', dot + 1);
    const std::string part = path.substr(dot + 1, end == std::string::npos ? end : end - dot - 1);
    if (parse_integer(part)) return part;
    dot = end;
  }
  return path;
}

std::vector<Row> rows_by_layer(const std::vector<ModuleComparison>& modules) {
  std::vector<std::pair<std::string, std::vector<ModuleComparison>>> layers;
  for (const ModuleComparison& module : modules) {
    const std::string layer = layer_of(module.path);
    auto at = std::ranges::find(layers, layer, [](const auto& each) { return each.first; });
    if (at == layers.end()) at = layers.insert(at, {layer, {}});
    at->second.push_back(module);
  }
  const auto number = [](const auto& layer) { return parse_integer(layer.first).value_or(-1); };
  std::ranges::stable_sort(layers, {}, number);
  std::vector<Row> rows;
  for (const auto& [layer, members] : layers) {
    rows.push_back({layer, members.size(), sum_of(members)});
  }
  return rows;
}

std::vector<Row> rows_of(const std::vector<ModuleComparison>& modules, bool by_module) {
  if (!by_module) return rows_by_layer(modules);
  std::vector<Row> rows;
  for (const ModuleComparison& module : modules) rows.push_back({module.path, 1, module});
  return rows;
}

double share_of(const ModuleComparison& part, const ModuleComparison& whole) {
  return whole.norm > 0 ? part.norm * part.norm / (whole.norm * whole.norm) : 0;
}

// A table with the columns of one adapter, or of two.
class Table {
 public:
  Table(Output& output, const std::vector<Row>& rows, bool is_of_two)
      : output_(&output), is_of_two_(is_of_two) {
    for (const Row& row : rows) width_ = std::max(width_, row.name.size());
  }

  void head(bool by_module) {
    const char* const name = by_module ? "module" : "layer";
    if (is_of_two_) {
      output_->result("{:<{}}  modules  ranks      norm     other  difference   cosine", name,
                      width_);
    } else {
      output_->result("{:<{}}  modules  rank      norm    share", name, width_);
    }
  }
  void line(const Row& row, const ModuleComparison& whole) {
    const ModuleComparison& m = row.compared;
    if (is_of_two_) {
      output_->result("{:<{}}  {:7}  {:>5}  {:8.4g}  {:8.4g}  {:10.4g}  {:7.4f}", row.name, width_,
                      row.modules, fmt::format("{}/{}", m.rank, m.other_rank), m.norm, m.other_norm,
                      m.difference, m.cosine());
    } else {
      output_->result("{:<{}}  {:7}  {:4}  {:8.4g}  {:5.1f} %", row.name, width_, row.modules,
                      m.rank, m.norm, 100 * share_of(m, whole));
    }
  }

 private:
  Output* output_;
  bool is_of_two_;
  std::size_t width_ = 6;
};

nlohmann::ordered_json json_of(const Row& row, const char* name, bool is_of_two) {
  const ModuleComparison& m = row.compared;
  nlohmann::ordered_json object{
      {name, row.name}, {"modules", row.modules}, {"rank", m.rank}, {"norm", m.norm}};
  if (is_of_two) {
    object["other_rank"] = m.other_rank;
    object["other_norm"] = m.other_norm;
    object["difference"] = m.difference;
    object["cosine"] = m.cosine();
  }
  return object;
}

int diff(const Options& options) {
  Output output(options.common.output);
  const AdapterMatrices adapter = read_adapter_matrices(options.adapter);
  const bool is_of_two = !options.other.empty();
  const AdapterMatrices other =
      is_of_two ? read_adapter_matrices(options.other) : AdapterMatrices{};
  const std::vector<ModuleComparison> modules = compare_adapters(adapter, other);
  const std::vector<Row> rows = rows_of(modules, options.by_module);
  const Row whole{"all", modules.size(), sum_of(modules)};
  Table table(output, rows, is_of_two);
  table.head(options.by_module);
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  const char* const name = options.by_module ? "module" : "layer";
  for (const Row& row : rows) {
    table.line(row, whole.compared);
    lines.push_back(json_of(row, name, is_of_two));
  }
  table.line(whole, whole.compared);
  nlohmann::ordered_json object = json_of(whole, name, is_of_two);
  object[options.by_module ? "by_module" : "by_layer"] = lines;
  output.object(object);
  return 0;
}

}  // namespace

void add_adapters_diff_command(CLI::App& group, Action& action) {
  CLI::App* command =
      group.add_subcommand("diff", "Show the norms of an adapter, or of the difference of two");
  const auto options = std::make_shared<Options>();
  add_adapter_argument(*command, options->adapter);
  command->add_option("OTHER", options->other, "Another adapter to compare with")
      ->transform(LocalPath(HubKind::model))
      ->type_name("DIR");
  command->add_flag("--modules", options->by_module, "A line for each module, not for each layer");
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return diff(*options); }; });
}

}  // namespace clora
