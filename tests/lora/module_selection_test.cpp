// ModuleSelection (lora/module_selection.hpp): PEFT's rules, case by case. The expected values were
// computed by PEFT 0.21.2's check_target_module_exists() and get_pattern_key().
#include "lora/module_selection.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/test_files.hpp"

namespace clora {
namespace {

std::vector<AdapterSite> sites(std::int64_t layers) {
  std::vector<AdapterSite> all;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (const char* name : {"self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj"})
      all.push_back({fmt::format("model.layers.{}.{}", layer, name), 8, 8});
  return all;
}

// The selected sites of the first blocks, as "0q 1v ...".
std::string selected(const AdapterConfig& config, std::int64_t layers = 2) {
  ModuleSelection selection(config, "here");
  std::string text;
  for (const AdapterSite& site : sites(layers)) {
    if (!selection.selects(site.path)) continue;
    const std::string part = site.path.substr(site.path.rfind('.') + 1, 1);
    text += fmt::format("{}{} ", site.path.substr(13, site.path.find('.', 13) - 13), part);
  }
  return text;
}

TEST(ModuleSelection, TakesEndsOfPathsAfterADot) {
  EXPECT_EQ(selected({.target_modules = {"q_proj", "mlp.up_proj"}}), "0q 0u 1q 1u ");
  EXPECT_EQ(selected({.target_modules = {"proj"}}), "");
  EXPECT_EQ(selected({.target_modules = {"model.layers.1.self_attn.v_proj"}}), "1v ");
}

TEST(ModuleSelection, AcceptsARegexThatMatchesAFullPath) {
  const auto regex = [](const char* pattern) {
    return selected({.target_modules = {pattern}, .targets_are_regex = true});
  };
  EXPECT_EQ(regex(R"(.*\.1\..*_proj)"), "1q 1v 1u ");
  EXPECT_EQ(regex(R"(.*(q|v)_proj)"), "0q 0v 1q 1v ");
  EXPECT_EQ(regex("q_proj"), "");
  EXPECT_EQ(regex(R"(model\.layers)"), "");
}

TEST(ModuleSelection, OmitsExcludedModules) {
  EXPECT_EQ(selected({.target_modules = {"q_proj", "v_proj"}, .exclude_modules = {"v_proj"}}),
            "0q 1q ");
  EXPECT_EQ(selected({.target_modules = {"q_proj", "v_proj"},
                      .exclude_modules = {"model.layers.0.self_attn.q_proj"}}),
            "0v 1q 1v ");
  EXPECT_EQ(selected({.target_modules = {"q_proj", "v_proj"},
                      .exclude_modules = {R"(.*\.0\..*)"},
                      .excludes_are_regex = true}),
            "1q 1v ");
}

TEST(ModuleSelection, TakesOnlyTheBlocksOfLayersToTransform) {
  EXPECT_EQ(selected({.target_modules = {"q_proj"}, .layers_to_transform = {1}}), "1q ");
  EXPECT_EQ(selected({.target_modules = {"q_proj"}, .layers_to_transform = {1, 10}}, 12),
            "1q 10q ");
  EXPECT_EQ(selected({.target_modules = {"q_proj"},
                      .layers_to_transform = {0},
                      .layers_pattern = {"h", "layers"}}),
            "0q ");
  EXPECT_EQ(selected({.target_modules = {"q_proj"},
                      .layers_to_transform = {0},
                      .layers_pattern = {"lay[a-z]+"}}),
            "0q ");
  EXPECT_EQ(
      selected({.target_modules = {"q_proj"}, .layers_to_transform = {0}, .layers_pattern = {"h"}}),
      "");
  // A full path is selected in any block.
  EXPECT_EQ(selected({.target_modules = {"model.layers.1.self_attn.v_proj", "q_proj"},
                      .layers_to_transform = {0}}),
            "0q 1v ");
}

TEST(ModuleSelection, RefusesKeysThatContradictOneAnother) {
  const AdapterConfig regex{
      .target_modules = {".*q"}, .targets_are_regex = true, .layers_to_transform = {1}};
  CLORA_EXPECT_ERROR(ModuleSelection(regex, "here"), ErrorCode::invalid_file,
                     "layers_to_transform requires a list");
  const AdapterConfig pattern{.target_modules = {"q_proj"}, .layers_pattern = {"layers"}};
  CLORA_EXPECT_ERROR(ModuleSelection(pattern, "here"), ErrorCode::invalid_file,
                     "layers_pattern requires layers_to_transform");
}

std::int64_t rank_of(const ModulePatterns<std::int64_t>& patterns, std::string_view path) {
  const AdapterConfig config{.rank = 8, .rank_pattern = patterns};
  ModuleSelection selection(config, "here");
  return selection.rank(path);
}

TEST(ModuleSelection, GivesTheRankOfTheFirstPatternThatMatches) {
  constexpr std::string_view kQ0 = "model.layers.0.self_attn.q_proj";
  EXPECT_EQ(rank_of({{"v_proj", 2}}, kQ0), 8);
  EXPECT_EQ(rank_of({{"q_proj", 2}}, kQ0), 2);
  EXPECT_EQ(rank_of({{"self_attn.q_proj", 2}}, kQ0), 2);
  EXPECT_EQ(rank_of({{std::string(kQ0), 2}}, kQ0), 2);
  EXPECT_EQ(rank_of({{"^" + std::string(kQ0), 2}}, kQ0), 2);
  EXPECT_EQ(rank_of({{R"(layers\.0\..*)", 2}, {"q_proj", 3}}, kQ0), 2);
  EXPECT_EQ(rank_of({{"q_proj", 3}, {R"(layers\.0\..*)", 2}}, kQ0), 3);
  EXPECT_EQ(rank_of({{"q_proj|v_proj", 2}}, kQ0), 2);
  EXPECT_EQ(rank_of({{"[qk]_proj", 2}}, kQ0), 2);
  EXPECT_EQ(rank_of({{"proj", 2}}, kQ0), 8);
  EXPECT_EQ(rank_of({{"self_attn", 2}}, kQ0), 8);
  EXPECT_EQ(rank_of({{".*", 2}}, kQ0), 2);
  EXPECT_EQ(rank_of({{"^q_proj", 2}}, kQ0), 8);
}

TEST(ModuleSelection, NamesAnInvalidPattern) {
  const AdapterConfig config{.alpha_pattern = {{"q_proj)", 1}}};
  CLORA_EXPECT_ERROR(ModuleSelection(config, "file"), ErrorCode::invalid_file,
                     "file: the key 'q_proj)' of alpha_pattern: '(.*\\.)?(q_proj))$' is not a "
                     "valid regular expression");
}

std::vector<AdapterSite> some_of(const std::vector<AdapterSite>& all, std::size_t begin,
                                 std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

TEST(SelectExactly, NamesLastPartsThenLayersThenFullPaths) {
  const std::vector<AdapterSite> all = sites(3);
  AdapterConfig config{.target_modules = {"all-linear"}};
  select_exactly(config, all, all);
  EXPECT_EQ(config.target_modules, (std::vector<std::string>{"q_proj", "v_proj", "up_proj"}));
  EXPECT_TRUE(config.layers_to_transform.empty());

  select_exactly(config, some_of(all, 3, 9), all);
  EXPECT_EQ(config.target_modules, (std::vector<std::string>{"q_proj", "v_proj", "up_proj"}));
  EXPECT_EQ(config.layers_to_transform, (std::vector<std::int64_t>{1, 2}));

  select_exactly(config, some_of(all, 2, 4), all);  // up of block 0 and q of block 1
  EXPECT_EQ(config.target_modules, (std::vector<std::string>{all[2].path, all[3].path}));
  EXPECT_TRUE(config.layers_to_transform.empty());
}

}  // namespace
}  // namespace clora
