// The tiling of products for Hopper's matrix units. gemm_test.cpp checks the results on devices
// that have them.
#include "ops/gemm/gemm_hopper.hpp"

#include <gtest/gtest.h>

#include <set>

#include "ops/gemm/gemm_wgmma_self_test.hpp"
#include "ops/lora_linear/lora_gradient_hopper.hpp"
#include "ops/tensor_overlap.hpp"
#include "ops/tuned/costs.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kUnits = 132;  // of an H200

WgmmaDevice h200() { return {kUnits, costs_for_other_devices<GemmWgmmaCosts>()}; }

TEST(WgmmaTiles, TheWidthIsTheOneThatLeavesLeastOfTheGpuIdle) {
  const auto width = [](std::uint32_t rows, std::uint32_t columns, std::uint32_t shrink = 0) {
    return wgmma_tiles(h200(), {rows, {columns}, shrink}).width();
  };
  EXPECT_EQ(width(8192, 896), 224U);       // four columns of tiles, two waves
  EXPECT_EQ(width(8192, 8192), 256U);      // wide tiles if there are many
  EXPECT_EQ(width(1024, 16), 64U);         // the narrowest for an adapter
  EXPECT_EQ(width(8192, 128), 128U);       // one column of tiles if that suffices
  EXPECT_EQ(width(8192, 896, 16), 240U);   // with a shrink fused next to w's columns
  EXPECT_EQ(width(8192, 8192, 64), 256U);  // the shrink does not widen the tile further
}

// Replies of many sequences: all waves of tiles are nearly full.
TEST(WgmmaTiles, OfFewRowsAreAsWideAsFillsTheirWaves) {
  const WgmmaTiles tiles =
      wgmma_tiles(h200(), {.rows = 64, .columns = {18944, 18944}, .boxes = 56});
  EXPECT_EQ(tiles.columns, 160U);
  EXPECT_EQ(tiles.count, 238U);
  EXPECT_NE(wgmma_tiles(h200(), {.rows = 256, .columns = {18944, 18944}, .boxes = 56}).columns,
            160U);
  // Few columns of a short K: a tile of 64 rows has most of its boxes in flight at once.
  const WgmmaTiles narrow = wgmma_tiles(h200(), {.rows = 64, .columns = {896}, .boxes = 14});
  EXPECT_EQ(narrow.columns, 64U);
  EXPECT_EQ(narrow.slices, 1U);
  EXPECT_EQ(wgmma_tiles(h200(), {.rows = 512, .columns = {896}, .boxes = 14}).slices, 1U);
  const WgmmaSize with_shrink{.rows = 64, .columns = {896}, .boxes = 14, .awaits_s = true};
  EXPECT_EQ(wgmma_tiles(h200(), with_shrink).slices, 1U) << "they would wait for s";
}

TEST(WgmmaTiles, TheRingIsAsLongAsSharedMemoryAllows) {
  for (const std::uint32_t columns : {16U, 896U, 4096U, 8192U}) {
    for (const bool full_boxes : {false, true}) {
      for (const bool stages_y : {false, true}) {
        const WgmmaTiles tiles = wgmma_tiles(h200(), {8192, {columns}, 0, full_boxes, stages_y});
        const std::uint32_t held = full_boxes ? (tiles.columns + 63) / 64 * 64 : tiles.columns;
        const std::uint32_t stage = 128 * (128 + held);
        const std::uint32_t staged = stages_y ? 128 * 2 * (tiles.columns / 64 * 64) : 0;
        EXPECT_LE(tiles.stages * stage + staged, 227U << 10U);
        EXPECT_GT((tiles.stages + 1) * stage + staged, 226U << 10U);
        EXPECT_GE(tiles.stages, 3U);
      }
    }
  }
}

TEST(WgmmaTiles, ALongKOfFewTilesIsSplit) {
  const auto cut = [](std::uint32_t rows, std::uint32_t columns, std::uint32_t boxes,
                      std::uint32_t shrink = 0, bool backward = false) {
    return wgmma_tiles(h200(), {.rows = rows,
                                .columns = {columns},
                                .shrink = shrink,
                                .full_boxes = backward,
                                .boxes = boxes});
  };
  EXPECT_EQ(cut(1024, 896, 76).slices, 2U);  // 56 tiles fill less than half of the GPU
  EXPECT_EQ(cut(1024, 896, 76).columns, 128U);
  EXPECT_EQ(cut(1024, 896, 76, 16).slices, 2U);  // the same with a fused shrink
  EXPECT_EQ(cut(1024, 896, 152, 0, true).slices, 2U);
  EXPECT_EQ(cut(1024, 896, 14).slices, 1U);  // adding the slices takes longer than 14 boxes of K
  EXPECT_GT(cut(1024, 16, 76).slices, 4U);   // 8 tiles
  for (const std::uint32_t rows : {2048U, 4096U, 8192U}) {
    EXPECT_EQ(cut(rows, 896, 76).slices, 1U) << rows;  // enough tiles to fill the GPU
    EXPECT_EQ(cut(rows, 3584, 296).slices, 1U) << rows;
  }
}

TEST(WgmmaTiles, SlicesHaveStepsAndAllRunAtOnce) {
  for (const std::uint32_t rows : {1U, 131U, 1024U, 4096U}) {
    for (const std::uint32_t columns : {16U, 200U, 896U, 4864U}) {
      for (const std::uint32_t boxes : {1U, 3U, 47U, 592U}) {
        const WgmmaTiles tiles =
            wgmma_tiles(h200(), {.rows = rows, .columns = {columns}, .boxes = boxes});
        EXPECT_LE(tiles.slices, boxes);
        if (tiles.slices > 1) {
          EXPECT_LE(tiles.slices * tiles.count, kUnits);
        }
      }
    }
  }
}

// Ensures that the long products of gemm_test.cpp are tests of split-K.
TEST(WgmmaTiles, TheLongProductsOfGemmTestAreSplit) {
  struct Product {
    std::uint32_t rows, columns, boxes;
  };
  for (const auto& [rows, columns, boxes] : {Product{131, 200, 47},
                                             {140, 75, 33},
                                             {131, 200, 35},
                                             {131, 2000, 47},
                                             {140, 376, 33},
                                             {140, 200, 45},
                                             {40, 100, 48}}) {
    for (const std::uint32_t shrink : {0U, 16U, 64U}) {
      const WgmmaSize size{.rows = rows, .columns = {columns}, .shrink = shrink, .boxes = boxes};
      EXPECT_GT(wgmma_tiles(h200(), size).slices, 1U) << rows << " x " << columns << ", " << shrink;
    }
  }
}

TEST(LoraChunks, GiveTheGpuAboutAsManyGroupsAsItHasUnits) {
  for (const std::uint32_t strips : {1U, 2U, 10U, 37U, 200U}) {
    for (const std::uint32_t rows : {1U, 700U, 8192U}) {
      const LoraChunks cut = lora_chunks(rows, strips, 1, kUnits);
      const std::uint32_t boxes = (rows + 63) / 64;
      EXPECT_GE(cut.chunks * cut.chunk_boxes, boxes);            // covers all rows
      EXPECT_LT((cut.chunks - 1) * cut.chunk_boxes, boxes);      // no chunk is empty
      EXPECT_LE(cut.chunks * strips, std::max(kUnits, strips));  // fits in one wave
    }
  }
}

// Products of real models. The tensors have shapes and no memory.
class RealProducts {
 public:
  explicit RealProducts(Context& context) : batch_(context) {}

  // Linear layers with a common x (forward), or with a common sum of gradients (backward).
  std::vector<GemmProduct> of(std::int64_t rows, std::int64_t in,
                              const std::vector<std::int64_t>& out, std::int64_t rank,
                              bool backward) {
    std::vector<GemmProduct> problems;
    const Tensor sum = tensor({rows, in});
    for (const std::int64_t n : out) {
      GemmProduct p{.y = backward ? sum : tensor({rows, n}),
                    .x = backward ? tensor({rows, n}) : sum,
                    .w = tensor({n, in}),
                    .epilogue = {},
                    .backward = backward};
      if (rank > 0)
        p.epilogue.low_rank = {.s = tensor({rows, rank}), .u = tensor({rank, p.columns()})};
      if (rank > 0 && rank <= 64 && !backward) p.epilogue.low_rank.a = tensor({rank, in});
      if (out.size() == 1 && !backward) p.epilogue.residual = p.y;
      problems.push_back(p);
    }
    return problems;
  }

 private:
  Tensor tensor(Shape shape) { return batch_.temporary(shape, DType::bf16, "of a model"); }
  Batch batch_;
};

// Self-test outcomes are stored by a program's options, so the self-test must build the same
// programs that run.
TEST(WgmmaSelfTest, BuildsTheVeryProgramThatRunsForEachPlanOfRealShapes) {
  struct Model {
    std::int64_t D, kv, F;
  };
  Context& context = test::context_of(Variant::portable);
  RealProducts products(context);
  SelfTest test(context);
  std::set<std::string> plans;
  for (const auto& [D, kv, F] :
       {Model{896, 128, 4864}, Model{3584, 512, 18944}, Model{576, 192, 1536}}) {
    for (const std::int64_t rows : {512, 1024, 8192}) {
      for (const std::int64_t rank : {0, 8, 64, 128}) {
        for (const bool backward : {false, true}) {
          for (const auto& [in, out] :
               std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>>{
                   {D, {D, kv, kv}}, {D, {D}}, {D, {F, F}}, {F, {D}}}) {
            const std::vector<GemmProduct> real = products.of(rows, in, out, rank, backward);
            const WgmmaProgram program = gemm_wgmma_program(h200(), real);
            const std::vector<GemmProduct> small = small_problems_like(test, real);
            EXPECT_EQ(gemm_wgmma_program_like(program, small).options, program.options);
            EXPECT_LE(small.front().rows() * small.front().columns(), 64 << 10);
            plans.insert(program.options);
          }
        }
      }
    }
  }
  EXPECT_GT(plans.size(), 30U) << "the shapes differ in their plans";
}

TEST(WgmmaSelfTest, OfGroupedProblemsHasSeveralTilesEachWayAndTheirExtras) {
  Context& context = test::context_of(Variant::portable);
  RealProducts products(context);
  SelfTest test(context);
  const auto forward = small_problems_like(test, products.of(1024, 896, {4864, 4864}, 8, false));
  ASSERT_EQ(forward.size(), 2U);
  EXPECT_GT(forward.front().columns(), 256);
  EXPECT_GT(forward.front().rows(), 128);
  EXPECT_TRUE(forward[1].has_shrink());
  EXPECT_TRUE(same_begin(forward[0].x, forward[1].x)) << "problems have one x";
  const auto backward = small_problems_like(test, products.of(1024, 896, {4864, 4864}, 8, true));
  EXPECT_TRUE(same_begin(backward[0].y, backward[1].y)) << "and backward one sum";
  EXPECT_NE(backward[0].k(), backward[1].k());
}

}  // namespace
}  // namespace clora
