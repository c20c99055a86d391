// Records: data sets of JSON lines, and records that are tokens already.
#include "clora/model/data/records.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/src/arrays.hpp"
#include "python/src/bindings.hpp"
#include "python/src/loaded_records.hpp"
#include "python/src/text.hpp"
#include "runtime/fail.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

std::optional<PreferenceForm> form_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return name == "pairs" ? PreferenceForm::pairs : PreferenceForm::labelled;
}

// preference: "pairs", "labelled" or empty.
RecordsHandle load(const std::vector<std::pair<std::string, double>>& paths, const Text& text,
                   std::size_t max_seq_length, std::size_t limit, bool apply_chat_template,
                   const std::string& preference, std::int64_t max_positions) {
  std::vector<DataFile> files;
  for (const auto& [path, weight] : paths) files.push_back({.path = path, .weight = weight});
  const RecordOptions options{.max_seq_length = max_seq_length,
                              .append_eos = text.tokenizer.eos().has_value(),
                              .apply_chat_template = apply_chat_template,
                              .limit = limit,
                              .max_positions = static_cast<std::size_t>(max_positions),
                              .chat_template_problem = text.chat_template_problem,
                              .preference = form_named(preference)};
  Records records = load_records(files, text.tokenizer, text.template_or_null(), options);
  records.preference = options.preference;
  return std::make_shared<LoadedRecords>(std::move(records));
}

// Each record is its tokens and its marks (1: the token is a target).
RecordsHandle from_tokens(
    const std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::uint8_t>>>& all,
    std::int64_t vocabulary) {
  Records records;
  for (const auto& [ids, marks] : all) {
    require(!ids.empty() && ids.size() == marks.size(),
            "records: as many labels as input_ids are required, at least one, got {} and {}",
            marks.size(), ids.size());
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < vocabulary, "records: token ids must be in [0, {}), got {}",
              vocabulary, id);
    }
    records.records.push_back(Record{.ids = ids, .is_target = marks});
  }
  return std::make_shared<LoadedRecords>(std::move(records));
}

nb::tuple record_at(const LoadedRecords& self, std::size_t index) {
  const RecordStore& all = self.records.records;
  if (index >= all.size()) throw nb::index_error("the records have no such index");
  const RecordView view = all[index];
  std::vector<std::int32_t> ids(view.ids.begin(), view.ids.end());
  std::vector<std::uint8_t> marks(view.is_target.begin(), view.is_target.end());
  const std::size_t count = ids.size();
  return nb::make_tuple(array_of(std::move(ids), {count}), array_of(std::move(marks), {count}));
}

std::size_t tokens(const LoadedRecords& self) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < self.records.records.size(); ++i) {
    count += self.records.records.length(i);
  }
  return count;
}

}  // namespace

void bind_records(nb::module_& module) {
  nb::class_<LoadedRecords>(module, "Records")
      .def("__len__", [](const LoadedRecords& self) { return self.records.records.size(); })
      .def("__getitem__", &record_at, nb::arg("index"))
      .def_prop_ro("tokens", &tokens)
      .def_prop_ro("targets", [](const LoadedRecords& self) { return self.records.target_count(); })
      .def_prop_ro("truncated", [](const LoadedRecords& self) { return self.records.truncated; })
      .def_prop_ro("skipped", [](const LoadedRecords& self) { return self.records.skipped; });
  module.def("load_records", &load, nb::arg("paths"), nb::arg("text"), nb::arg("max_seq_length"),
             nb::arg("limit"), nb::arg("apply_chat_template"), nb::arg("preference"),
             nb::arg("max_positions"), nb::call_guard<nb::gil_scoped_release>());
  module.def("records_from_tokens", &from_tokens, nb::arg("records"), nb::arg("vocabulary"),
             nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace clora::python
