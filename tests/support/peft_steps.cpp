#include "tests/support/peft_steps.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <string_view>

#include "clora/model/transformer/forward_pass.hpp"
#include "tests/support/test_models.hpp"

namespace clora::test {

std::vector<float> sines(std::int64_t rows, std::int64_t columns, double factor, double phase,
                         bool transposed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto of_i = static_cast<double>(transposed ? j : i);
      const auto of_j = static_cast<double>(transposed ? i : j);
      values.push_back(static_cast<float>(factor * std::sin(0.37 * of_i + 0.11 * of_j + phase)));
    }
  }
  return values;
}

void fill_reference_adapter(const Adapter& adapter) {
  for (const AdapterModule& module : adapter.modules()) {
    constexpr std::string_view kLayers = "model.layers.";
    const double block = std::stod(module.site.path.substr(kLayers.size()));
    const std::vector<float> a = sines(module.rank, module.site.inputs, 0.02, block);
    adapter.context().write(adapter.weights(module.site.path).a, std::as_bytes(std::span(a)));
  }
}

Record document(int length, int shift, std::int64_t vocabulary) {
  Record record;
  for (int i = 0; i < length; ++i) {
    record.ids.push_back(static_cast<std::int32_t>((i * 37 + 11 + shift) % vocabulary));
  }
  record.is_target.assign(record.ids.size(), 1);
  return record;
}

PackedRows two_documents(std::int64_t vocabulary) {
  const std::vector<Record> records{document(11, 0, vocabulary), document(9, 5, vocabulary)};
  return pack_rows(std::span<const Record>(records), 20);
}

void expect_peft_steps(Trainer& trainer, const nlohmann::json& reference, std::int64_t vocabulary,
                       double norm_tolerance) {
  const PackedRows rows = two_documents(vocabulary);
  for (std::size_t step = 0; step < 10; ++step) {
    (void)trainer.step(std::span(&rows, 1), reference.at("lr").get<double>());
    const StepResult got = trainer.drain().value();
    const double loss = reference.at("loss").at(step).get<double>();
    const double norm = reference.at("grad_norm").at(step).get<double>();
    EXPECT_NEAR(got.loss, loss, 5e-5 * loss) << "step " << step;
    EXPECT_NEAR(got.grad_norm, norm, norm_tolerance * norm) << "step " << step;
  }
}

void expect_peft_logits(LanguageModel& model, const Adapter& adapter,
                        const nlohmann::json& reference) {
  std::vector<double> rows;
  for (const nlohmann::json& row : reference.at("logits")) {
    for (const nlohmann::json& value : row) rows.push_back(value.get<double>());
  }
  const auto second = document(9, 5, model.config().vocabulary).ids;
  expect_logits(ForwardPass(model, &adapter).logits(second), rows, 5e-4);
}

}  // namespace clora::test
