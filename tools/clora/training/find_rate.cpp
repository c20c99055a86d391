#include "tools/clora/training/find_rate.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "clora/runtime/files/file.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/progress_bar.hpp"
#include "tools/clora/training/rate_picture.hpp"

namespace clora {
namespace {

void write_points(const RateSearch& search, Output& output) {
  for (const RatePoint& point : search.points) {
    output.object({{"event", "rate"},
                   {"learning_rate", point.learning_rate},
                   {"loss", search.first_loss + point.change},
                   {"smoothed_loss", search.first_loss + point.smoothed}});
  }
}

void write_result(const RateSearch& search, const std::string& picture, Output& output) {
  nlohmann::ordered_json object{{"event", "find_lr"},
                                {"first_loss", search.first_loss},
                                {"steps", search.points.size()},
                                {"diverged", search.diverged},
                                {"picture", picture}};
  if (search.suggested) {
    object["edge"] = *search.edge;
    object["suggested"] = *search.suggested;
  }
  output.object(object);
}

}  // namespace

void add_find_rate_option(CLI::App& command, FindRateOptions& options) {
  CLI::Option* folder = command.get_option("--adapter-out");
  command
      .add_option_function<std::string>(
          "--find-lr",
          [&options, folder](const std::string& file) {
            options.picture = file;
            folder->required(false);
          },
          "Search a learning rate instead of training: some 60 steps with rising rates on this "
          "data; suggests one, and writes a chart of losses over rates")
      ->expected(0, 1)
      ->default_str("find-lr.svg")
      ->type_name("[SVG]")
      ->group("Training")
      ->excludes(command.get_option("--resume"));
}

int find_rate(const FindRateOptions& options, LanguageModel& model, Adapter& adapter,
              const Records& train, const TrainingRunConfig& config, const std::string& title,
              Output& output) {
  const Interrupt interrupt("\nclora: stopping; press Ctrl-C again to stop immediately\n");
  const RateSearchConfig how;
  ProgressBar bar(output, "step", 2 * (how.steps + 1));
  const RateSearch search =
      search_rate(model, adapter, train, config, how, [&](std::int64_t done, std::int64_t) {
        bar.update(done, done <= how.steps + 1 ? "losses before" : "rising rates");
        return !interrupt.requested();
      });
  bar.clear();
  if (search.stopped) {
    output.result("stopped; nothing was saved");
    return 1;
  }
  write_file_atomically(options.picture, rate_picture(search, title));
  write_points(search, output);
  write_result(search, options.picture, output);
  output.info("loss {:.4f} before; {} rates from {:.2g} to {:.2g}{}; chart in {}",
              search.first_loss, search.points.size(), search.points.front().learning_rate,
              search.points.back().learning_rate, search.diverged ? ", where the loss rose" : "",
              options.picture);
  if (!search.suggested) {
    output.result(
        "no rate is suggested: the loss fell by less than a percent, or did not rise again up to "
        "the highest rate; see the chart, or search with a larger --batch-size");
    return 1;
  }
  output.info("a quarter of the fall is lost again at {:.2g}; suggested is that divided by {:g}",
              *search.edge, kRateSafety);
  output.result("--lr {:.2g}", *search.suggested);
  return 0;
}

}  // namespace clora
