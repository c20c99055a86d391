// Models that are split by layers: which blocks and weights a stage holds, and its passes.
#include "clora/model/weights/block_split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/model/transformer/language_model.hpp"
#include "model/transformer/recorded_model.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using testing::ElementsAre;

using Bytes = std::vector<std::size_t>;
using Shares = std::vector<std::int64_t>;

TEST(BlockSplit, MakesTheLargestStageAsSmallAsPossible) {
  EXPECT_THAT(split_blocks(Bytes{1, 1, 1, 1}, Shares{1, 1}),
              ElementsAre(BlockRange{0, 2}, BlockRange{2, 4}));
  // The last block also has the head.
  EXPECT_THAT(split_blocks(Bytes{1, 1, 1, 1, 4}, Shares{1, 1}),
              ElementsAre(BlockRange{0, 4}, BlockRange{4, 5}));
  EXPECT_THAT(split_blocks(Bytes{5, 1, 1, 1, 1, 5}, Shares{1, 1, 1}),
              ElementsAre(BlockRange{0, 1}, BlockRange{1, 5}, BlockRange{5, 6}));
}

TEST(BlockSplit, FollowsTheShares) {
  EXPECT_THAT(split_blocks(Bytes{1, 1, 1, 1}, Shares{3, 1}),
              ElementsAre(BlockRange{0, 3}, BlockRange{3, 4}));
  EXPECT_THAT(split_blocks(Bytes{1, 1, 1, 1}, Shares{1, 9}),  // each has a block
              ElementsAre(BlockRange{0, 1}, BlockRange{1, 4}));
  EXPECT_THAT(split_blocks(Bytes{7, 7}, Shares{1}), ElementsAre(BlockRange{0, 2}));
}

TEST(BlockSplit, RefusesMoreStagesThanBlocks) {
  CLORA_EXPECT_ERROR(split_blocks(Bytes{1, 1}, Shares{1, 1, 1}), ErrorCode::invalid_argument,
                     "its 2 blocks cannot be split over 3 devices");
  CLORA_EXPECT_ERROR(split_blocks(Bytes{1, 1}, Shares{1, 0}), ErrorCode::invalid_argument,
                     "must be above 0");
}

class ModelStages : public testing::Test {
 protected:
  // Returns the files of a tiny model of three blocks.
  WeightFiles write(std::string_view name) {
    ModelConfig config = test::tiny_config(name);
    config.layers = 3;
    test::write_tiny_model(folder_ / name, config);
    return WeightFiles::open(folder_ / name);
  }

  test::TemporaryFolder folder_;
  Context context_{config_from_environment()};
};

TEST_F(ModelStages, HoldEachWeightOnceButTiedEmbeddings) {
  for (const char* name : {"Llama", "Qwen2"}) {
    const WeightFiles files = write(name);
    const LanguageModel whole(context_, files);
    std::size_t bytes = 0, blocks = 0;
    for (const BlockRange& range : {BlockRange{0, 1}, BlockRange{1, 2}, BlockRange{2, 3}}) {
      const LanguageModel stage(context_, files, {.blocks = range});
      EXPECT_EQ(stage.is_first(), range.begin == 0);
      EXPECT_EQ(stage.is_last(), range.end == 3);
      EXPECT_EQ(stage.embeddings().empty(), !stage.is_first());
      EXPECT_EQ(stage.final_norm().empty(), !stage.is_last());
      bytes += stage.weight_bytes();
      blocks += stage.blocks().size();
    }
    EXPECT_EQ(blocks, whole.blocks().size());
    const bool tied = whole.config().tied_head;
    EXPECT_EQ(bytes, whole.weight_bytes() + (tied ? whole.embeddings().bytes() : 0)) << name;
  }
}

TEST_F(ModelStages, NumberTheirLinearLayersAsTheWholeModel) {
  for (const char* name : {"Llama", "Phi3", "Qwen3Moe", "Lfm2", "Qwen3_5"}) {
    ModelConfig config = test::tiny_config(name);
    test::write_tiny_model(folder_ / name, config);
    const WeightFiles files = WeightFiles::open(folder_ / name);
    const LanguageModel whole(context_, files),
        stage(context_, files, {.blocks = BlockRange{1, 2}});
    std::size_t found = 0;
    for (const AdapterSite& site : adapter_sites(config)) {
      const LinearLayer* linear = stage.find_linear(site.path);
      if (linear == nullptr) continue;
      ++found;
      EXPECT_EQ(linear->number, whole.linear(site.path).number) << site.path;
    }
    EXPECT_GE(found, 3U) << name;
  }
}

TEST_F(ModelStages, RefuseWhatAnotherStageHolds) {
  const WeightFiles files = write("Llama");
  const LanguageModel stage(context_, files, {.blocks = BlockRange{0, 2}});
  CLORA_EXPECT_ERROR(stage.head(), ErrorCode::invalid_argument,
                     "not on the device of blocks [0, 2)");
  CLORA_EXPECT_ERROR(stage.linear("model.layers.2.mlp.up_proj"), ErrorCode::invalid_argument,
                     "in the blocks [0, 2) on this device");
  CLORA_EXPECT_ERROR(LanguageModel(context_, files, {.blocks = BlockRange{2, 4}}),
                     ErrorCode::invalid_argument, "got [2, 4)");
}

// The bytes of all blocks are those of the file, and the tied matrix counts twice.
TEST_F(ModelStages, AreDividedByTheBytesOfTheirWeights) {
  const WeightFiles files = write("Qwen2");
  const Bytes bytes = block_bytes(files);
  ASSERT_EQ(bytes.size(), 3U);
  std::size_t all = 0;
  for (const WeightView& view : files.all()) all += view.bytes.size();
  const std::size_t table = files.all().front().bytes.size();
  EXPECT_EQ(bytes[0] + bytes[1] + bytes[2], all + table);
  EXPECT_EQ(bytes[0], bytes[1] + table);
}

}  // namespace
}  // namespace clora
