// extract_adapter(): the adapter of a fine-tuned model that was made by adding a known one.
#include "clora/model/weights/adapter_extraction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "clora/lora/safetensors.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using testing::ElementsAre;

class Extracting : public testing::Test {
 protected:
  Extracting() {
    test::write_tiny_model(folder_ / "base", test::tiny_config("Llama"));
    std::filesystem::create_directory(folder_ / "tuned");
    std::filesystem::copy(folder_ / "base/config.json", folder_ / "tuned/config.json");
    const SafetensorsFile file = SafetensorsFile::open(folder_ / "base/model.safetensors");
    for (const SafetensorsFile::Entry& entry : file.entries()) {
      std::vector<float>& values = weights_[entry.name];
      values.resize(entry.bytes.size() / sizeof(float));
      std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());
      shapes_[entry.name] = {entry.dimensions[0],
                             entry.dimensions.size() > 1 ? entry.dimensions[1] : 1};
      dimensions_[entry.name] = entry.dimensions.size();
    }
    sites_ = adapter_sites(WeightFiles::open(folder_ / "base").config());
  }

  // Adds b a of random matrices to the weight of a site, and returns it.
  ModuleMatrices add_product(const AdapterSite& site, std::int64_t rank, std::uint32_t seed) {
    const auto n = static_cast<std::size_t>(site.outputs),
               k = static_cast<std::size_t>(site.inputs), r = static_cast<std::size_t>(rank);
    const auto a = test::random_values(r * k, seed), b = test::random_values(n * r, seed + 1);
    ModuleMatrices module{.site = site, .rank = rank, .scale = 0.5, .a = {}, .b = {}};
    module.a.assign(a.begin(), a.end());
    module.b.assign(b.begin(), b.end());
    std::vector<float>& weight = weights_.at(site.path + ".weight");
    for (std::size_t i = 0; i < n * k; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < r; ++j) sum += module.b[i / k * r + j] * module.a[j * k + i % k];
      weight[i] += static_cast<float>(0.5 * sum);
    }
    return module;
  }

  Extraction extract(const ExtractionConfig& config) {
    std::vector<StoredTensor> tensors;
    for (const auto& [name, values] : weights_) {
      const auto [rows, columns] = shapes_[name];
      tensors.push_back({name, DType::f32,
                         dimensions_[name] == 1 ? Shape{rows} : Shape{rows, columns},
                         std::as_bytes(std::span(values))});
    }
    write_safetensors(folder_ / "tuned/model.safetensors", tensors, {{"format", "pt"}});
    return extract_adapter(WeightFiles::open(folder_ / "base"),
                           WeightFiles::open(folder_ / "tuned"), sites_, {.base_model = "base"},
                           config);
  }

  test::TemporaryFolder folder_;
  std::map<std::string, std::vector<float>> weights_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> shapes_;
  std::map<std::string, std::size_t> dimensions_;
  std::vector<AdapterSite> sites_;
};

TEST_F(Extracting, GivesBackAKnownAdapterAndNoOtherModules) {
  AdapterMatrices known;
  known.modules = {add_product(sites_[2], 3, 1), add_product(sites_[5], 3, 7)};
  std::ranges::sort(known.modules, {}, [](const auto& module) { return module.site.path; });
  const Extraction extraction = extract({.rank = 3});
  ASSERT_EQ(extraction.adapter.modules.size(), 2U);
  const WeightedAdapter wanted[] = {{&known, 1}};
  // The fine-tuned weights are rounded to f32.
  EXPECT_LT(errors_of(extraction.adapter, wanted).worst().relative(), 1e-6);
  EXPECT_LT(extraction.errors.worst().relative(), 1e-6);
  EXPECT_TRUE(extraction.left_out.empty());
  EXPECT_EQ(extraction.adapter.config.base_model, "base");
  write_adapter_matrices(extraction.adapter, folder_ / "adapter");
  EXPECT_EQ(read_adapter_matrices(folder_ / "adapter").modules.size(), 2U);
}

TEST_F(Extracting, OfALowerRankMeasuresItsErrorOnTheDifference) {
  const AdapterMatrices known{.config = {}, .modules = {add_product(sites_[2], 6, 1)}};
  const Extraction extraction = extract({.rank = 2, .type = DType::bf16});
  const WeightedAdapter wanted[] = {{&known, 1}};
  const double error = errors_of(extraction.adapter, wanted).whole().relative();
  EXPECT_GT(error, 0.1);
  EXPECT_NEAR(extraction.errors.whole().relative(), error, 1e-6);
  EXPECT_EQ(extraction.adapter.modules.front().rank, 2);
}

TEST_F(Extracting, ByEnergyTakesTheLeastRank) {
  add_product(sites_[2], 6, 1);
  const Extraction extraction = extract({.rank = 20, .energy = 0.999999});
  EXPECT_EQ(extraction.adapter.modules.front().rank, 6);
  const Extraction half = extract({.rank = 20, .energy = 0.5});
  EXPECT_LT(half.adapter.modules.front().rank, 4);
  EXPECT_GE(half.errors.whole().kept_energy(), 0.5);
}

TEST_F(Extracting, NamesOtherTensorsThatDiffer) {
  add_product(sites_[2], 2, 1);
  weights_.at("model.norm.weight")[0] += 1;
  EXPECT_THAT(extract({}).left_out, ElementsAre("model.norm.weight"));
}

TEST_F(Extracting, RefusesEqualModelsDamagedWeightsAndSettingsOutOfRange) {
  CLORA_EXPECT_ERROR(extract({}), ErrorCode::invalid_argument, "the same linear layers");
  CLORA_EXPECT_ERROR(extract({.rank = 0}), ErrorCode::invalid_argument, "rank");
  CLORA_EXPECT_ERROR(extract({.energy = 1.5}), ErrorCode::invalid_argument, "energy");
  CLORA_EXPECT_ERROR(extract({.go_on = [](std::size_t done, std::size_t) { return done < 2; }}),
                     ErrorCode::cancelled, "after 2 of");
  weights_.at(sites_[2].path + ".weight")[5] = NAN;
  CLORA_EXPECT_ERROR(extract({}), ErrorCode::invalid_data, sites_[2].path);
}

TEST_F(Extracting, TakesTheHeadAndRefusesTokenEmbeddings) {
  const ModelConfig config = WeightFiles::open(folder_ / "base").config();
  sites_ = select_sites(config, {"lm_head"}, 0);
  const ModuleMatrices head = add_product(sites_.front(), 2, 5);
  const Extraction got = extract({.rank = 2});
  ASSERT_EQ(got.adapter.modules.size(), 1U);
  EXPECT_EQ(got.adapter.modules.front().site.path, head.site.path);
  EXPECT_LT(got.errors.whole().relative(), 1e-5);
  sites_ = select_sites(config, {"embed_tokens"}, 0);
  EXPECT_THAT(test::error_of([&] { (void)extract({.rank = 2}); }),
              testing::HasSubstr("model.embed_tokens is not a linear layer"));
}

TEST_F(Extracting, RefusesModelsOfDifferentSizes) {
  ModelConfig config = test::tiny_config("Llama");
  config.vocabulary += 8;
  test::write_tiny_model(folder_ / "other", config);
  CLORA_EXPECT_ERROR(extract_adapter(WeightFiles::open(folder_ / "base"),
                                     WeightFiles::open(folder_ / "other"), sites_, {}, {}),
                     ErrorCode::invalid_argument, "use models of one architecture and size");
}

}  // namespace
}  // namespace clora
