// Arithmetic on adapters without a device: combinations against PEFT's values
// (tests/reference/adapter_combinations.py), compression, comparison and their files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "clora/lora/adapter_errors.hpp"
#include "clora/lora/adapter_matrices.hpp"
#include "clora/lora/combination.hpp"
#include "clora/lora/compression.hpp"
#include "clora/lora/conversion.hpp"
#include "clora/lora/peft_files.hpp"
#include "clora/lora/safetensors.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

using Matrix = std::vector<double>;

const AdapterSite kQuery{"model.layers.0.self_attn.q_proj", 24, 40};
const AdapterSite kDown{"model.layers.1.mlp.down_proj", 30, 24};

ModuleMatrices random_module(const AdapterSite& site, std::int64_t rank, std::uint32_t seed,
                             double scale = 1) {
  std::mt19937 generator(seed);
  const auto values = [&](std::int64_t count) {
    std::vector<double> all(static_cast<std::size_t>(count));
    for (double& value : all) value = static_cast<double>(generator()) * 0x1p-31 - 1;
    return all;
  };
  return {.site = site,
          .rank = rank,
          .scale = scale,
          .a = values(rank * site.inputs),
          .b = values(site.outputs * rank)};
}

AdapterMatrices random_adapter(std::uint32_t seed, std::int64_t rank = 4, double scale = 1.5) {
  return {.config = {.rank = rank,
                     .alpha = scale * static_cast<double>(rank),
                     .target_modules = {"q_proj", "down_proj"}},
          .modules = {random_module(kQuery, rank, seed, scale),
                      random_module(kDown, rank, seed + 1, scale)}};
}

// scale * b a, by its definition.
Matrix product_of(const ModuleMatrices* module, double weight = 1) {
  if (module == nullptr) return {};
  const auto k = static_cast<std::size_t>(module->site.inputs);
  const auto rank = static_cast<std::size_t>(module->rank);
  Matrix product(static_cast<std::size_t>(module->site.outputs) * k);
  for (std::size_t i = 0; i < product.size(); ++i) {
    for (std::size_t r = 0; r < rank; ++r) {
      product[i] += weight * module->scale * module->b[i / k * rank + r] * module->a[r * k + i % k];
    }
  }
  return product;
}

double norm_of(const Matrix& matrix) {
  double sum = 0;
  for (const double value : matrix) sum += value * value;
  return std::sqrt(sum);
}

Matrix plus(Matrix one, const Matrix& other, double weight = 1) {
  for (std::size_t i = 0; i < one.size(); ++i) one[i] += weight * other[i];
  return one;
}

void expect_near(const Matrix& got, const Matrix& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  EXPECT_LE(norm_of(plus(got, wanted, -1)), tolerance * norm_of(wanted));
}

// A module whose product has these singular values.
ModuleMatrices with_singular_values(const AdapterSite& site, const std::vector<double>& values) {
  const auto rank = values.size(), k = static_cast<std::size_t>(site.inputs);
  ModuleMatrices module{.site = site, .rank = static_cast<std::int64_t>(rank), .a = {}, .b = {}};
  module.a.resize(rank * k);
  module.b.resize(static_cast<std::size_t>(site.outputs) * rank);
  for (std::size_t r = 0; r < rank; ++r) {
    module.a[r * k + 2 * r] = 1;
    module.b[(3 * r + 1) * rank + r] = values[r];
  }
  return module;
}

AdapterMatrices adapter_of(std::vector<ModuleMatrices> modules) {
  return make_adapter_matrices(std::move(modules), AdapterConfig{});
}

// The values of PEFT.

Matrix flat(const json& rows) {
  Matrix values;
  for (const json& row : rows) values.insert(values.end(), row.begin(), row.end());
  return values;
}

AdapterMatrices peft_adapter(const json& described) {
  AdapterMatrices adapter;
  for (const auto& [name, module] : described.items()) {
    const auto& a = module.at("a");
    adapter.modules.push_back({.site = {name, static_cast<std::int64_t>(a.at(0).size()),
                                        static_cast<std::int64_t>(module.at("b").size())},
                               .rank = module.at("rank").get<std::int64_t>(),
                               .scale = module.at("scale").get<double>(),
                               .a = flat(a),
                               .b = flat(module.at("b"))});
  }
  return adapter;
}

CombinationConfig config_of(const json& described, std::uint64_t seed) {
  const auto type = combination_type(described.at("combination_type").get<std::string>());
  const bool by_frequency = described.value("majority_sign_method", "total") == "frequency";
  return {.type = type.value(),
          .rank = described.value("svd_rank", std::int64_t{0}),
          .density = described.value("density", 1.0),
          .majority_sign = by_frequency ? MajoritySign::frequency : MajoritySign::total,
          .seed = seed};
}

TEST(Combining, GivesTheProductsOfPeftForEveryType) {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "CLORA_SOURCE_DIR is not set; run by ctest";
  const std::filesystem::path name = "tests/reference/adapter_combinations.json";
  const json file = json::parse(test::read_file(source / name));
  std::map<std::string, AdapterMatrices> adapters;
  for (const auto& [key, described] : file.at("adapters").items()) {
    adapters[key] = peft_adapter(described);
  }
  std::set<CombinationType> types;
  for (const json& each : file.at("cases")) {
    SCOPED_TRACE(each.at("combination_type").dump() + each.at("weights").dump());
    std::vector<WeightedAdapter> weighted;
    for (std::size_t i = 0; i < each.at("adapters").size(); ++i) {
      weighted.push_back({&adapters.at(each["adapters"][i]), each["weights"][i].get<double>()});
    }
    const CombinationConfig config = config_of(each, file.at("seed").get<std::uint64_t>());
    const AdapterMatrices result = combine(weighted, config);
    types.insert(config.type);
    ASSERT_EQ(result.modules.size(), each.at("products").size());
    for (const ModuleMatrices& module : result.modules) {
      EXPECT_EQ(module.scale, 1);
      expect_near(product_of(&module), flat(each["products"].at(module.site.path)), 3e-7);
    }
  }
  EXPECT_EQ(types.size(), combination_types().size());
}

TEST(Combining, ByCatIsTheExactSumOfAnyAdapters) {
  AdapterMatrices one = random_adapter(1), other = random_adapter(5, 7, 0.3);
  other.modules.pop_back();
  other.modules.front().scale = 2;
  const WeightedAdapter both[] = {{&one, 0.25}, {&other, -3}};
  const AdapterMatrices sum = combine(both, {.type = CombinationType::cat});
  ASSERT_EQ(sum.modules.size(), 2U);
  EXPECT_EQ(sum.find(kQuery.path)->rank, 11);
  EXPECT_EQ(sum.find(kDown.path)->rank, 4);
  expect_near(
      product_of(sum.find(kQuery.path)),
      plus(product_of(one.find(kQuery.path), 0.25), product_of(other.find(kQuery.path)), -3),
      1e-15);
  expect_near(product_of(sum.find(kDown.path)), product_of(one.find(kDown.path), 0.25), 1e-15);
  EXPECT_LT(errors_of(sum, both).whole().relative(), 1e-15);
}

TEST(Combining, BySvdOfAllRanksIsTheSumAndOfFewerItsBestApproximation) {
  const AdapterMatrices one = random_adapter(1), other = random_adapter(5);
  const WeightedAdapter both[] = {{&one, 2}, {&other, 1}};
  EXPECT_LT(
      errors_of(combine(both, {.type = CombinationType::svd, .rank = 8}), both).worst().relative(),
      1e-14);
  const AdapterMatrices big = adapter_of({with_singular_values(kQuery, {5, 3, 1})});
  const WeightedAdapter only[] = {{&big, 1}};
  const AdapterErrors errors =
      errors_of(combine(only, {.type = CombinationType::svd, .rank = 2}), only);
  EXPECT_NEAR(errors.whole().error, 1, 1e-14);
  EXPECT_NEAR(errors.whole().kept_energy(), 34.0 / 35, 1e-14);
}

// The types that decompose a dense matrix of this size use the randomised SVD.
TEST(Combining, OfLargeProductsFindsTheSameLeadingPart) {
  const AdapterSite site{"q_proj", 310, 270};
  const AdapterMatrices one = adapter_of({random_module(site, 5, 1)}),
                        other = adapter_of({random_module(site, 6, 2)});
  const WeightedAdapter both[] = {{&one, 1}, {&other, 0.4}};
  const AdapterMatrices exact = combine(both, {.type = CombinationType::svd, .rank = 7});
  const AdapterMatrices dense =
      combine(both, {.type = CombinationType::magnitude_prune_svd, .rank = 7, .density = 1});
  EXPECT_EQ(dense.modules.front().rank, 7);
  expect_near(product_of(&dense.modules.front()), product_of(&exact.modules.front()), 1e-9);
}

// Without power iterations it loses a third of the best one's energy.
TEST(Combining, OfLargeProductsOfHighRankIsNearlyTheBestApproximation) {
  const AdapterMatrices adapter = adapter_of({random_module({"q_proj", 310, 270}, 200, 1)});
  const WeightedAdapter only[] = {{&adapter, 1}};
  const auto kept = [&](CombinationType type) {
    return errors_of(combine(only, {.type = type, .rank = 7}), only).whole().kept_energy();
  };
  const double best = kept(CombinationType::svd);
  EXPECT_LT(best, 0.5);
  EXPECT_GT(kept(CombinationType::magnitude_prune_svd), 0.98 * best);
  EXPECT_LE(kept(CombinationType::magnitude_prune_svd), best + 1e-12);
}

TEST(Combining, DropsTheSameValuesForTheSameSeedOnly) {
  const AdapterMatrices one = random_adapter(1), other = random_adapter(5);
  const WeightedAdapter both[] = {{&one, 1}, {&other, 1}};
  const auto values = [&](std::uint64_t seed) {
    return combine(both, {.type = CombinationType::dare_linear, .density = 0.5, .seed = seed})
        .modules.front()
        .a;
  };
  EXPECT_EQ(values(3), values(3));
  EXPECT_NE(values(3), values(4));
}

TEST(Combining, OfUnequalRanksIsRefusedByTypesThatWorkOnTheMatrices) {
  const AdapterMatrices one = random_adapter(1, 4), other = random_adapter(5, 3);
  const WeightedAdapter both[] = {{&one, 1}, {&other, 1}};
  for (const CombinationFacts& facts : combination_types()) {
    const CombinationConfig config{.type = facts.type, .density = 0.5};
    if (facts.needs_equal_ranks) {
      CLORA_EXPECT_ERROR(combine(both, config), ErrorCode::invalid_argument,
                         "has rank 4 in one adapter and 3 in another; use 'cat' or 'svd'");
    } else {
      EXPECT_EQ(combine(both, config).modules.size(), 2U) << facts.name;
    }
  }
}

TEST(Combining, RefusesWhatHasNoMeaning) {
  const AdapterMatrices one = random_adapter(1);
  AdapterMatrices other = adapter_of({random_module({kQuery.path, 24, 48}, 4, 1)});
  const WeightedAdapter shapes[] = {{&one, 1}, {&other, 1}}, zero[] = {{&one, 0}},
                        fine[] = {{&one, 1}};
  CLORA_EXPECT_ERROR(combine(shapes, {}), ErrorCode::invalid_argument,
                     "q_proj is [40, 24] in one adapter and [48, 24] in another");
  CLORA_EXPECT_ERROR(errors_of(one, shapes), ErrorCode::invalid_argument, "[48, 24] in another");
  CLORA_EXPECT_ERROR(combine(zero, {}), ErrorCode::invalid_argument, "other than 0");
  CLORA_EXPECT_ERROR(combine({}, {}), ErrorCode::invalid_argument, "at least one adapter");
  CLORA_EXPECT_ERROR(combine(fine, {.density = 0}), ErrorCode::invalid_argument, "density");
  CLORA_EXPECT_ERROR(combine(fine, {.rank = -1}), ErrorCode::invalid_argument, "rank");
  other.config.task_type = kFeatureExtraction;
  other.modules = {random_module(kDown, 4, 1)};
  CLORA_EXPECT_ERROR(combine(shapes, {}), ErrorCode::invalid_argument, "task_type");
}

TEST(Subtracting, UndoesAdding) {
  const AdapterMatrices one = random_adapter(1, 3), other = random_adapter(5, 6);
  const WeightedAdapter both[] = {{&one, 1}, {&other, 0.7}};
  const AdapterMatrices sum = combine(both, {});
  const WeightedAdapter back[] = {{&sum, 1}, {&other, -0.7}};
  const AdapterMatrices again = resize_adapter(combine(back, {}), {.rank = 3});
  const WeightedAdapter wanted[] = {{&one, 1}};
  EXPECT_EQ(again.config.rank, 3);
  EXPECT_LT(errors_of(again, wanted).worst().relative(), 1e-14);
}

TEST(Resizing, ToItsOwnRankKeepsTheMatricesAndAHigherRankIsNotMadeUp) {
  const AdapterMatrices adapter = random_adapter(1);
  const AdapterMatrices same = resize_adapter(adapter, {.rank = 9});
  EXPECT_EQ(same.modules.front().b, adapter.modules.front().b);
  EXPECT_EQ(same.modules.front().rank, 4);
  const WeightedAdapter wanted[] = {{&adapter, 1}};
  EXPECT_LT(errors_of(same, wanted).whole().relative(), 1e-15);
}

TEST(Resizing, ByEnergyChoosesTheLeastRankOfEachModule) {
  const AdapterMatrices adapter = adapter_of(
      {with_singular_values(kQuery, {5, 3, 1}), with_singular_values(kDown, {1, 1, 1, 1})});
  const auto ranks = [&](const ResizeConfig& config) {
    std::vector<std::int64_t> all;
    for (const auto& module : resize_adapter(adapter, config).modules) all.push_back(module.rank);
    return all;
  };
  EXPECT_THAT(ranks({.energy = 0.97}), ElementsAre(2, 4));
  EXPECT_THAT(ranks({.energy = 0.98}), ElementsAre(3, 4));
  EXPECT_THAT(ranks({.energy = 0.5}), ElementsAre(1, 2));
  EXPECT_THAT(ranks({.rank = 2, .energy = 0.98}), ElementsAre(2, 2));
  CLORA_EXPECT_ERROR(ranks({.energy = 0}), ErrorCode::invalid_argument, "energy");
  CLORA_EXPECT_ERROR(ranks({.rank = 0}), ErrorCode::invalid_argument, "rank");
}

TEST(Resizing, OfAModuleThatChangesNothingKeepsRankOne) {
  ModuleMatrices untrained = random_module(kQuery, 4, 1);
  std::ranges::fill(untrained.b, 0);
  const AdapterMatrices adapter = adapter_of({untrained});
  const AdapterMatrices small = resize_adapter(adapter, {.energy = 0.9});
  const WeightedAdapter wanted[] = {{&adapter, 1}};
  EXPECT_EQ(small.modules.front().rank, 1);
  EXPECT_EQ(errors_of(small, wanted).whole().relative(), 0);
}

TEST(Pruning, DropsModulesAndSingularValuesBelowTheirShares) {
  const AdapterMatrices adapter = adapter_of(
      {with_singular_values(kQuery, {5, 3, 1}), with_singular_values(kDown, {0.1, 0.1})});
  const AdapterMatrices one = prune_adapter(adapter, {.module_share = 0.01});
  ASSERT_EQ(one.modules.size(), 1U);
  EXPECT_EQ(one.modules.front().rank, 3);
  const AdapterMatrices ranks = prune_adapter(adapter, {.rank_share = 0.1});
  EXPECT_EQ(ranks.find(kQuery.path)->rank, 2);
  EXPECT_EQ(ranks.find(kDown.path)->rank, 2);
  const WeightedAdapter wanted[] = {{&adapter, 1}};
  const AdapterErrors errors = errors_of(one, wanted);
  EXPECT_EQ(errors.worst().path, kDown.path);
  EXPECT_EQ(errors.worst().rank, 0);
  EXPECT_NEAR(errors.worst().relative(), 1, 1e-15);
  EXPECT_NEAR(errors.whole().error, std::sqrt(0.02), 1e-15);
  CLORA_EXPECT_ERROR(prune_adapter(one, {.module_share = 1}), ErrorCode::invalid_argument, "share");
}

TEST(Comparing, GivesNormsDifferencesAndCosinesOfTheProducts) {
  const AdapterMatrices one = random_adapter(1), other = random_adapter(5, 3);
  const std::vector<ModuleComparison> modules = compare_adapters(one, other);
  ASSERT_EQ(modules.size(), 2U);
  const Matrix left = product_of(one.find(kQuery.path)),
               right = product_of(other.find(kQuery.path));
  double inner = 0;
  for (std::size_t i = 0; i < left.size(); ++i) inner += left[i] * right[i];
  EXPECT_EQ(modules[0].path, kQuery.path);
  EXPECT_EQ(modules[0].other_rank, 3);
  EXPECT_NEAR(modules[0].norm, norm_of(left), 1e-13 * norm_of(left));
  EXPECT_NEAR(modules[0].difference, norm_of(plus(left, right, -1)), 1e-12);
  EXPECT_NEAR(modules[0].cosine(), inner / (norm_of(left) * norm_of(right)), 1e-13);
  EXPECT_NEAR(compare_adapters(one, one)[1].cosine(), 1, 1e-14);
  EXPECT_LT(compare_adapters(one, one)[1].difference, 1e-13);
  const ModuleComparison whole = sum_of(modules);
  EXPECT_NEAR(whole.norm, std::hypot(modules[0].norm, modules[1].norm), 1e-13);
  EXPECT_EQ(whole.rank, 4);
}

class AdapterMatricesFiles : public testing::Test {
 protected:
  Adapter loaded(const std::vector<AdapterSite>& sites) {
    return load_adapter(test::context_of(Variant::portable), folder_.path(), sites);
  }
  json config() { return json::parse(test::read_file(folder_ / "adapter_config.json")); }
  TemporaryFolder folder_;
};

TEST_F(AdapterMatricesFiles, ReadBackGiveTheSameValuesInEveryType) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    AdapterMatrices adapter = random_adapter(1);
    round_to(adapter, type);
    write_adapter_matrices(adapter, folder_.path(), type);
    const AdapterMatrices read = read_adapter_matrices(folder_.path());
    ASSERT_EQ(read.modules.size(), 2U);
    EXPECT_EQ(read.modules[0].a, adapter.modules[0].a);
    EXPECT_EQ(read.modules[1].b, adapter.modules[1].b);
    EXPECT_EQ(read.modules[1].scale, 1.5);
    const auto file = SafetensorsFile::open(folder_ / "adapter_model.safetensors");
    EXPECT_EQ(file.entries().front().type, type);
  }
}

TEST_F(AdapterMatricesFiles, RoundingHasTheErrorOfTheType) {
  const AdapterMatrices adapter = random_adapter(1);
  const WeightedAdapter wanted[] = {{&adapter, 1}};
  const auto error_in = [&](DType type) {
    AdapterMatrices rounded = adapter;
    round_to(rounded, type);
    return errors_of(rounded, wanted).whole().relative();
  };
  EXPECT_GT(error_in(DType::f32), 1e-9);
  EXPECT_LT(error_in(DType::f32), 1e-7);
  EXPECT_LT(error_in(DType::f16), 0x1p-11);
  EXPECT_GT(error_in(DType::bf16), 0x1p-11);
  EXPECT_LT(error_in(DType::bf16), 0x1p-8);
}

TEST_F(AdapterMatricesFiles, RefuseTypesAndValuesThatPeftCannotRead) {
  AdapterMatrices adapter = random_adapter(1);
  CLORA_EXPECT_ERROR((write_adapter_matrices(adapter, folder_.path(), DType::q8_0), 0),
                     ErrorCode::invalid_argument, "q8_0");
  adapter.modules[1].b[7] = 1e5;
  write_adapter_matrices(adapter, folder_.path(), DType::bf16);
  CLORA_EXPECT_ERROR((write_adapter_matrices(adapter, folder_.path(), DType::f16), 0),
                     ErrorCode::invalid_data, "down_proj.lora_B.weight");
}

TEST_F(AdapterMatricesFiles, HoldRanksOfEachModuleExactlyAlsoOfRsLora) {
  AdapterMatrices one = random_adapter(1);
  one.config.rank_stabilised = true;
  one.config.alpha = 3;
  for (ModuleMatrices& module : one.modules) module.scale = 3 / std::sqrt(4.0);
  write_adapter_matrices(one, folder_.path());
  const AdapterMatrices read = read_adapter_matrices(folder_.path());
  EXPECT_EQ(read.modules[0].scale, 1.5);
  const AdapterMatrices other = adapter_of({random_module(kQuery, 5, 9)});
  const WeightedAdapter both[] = {{&read, 1}, {&other, 1}};
  AdapterMatrices sum = combine(both, {});
  round_to(sum, DType::f32);
  write_adapter_matrices(sum, folder_.path());
  EXPECT_EQ(config().at("use_rslora"), false);
  EXPECT_EQ(config().at("rank_pattern"), (json{{kQuery.path, 9}}));
  const AdapterMatrices again = read_adapter_matrices(folder_.path());
  EXPECT_EQ(again.find(kQuery.path)->rank, 9);
  EXPECT_EQ(again.find(kQuery.path)->scale, 1);
  EXPECT_EQ(again.find(kQuery.path)->a, sum.find(kQuery.path)->a);
  EXPECT_EQ(loaded({kQuery, kDown}).modules()[0].scale, 1);
}

// By "q_proj", which is exact for the layers that are left, the last layer of the base model would
// be selected too, and have no matrices.
TEST_F(AdapterMatricesFiles, SelectNoDroppedModuleOfTheBaseModel) {
  const AdapterSite last{"model.layers.1.self_attn.q_proj", 24, 40};
  AdapterMatrices adapter{
      .config = {.rank = 1, .alpha = 1, .target_modules = {"q_proj"}},
      .modules = {with_singular_values(kQuery, {1}), with_singular_values(last, {1e-3})}};
  write_adapter_matrices(prune_adapter(adapter, {.module_share = 0.01}), folder_.path());
  EXPECT_EQ(loaded({kQuery, last}).modules().size(), 1U);
}

TEST_F(AdapterMatricesFiles, KeepTheSelectionOfAdaptersThatHaveTheSameModules) {
  const AdapterMatrices one = random_adapter(1);
  AdapterMatrices query = one, down = one;
  query.modules.pop_back();
  query.config.target_modules = {"q_proj"};
  down.modules.erase(down.modules.begin());
  down.config.target_modules = {"down_proj"};
  const auto targets = [](const AdapterMatrices& left, const AdapterMatrices& right) {
    const WeightedAdapter both[] = {{&left, 1}, {&right, 1}};
    return combine(both, {}).config.target_modules;
  };
  EXPECT_THAT(targets(query, one), ElementsAre("q_proj", "down_proj"));
  EXPECT_THAT(targets(query, down), ElementsAre("q_proj", "down_proj"));
  query.config.layers_to_transform = {0};
  EXPECT_THAT(targets(query, down), ElementsAre(kQuery.path, kDown.path));
}

TEST_F(AdapterMatricesFiles, ThatAreDamagedNameTheTensor) {
  const AdapterMatrices adapter = random_adapter(1);
  write_adapter_matrices(adapter, folder_.path());
  const auto rewritten = [&](const std::string& from, const std::string& to) {
    std::string text = test::read_file(folder_ / "adapter_config.json");
    text.replace(text.find(from), from.size(), to);
    test::write_file(folder_ / "adapter_config.json", text);
  };
  rewritten("\"r\": 4", "\"r\": 5");
  CLORA_EXPECT_ERROR(read_adapter_matrices(folder_.path()), ErrorCode::invalid_file,
                     "must have the rank 5");
  rewritten("\"r\": 5", "\"r\": 4");
  rewritten("self_attn.q_proj\"", "self_attn.k_proj\"");
  CLORA_EXPECT_ERROR(read_adapter_matrices(folder_.path()), ErrorCode::invalid_file,
                     "does not select model.layers.0.self_attn.q_proj");
  rewritten("self_attn.k_proj\"", "self_attn.q_proj\"");
  rewritten("\"use_dora\": false", "\"use_dora\": true");
  CLORA_EXPECT_ERROR(read_adapter_matrices(folder_.path()), ErrorCode::unsupported, "DoRA");
  rewritten("\"use_dora\": true", "\"use_dora\": false");
  const std::vector<float> values(4);
  const auto bytes = std::as_bytes(std::span(values));
  write_safetensors(
      folder_ / "adapter_model.safetensors",
      std::vector<StoredTensor>{{"base_model.model.lm_head.weight", DType::f32, {2, 2}, bytes}});
  CLORA_EXPECT_ERROR(read_adapter_matrices(folder_.path()), ErrorCode::unsupported,
                     "lm_head.weight");
  write_safetensors(
      folder_ / "adapter_model.safetensors",
      std::vector<StoredTensor>{
          {"base_model.model." + kQuery.path + ".lora_A.weight", DType::f32, {4, 1}, bytes}});
  CLORA_EXPECT_ERROR(read_adapter_matrices(folder_.path()), ErrorCode::invalid_file,
                     "lora_B.weight' is missing");
  CLORA_EXPECT_ERROR(read_adapter_matrices(folder_ / "none"), ErrorCode::not_found,
                     "adapter_config.json");
}

// Files of an adapter before and after a training that began with changed base weights.
class Conversion : public AdapterMatricesFiles {
 protected:
  void SetUp() override {
    write(trained_, "trained", "pissa_niter_4");
    write(initial_, "initial", "pissa_niter_4");
  }
  void write(const AdapterMatrices& adapter, const std::string& name, const json& start) {
    write_adapter_matrices(adapter, folder_ / name);
    set(name, "init_lora_weights", start);
  }
  void set(const std::string& name, const std::string& key, const json& value) {
    const std::filesystem::path path = folder_ / name / "adapter_config.json";
    json config = json::parse(test::read_file(path));
    config[key] = value;
    test::write_file(path, config.dump());
  }
  AdapterMatrices converted() {
    return converted_adapter(folder_ / "trained", folder_ / "initial");
  }

  AdapterMatrices trained_ = random_adapter(1), initial_ = random_adapter(2);
};

TEST_F(Conversion, IsTheDifferenceOfBothProductsWithTwiceTheRank) {
  for (const json& of_initial : {json("pissa_niter_4"), json(true), json(nullptr)}) {
    set("initial", "init_lora_weights", of_initial);
    const AdapterMatrices plain = converted();
    const WeightedAdapter wanted[] = {{&trained_, 1}, {&initial_, -1}};
    EXPECT_LT(errors_of(plain, wanted).whole().relative(), 1e-6);
    EXPECT_EQ(plain.modules.front().rank, 2 * trained_.modules.front().rank);
    write_adapter_matrices(plain, folder_ / "plain");
    EXPECT_EQ(read_adapter_matrices(folder_ / "plain").modules.size(), trained_.modules.size());
  }
}

TEST_F(Conversion, IsForEveryStartThatSubtractsTheFirstProductFromTheBaseModel) {
  for (const char* start : {"pissa", "pissa_niter_16", "olora", "corda", "lora_ga"}) {
    set("trained", "init_lora_weights", start);
    EXPECT_EQ(converted().modules.size(), trained_.modules.size()) << start;
    CLORA_EXPECT_ERROR(read_adapter_matrices(folder_ / "trained"), ErrorCode::unsupported,
                       "clora adapters convert");
  }
  for (const json& start : {json("loftq"), json("mica"), json("gaussian"), json(true)}) {
    set("trained", "init_lora_weights", start);
    CLORA_EXPECT_ERROR(converted(), ErrorCode::unsupported, "init_lora_weights");
  }
}

TEST_F(Conversion, RefusesAdaptersOfDifferentTrainings) {
  set("initial", "lora_alpha", 77);
  CLORA_EXPECT_ERROR(converted(), ErrorCode::invalid_argument, "the same rank and scale");
  AdapterMatrices fewer = initial_;
  fewer.modules.pop_back();
  write(fewer, "initial", true);
  CLORA_EXPECT_ERROR(converted(), ErrorCode::invalid_argument, "has no matrices of");
  write(initial_, "initial", true);
  write(fewer, "trained", "olora");
  CLORA_EXPECT_ERROR(converted(), ErrorCode::invalid_argument, "has no matrices of");
}

}  // namespace
}  // namespace clora
