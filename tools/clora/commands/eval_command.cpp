// clora eval: loss, perplexity, exact match and preferences of a model on records.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/model/training/choices.hpp"
#include "clora/model/training/evaluator.hpp"
#include "model/training/preference_run.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/clora/commands/embedding_task.hpp"
#include "tools/clora/exact_match.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/progress_bar.hpp"
#include "tools/clora/training/preference_options.hpp"
#include "tools/clora/training/run_devices.hpp"
#include "tools/clora/training/staged_evaluation.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora eval --model MODEL.gguf --data test.jsonl
  clora eval --model MODEL.gguf --data test.jsonl --adapter my-adapter --exact-match --limit 40
The loss is the mean over the labelled tokens, in nats; perplexity is its exponential. --exact-match
is the share of records whose completion the model generates exactly (with greedy decoding, ignoring
leading and trailing white space).
  clora eval --model all-MiniLM-L6-v2 --task embedding --data pairs.jsonl --adapter my-adapter
With --task embedding, records {"anchor": ..., "positive": ...} give recall@1, 5 and 10: the share of
anchors whose positive is among the nearest of all positives. {"sentence1": ..., "sentence2": ...,
"score": ...} give Spearman's correlation of the cosines with the scores.
  clora eval --model MODEL.gguf --data questions.jsonl --choices
With --choices, records are {"prompt": ..., "choices": [...], "answer": index or text}. The accuracy
is the share of records whose right choice is the likeliest after the prompt; the normalised one
compares likelihoods per character (acc and acc_norm of lm-evaluation-harness).
  clora eval --model MODEL.gguf --data pairs.jsonl --loss dpo --beta 0.1 --adapter my-adapter
With --loss dpo, ipo, orpo or kto, records are prompts with answers, as in training. The reference is
the base model, or the model with --reference-adapter.
  clora eval --model LARGE-MODEL --data test.jsonl --device gpu:0,gpu:1 --split layers
With --split layers, each device holds a part of the model; for loss and perplexity only.)";

struct Options {
  CommonOptions common;
  DataOptions data;
  EmbeddingTaskOptions task;
  std::string adapter;
  bool exact_match = false;
  bool choices = false;
  PreferenceOptions preference;
  std::string reference_adapter;
  std::int64_t batch_size = TrainingRunConfig().batch_size;
  std::int64_t show = 0;
  SplitOptions split;
  std::vector<std::int64_t> device_shares;  // with --split layers
};

// The text with line breaks escaped.
std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? std::string("\\n") : std::string(1, c);
  return line;
}

void show_answer(Output& output, const Answer& answer) {
  output.info("\n{}\n  expected: {}\n  got:      {}{}", answer.prompt, on_one_line(answer.wanted),
              on_one_line(answer.got), answer.exact() ? "  (exact)" : "");
}

double match(const Options& options, LoadedModel& loaded, const Adapter* adapter,
             const ModelText& text, const Records& records, Output& output) {
  const std::vector<Question> questions = questions_of(records);
  require(!questions.empty(),
          "--exact-match requires records with a prompt and a completion; '{}' has none",
          fmt::join(options.data.data, "', '"));
  ProgressBar bar(output, "record", static_cast<std::int64_t>(questions.size()));
  const Interrupt interrupt("\nclora: stopping; press Ctrl-C again to stop immediately\n");
  std::int64_t generated = 0, matched = 0;
  return exact_match(loaded.model(), adapter, text.tokenizer(), questions,
                     {.end_ids = text.end_ids(loaded.model().config()),
                      .full_answers = static_cast<std::size_t>(options.show)},
                     [&](const Answer& answer) {
                       ++generated;
                       matched += answer.exact() ? 1 : 0;
                       if (generated <= options.show) {
                         bar.clear();
                         show_answer(output, answer);
                       }
                       bar.update(generated, fmt::format("{} exact", matched));
                       if (interrupt.requested()) {
                         fail(ErrorCode::cancelled, "eval: stopped after {} of {} records",
                              generated, questions.size());
                       }
                       return true;
                     });
}

// Without the contrastive loss, which depends on the batches.
int eval_embedding(const Options& options) {
  Output output(options.common.output);
  require(!options.exact_match, "eval: --exact-match is for --task text");
  DataOptions data = options.data;
  set_task_of_data(options.task, options.common.model, data);
  const ModelText text(options.common.model);
  const Records records =
      read_records(unweighted_files_of(data, "eval"), data, data.limit, text, output);
  LoadedModel loaded(options.common, output);
  const std::optional<Adapter> adapter = loaded.adapter(options.adapter);
  const auto task =
      contrastive_loss_of(options.task, options.common.model, loaded.model().config());
  const EmbeddingScores scores =
      embedding_scores(loaded.model(), adapter ? &*adapter : nullptr, task->pooling, records);
  output.result("{}  {} records", text_of(scores), records.records.size());
  nlohmann::ordered_json object{{"records", records.records.size()}};
  add_to(object, scores);
  output.object(object);
  loaded.show_inside();
  return 0;
}

std::vector<ChoiceQuestion> read_questions(const Options& options, const ModelText& text) {
  std::vector<ChoiceQuestion> questions;
  for (const DataFile& file : unweighted_files_of(options.data, "eval")) {
    auto of_file = read_choice_questions(file.path, text.tokenizer(), text.find_chat_template(),
                                         record_options(options.data, text));
    std::ranges::move(of_file, std::back_inserter(questions));
  }
  return questions;
}

int eval_choices(const Options& options) {
  Output output(options.common.output);
  require(!options.exact_match,
          "eval: --exact-match needs records with completions, not --choices");
  const ModelText text(options.common.model, options.data.chat_template);
  const std::vector<ChoiceQuestion> questions = read_questions(options, text);
  LoadedModel loaded(options.common, output, options.data.max_seq_length);
  const std::optional<Adapter> adapter = loaded.adapter(options.adapter);
  Evaluator evaluator(loaded.model(), adapter ? &*adapter : nullptr);
  ProgressBar bar(output, "record", std::ssize(questions));
  const Interrupt interrupt("\nclora: stopping; press Ctrl-C again to stop immediately\n");
  const auto scores = score_choices(evaluator, questions, [&](std::size_t done) {
    bar.update(static_cast<std::int64_t>(done), "scored");
    return !interrupt.requested();
  });
  bar.clear();
  if (!scores) fail(ErrorCode::cancelled, "eval: stopped before the last record");
  output.result("accuracy {:.4f}  normalised accuracy {:.4f}  {} records", scores->accuracy,
                scores->normalised_accuracy, scores->questions);
  output.object({{"records", scores->questions},
                 {"accuracy", scores->accuracy},
                 {"normalised_accuracy", scores->normalised_accuracy}});
  loaded.show_inside();
  return 0;
}

void warn_without_adapter(const Options& options, const PreferenceLoss& loss, Output& output) {
  if (!options.adapter.empty() || !options.reference_adapter.empty() || !loss.has_reference()) {
    return;
  }
  output.warning(
      "without --adapter the model is its own reference, so that rewards and margins are 0; --loss "
      "orpo compares answers without a reference");
}

// With the reference computed first.
EvalResult evaluated_preferences(const Options& options, const PreferenceLoss& loss,
                                 LoadedModel& loaded, const Adapter* adapter,
                                 const Records& records) {
  const std::optional<Adapter> of_reference = loaded.adapter(options.reference_adapter);
  const auto arena = std::make_shared<Arena>();
  PreferenceRows rows = preference_rows(records,
                                        {.batch_size = options.batch_size,
                                         .adapter_out = {},
                                         .max_seq_length = options.data.max_seq_length,
                                         .preference = loss},
                                        loaded.model().config());
  const Interrupt interrupt("\nclora: stopping; press Ctrl-C again to stop immediately\n");
  PreferenceEvaluator reference(loaded.model(), of_reference ? &*of_reference : nullptr, arena,
                                loss, {});
  if (!reference.compute_reference(rows, [&] { return interrupt.requested(); })) {
    fail(ErrorCode::cancelled, "eval: stopped before the last record");
  }
  PreferenceEvaluator evaluator(loaded.model(), adapter, arena, loss, {});
  return evaluator.evaluate(rows, static_cast<std::size_t>(options.batch_size));
}

int eval_preferences(const Options& options, const PreferenceLoss& loss) {
  Output output(options.common.output);
  DataOptions data = options.data;
  options.preference.apply_to(data);
  const ModelText text(options.common.model, data.chat_template);
  const Records records =
      read_records(unweighted_files_of(data, "eval"), data, data.limit, text, output);
  warn_without_adapter(options, loss, output);
  LoadedModel loaded(options.common, output, data.max_seq_length);
  const std::optional<Adapter> adapter = loaded.adapter(options.adapter);
  const Adapter* used = adapter ? &*adapter : nullptr;
  const EvalResult result = evaluated_preferences(options, loss, loaded, used, records);
  output.result("loss {:.6f}  {}  {} {}  {:.1f} s", result.loss, text_of(result.preference),
                result.tokens, loss.has_pairs() ? "pairs" : "answers", result.seconds);
  nlohmann::ordered_json object{{"loss", result.loss}, {"records", result.tokens}};
  add_to(object, result.preference);
  object["seconds"] = result.seconds;
  if (options.exact_match) {
    object["exact_match"] = match(options, loaded, used, text, records, output);
    output.result("exact match {:.1f} %", 100 * object["exact_match"].get<double>());
  }
  output.object(object);
  loaded.show_inside();
  return 0;
}

void show_loss(const EvalResult& result, const Records& records, Output& output,
               nlohmann::ordered_json& object) {
  const double perplexity = std::exp(result.loss);
  output.result("loss {:.6f}  perplexity {:.4f}  {} tokens of {} records  {:.1f} s", result.loss,
                perplexity, result.tokens, records.records.size(), result.seconds);
  object = {{"loss", result.loss},
            {"perplexity", perplexity},
            {"tokens", result.tokens},
            {"records", records.records.size()},
            {"seconds", result.seconds}};
}

// By several devices, of which each holds a part of the model.
int eval_stages(const Options& options) {
  RunDevices devices(options.common.device);
  check_split(options.split, devices.count(),
              options.task.embeds()             ? "--task embedding"
              : options.choices                 ? "--choices"
              : options.exact_match             ? "--exact-match"
              : options.preference.preference() ? "--loss"
                                                : "");
  OutputOptions shown = options.common.output;
  shown.quiet = shown.quiet || !devices.has_first();
  shown.json = shown.json && devices.has_first();
  Output output(shown);
  const ModelText text(options.common.model, options.data.chat_template);
  const Records records = read_records(unweighted_files_of(options.data, "eval"), options.data,
                                       options.data.limit, text, output);
  const StagedEvaluation how{.common = options.common,
                             .split = options.split,
                             .device_shares = options.device_shares,
                             .adapter = options.adapter,
                             .context_length = options.data.max_seq_length};
  const EvalResult result = evaluate_on_stages(devices, how, records, output);
  if (!devices.has_first()) return 0;
  nlohmann::ordered_json object;
  show_loss(result, records, output, object);
  output.object(object);
  return 0;
}

int eval(const Options& options) {
  const std::optional<PreferenceLoss> preference = options.preference.preference();
  require(!options.choices || !preference, "eval: --choices is for --loss sft, got {}",
          options.preference.loss);
  require((preference && preference->has_reference()) || options.reference_adapter.empty(),
          "eval: --reference-adapter is for --loss dpo, ipo or kto, got {}",
          options.preference.loss);
  check_split_shares(options.split, options.device_shares);
  if (options.split.by_layers()) return eval_stages(options);
  if (options.task.embeds()) {
    require(!options.choices && !preference, "eval: --choices and --loss are for --task text");
    return eval_embedding(options);
  }
  if (options.choices) return eval_choices(options);
  if (preference) return eval_preferences(options, *preference);
  Output output(options.common.output);
  const ModelText text(options.common.model, options.data.chat_template);
  const Records records = read_records(unweighted_files_of(options.data, "eval"), options.data,
                                       options.data.limit, text, output);
  LoadedModel loaded(options.common, output, options.data.max_seq_length);
  const std::optional<Adapter> adapter = loaded.adapter(options.adapter);
  const Adapter* used = adapter ? &*adapter : nullptr;
  const EvalResult result = Evaluator(loaded.model(), used).evaluate(records);
  nlohmann::ordered_json object;
  show_loss(result, records, output, object);
  if (options.exact_match) {
    const double part = match(options, loaded, used, text, records, output);
    output.result("exact match {:.1f} %", 100 * part);
    object["exact_match"] = part;
  }
  output.object(object);
  loaded.show_inside();
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("eval", "Evaluate a model on records");
  const auto options = std::make_shared<Options>();
  add_data_options(*command, options->data, "Records to evaluate: one or more files");
  add_embedding_task_options(*command, options->task);
  add_adapter_option(*command, options->adapter);
  command->add_flag("--exact-match", options->exact_match,
                    "Also generate the completions and compare them");
  command->add_flag("--choices", options->choices,
                    "Read records with choices and an answer, and compare the choices' likelihood");
  command->add_option("--show", options->show, "With --exact-match: print the first N answers")
      ->type_name("N")
      ->transform(Integer(0, kMaxCount))
      ->capture_default_str();
  add_preference_options(*command, options->preference);
  command
      ->add_option("--reference-adapter", options->reference_adapter,
                   "With --loss dpo, ipo or kto: the adapter of the reference [none]")
      ->transform(LocalPath(HubKind::model))
      ->type_name("DIR")
      ->group("Preferences");
  command
      ->add_option("--batch-size", options->batch_size,
                   "With --loss kto: answers that share an estimate of the KL term")
      ->transform(Integer(2, kMaxCount))
      ->capture_default_str()
      ->group("Preferences");
  add_split_option(*command, options->split, "Devices");
  add_split_shares_option(*command, options->device_shares, "Devices");
  add_run_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return eval(*options); }; });
}

}  // namespace clora
