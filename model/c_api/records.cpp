// clora.h: records and evaluation.
#include "clora/model/data/records.hpp"

#include <cmath>
#include <span>

#include "model/c_api/boundary.hpp"
#include "model/c_api/documents.hpp"
#include "model/c_api/handles.hpp"
#include "model/c_api/records.hpp"
#include "model/c_api/training_options.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

constexpr std::string_view kLoad = "clora_records_load";

std::vector<DataFile> files_of(const char* const* paths, std::size_t count, const double* weights) {
  require_given(paths, kLoad, "paths");
  require(count > 0, "{}: at least one path is required, got none", kLoad);
  std::vector<DataFile> files;
  for (const char* path : std::span(paths, count)) {
    require_given(path, kLoad, "a path");
    const double weight = weights == nullptr ? 1 : weights[files.size()];
    require(std::isfinite(weight) && weight > 0,
            "{}: the weight of a file must be finite and above 0, got {} for '{}'", kLoad, weight,
            path);
    files.push_back({path, weight});
  }
  return files;
}

RecordOptions options_of(const clora_records_options& given, const clora_tokenizer& tokenizer) {
  require(given.max_seq_length >= 0 && given.limit >= 0,
          "{}: max_seq_length and limit must not be negative, got {} and {}", kLoad,
          given.max_seq_length, given.limit);
  RecordOptions options;
  if (given.max_seq_length > 0) {
    options.max_seq_length = static_cast<std::size_t>(given.max_seq_length);
  }
  options.limit = static_cast<std::size_t>(given.limit);
  options.append_eos = given.no_eos == 0;
  options.apply_chat_template = given.apply_chat_template != 0;
  options.parse_special = given.parse_special != 0;
  options.preference = preference_form_of(preference_kind_of(given.loss, kLoad));
  options.chat_template_problem = tokenizer.chat_template_problem;
  return options;
}

clora_records_info info_of(const Records& records) {
  clora_records_info info{};
  info.records = static_cast<std::int64_t>(records.records.size());
  for (std::size_t i = 0; i < records.records.size(); ++i) {
    info.tokens += static_cast<std::int64_t>(records.records.length(i));
  }
  info.labelled_tokens = static_cast<std::int64_t>(records.target_count());
  info.truncated = static_cast<std::int64_t>(records.truncated);
  info.skipped = static_cast<std::int64_t>(records.skipped);
  return info;
}

}  // namespace

void require_fit(const Records& records, const ModelConfig& model, std::string_view who) {
  for (const RecordView record : records.records) require_fits(record, model, who);
}

}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_records_create(clora_records** records) {
  return guarded_create(records, "clora_records_create", [&] { return new clora_records; });
}

clora_status clora_records_load(const clora_tokenizer* tokenizer, const char* const* paths,
                                size_t path_count, const clora_records_options* options,
                                clora_records** records) {
  return guarded_create(records, kLoad, [&] {
    require_given(tokenizer, kLoad, "tokenizer");
    const clora_records_options own = read_struct(options, kLoad);
    const std::vector<DataFile> files = files_of(paths, path_count, own.weights);
    const RecordOptions how = options_of(own, *tokenizer);
    auto created = std::make_unique<clora_records>();
    created->records =
        load_records(files, tokenizer->tokenizer,
                     tokenizer->chat_template ? &*tokenizer->chat_template : nullptr, how);
    created->max_seq_length = static_cast<std::int64_t>(how.max_seq_length);
    return created.release();
  });
}

void clora_records_release(clora_records* records) { delete records; }

clora_status clora_records_add(clora_records* records, const clora_train_batch* batch) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_records_add";
    require_given(records, kWho, "records");
    require_given(batch, kWho, "batch");
    require(records->max_seq_length == 0,
            "{}: these records were loaded from files; add to others, made by "
            "clora_records_create()",
            kWho);
    const Documents documents = documents_of(read_struct(batch, kWho), kWho);
    for (const RecordView& document : documents.views) {
      require(!document.ids.empty(), "{}: each document must have at least one token", kWho);
      require(std::isfinite(document.weight) && document.weight > 0,
              "{}: the weight of a document must be finite and above 0, got {}", kWho,
              document.weight);
    }
    for (const RecordView& document : documents.views) records->records.records.push_back(document);
  });
}

clora_status clora_records_get_info(const clora_records* records, clora_records_info* info) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_records_get_info";
    require_given(records, kWho, "records");
    write_struct(info, info_of(records->records), kWho);
  });
}

clora_status clora_evaluate(clora_session* session, const clora_records* records,
                            clora_evaluation* evaluation) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_evaluate";
    require_given(session, kWho, "session");
    require_given(records, kWho, "records");
    require_writable(evaluation, kWho);
    require(!records->records.preference,
            "{}: the records were read for a preference loss, which clora_train() evaluates; load "
            "them for the loss sft",
            kWho);
    require_fit(records->records, session->model->model->config(), kWho);
    const EvalResult result = evaluator_of(*session).evaluate(records->records);
    write_struct(evaluation, evaluation_of(result), kWho);
  });
}
