#include "tests/support/test_models.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "tests/support/op_test.hpp"

namespace clora::test {

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

OpenModel::OpenModel(const std::filesystem::path& path, Variant variant, const LoadOptions& options)
    : files(WeightFiles::open(path)), model(context_of(variant), files, options) {}

void expect_logits(const std::vector<float>& got, const std::vector<double>& want,
                   double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double scale = 0;
  for (const double w : want) scale = std::max(scale, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], tolerance * scale) << "logit " << i;
  }
}

}  // namespace clora::test
