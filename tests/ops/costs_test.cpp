// The costs by which ops plan launches: where they come from, and the plans that they give.
#include "ops/tuned/costs.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/gemm/gemm_hopper.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "ops/gemm/gemm_matrix_tiles.hpp"
#include "ops/gemm/gemm_plan.hpp"
#include "ops/gemm/gemm_portable_plan.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::TemporaryFolder;

// A model with all costs, on every device.
template <class Costs>
void expect_complete() {
  const TunedTable project = project_tuned_table();
  ASSERT_NE(project.costs_for_other_devices(Costs::kModel), nullptr) << Costs::kModel;
  const NamedCosts wanted = named(Costs{});
  for (const CostEntry& entry : project.costs()) {
    if (entry.model != Costs::kModel) continue;
    EXPECT_EQ(entry.values.size(), wanted.size()) << entry.model << " on " << entry.device;
    for (const auto& [name, value] : wanted) EXPECT_TRUE(entry.values.contains(name)) << name;
  }
}

TEST(Costs, OfTheProjectAreCompleteForEveryModel) {
  expect_complete<GemmCpuCosts>();
  expect_complete<GemmMatrixCosts>();
  expect_complete<GemmPortableCosts>();
  expect_complete<GemmSkinnyCosts>();
  expect_complete<GemmWgmmaCosts>();
}

GemmSkinnyCosts skinny(double team_columns, double shrink_products) {
  GemmSkinnyCosts costs;
  costs.team_columns = team_columns;
  costs.shrink_products = shrink_products;
  return costs;
}

// A Context whose user's table has this entry of its device.
class UsersTable : public testing::Test {
 protected:
  GemmSkinnyCosts costs_with(const NamedCosts& values, const std::string& device) {
    TunedTable table;
    table.put(CostEntry{.model = "gemm_skinny", .device = device, .values = values});
    table.write(folder_ / "tuned.json");
    ContextConfig config = config_from_environment();
    config.tuned_table = folder_ / "tuned.json";
    const Context context(config);
    return costs_of<GemmSkinnyCosts>(context);
  }
  const std::string device_ = test::context_of(Variant::portable).device().name;
  const NamedCosts others_ = named(costs_for_other_devices<GemmSkinnyCosts>());
  TemporaryFolder folder_;
};

TEST_F(UsersTable, GivesTheCostsOfItsDevice) {
  const NamedCosts mine = named(skinny(7, 8));
  EXPECT_EQ(named(costs_with(mine, device_)), mine);
  EXPECT_EQ(named(costs_with(mine, "another device")), others_);
}

TEST_F(UsersTable, IsPassedOverIfACostIsMissingOrNoCost) {
  EXPECT_EQ(named(costs_with({{"team_columns", 7}}, device_)), others_);
  EXPECT_EQ(named(costs_with(named(skinny(7, -1)), device_)), others_);
  EXPECT_EQ(named(costs_with(named(skinny(7, 2 * kMaxCost)), device_)), others_);
}

TEST(Costs, AreWrittenAndRead) {
  TunedTable table;
  const CostEntry entry{.model = "gemm_skinny",
                        .device = "A device",
                        .driver = "1.0",
                        .date = "2026-11-25",
                        .for_other_devices = true,
                        .values = named(skinny(1.0 / 90, 8))};
  table.put(CostEntry{.model = "gemm_skinny", .device = "A device"});
  table.put(entry);  // replaces the first entry
  const TunedTable read = TunedTable::parse(table.text(), "t.json");
  ASSERT_EQ(read.costs().size(), 1U);
  EXPECT_EQ(read.costs().front().values, entry.values);
  EXPECT_EQ(read.text(), table.text());
  EXPECT_EQ(read.costs_of("gemm_skinny", "A device"), &read.costs().front());
  EXPECT_EQ(read.costs_for_other_devices("gemm_skinny"), &read.costs().front());
  EXPECT_EQ(read.costs_of("gemm_skinny", "Another device"), nullptr);
}

TEST(Costs, AreNamedIfTheyAreWrong) {
  const std::string begin =
      R"({"format": "clora tuned kernels", "version": 1, "kernels": [], "costs": )";
  CLORA_EXPECT_ERROR(TunedTable::parse(begin + "3}", "t.json"), ErrorCode::invalid_file,
                     "t.json: costs must be an array, got 3");
  CLORA_EXPECT_ERROR(
      TunedTable::parse(begin + R"([{"model": "m", "device": "d", "driver": "", "date": "",)" +
                            R"( "values": {"slice": "x"}}]})",
                        "t.json"),
      ErrorCode::invalid_file, "costs[0].values.slice must be");
}

// A table is a file that anyone may have written.
TEST(Costs, AnyNumbersGivePlansThatCover) {
  constexpr double kValues[] = {0, 1e-300, 1, kMaxCost};
  for (const double value : kValues) {
    NamedCosts wgmma = named(GemmWgmmaCosts{}), matrix = named(GemmMatrixCosts{});
    for (NamedCosts* costs : {&wgmma, &matrix}) {
      for (auto& [name, cost] : *costs) cost = value;
    }
    const WgmmaTiles w = wgmma_tiles({132, costs_from<GemmWgmmaCosts>(wgmma)},
                                     {.rows = 1024, .columns = {896}, .boxes = 76});
    EXPECT_GE(w.count * w.columns * 128, 1024U * 896U) << value;
    EXPECT_LE(w.slices, 76U) << value;
    const GemmMatrixTiles m =
        choose_gemm_matrix_tiles({132, 227U << 10U}, costs_from<GemmMatrixCosts>(matrix),
                                 {.rows = 1024, .columns = {896}, .k = 4864, .may_split = true});
    EXPECT_GE(m.count * m.tile.rows * m.tile.columns, 1024U * 896U) << value;
    EXPECT_LE(m.slices, 4864U) << value;
  }
}

struct Product {
  std::uint32_t rows, columns, k, shrink;
};
struct PlannedProduct {
  Product product;
  const char* plan;
};
// The costs that were constants in the code until 2026-11-25, and the plans that they gave: tile
// and slices with wgmma on 132 units, and on matrix units of 132 units with 227 KiB and of 128 with
// 100 KiB; groups of columns and rows of gemm_cpu.cl, gemm_bf16_cpu.cl and gemm_packed_cpu.cl on 2
// and on 16 units.
constexpr GemmWgmmaCosts kWgmma{32, 128, 1.0 / 90, 1900, 1000, 3, 16, 72, 300, 5};
constexpr GemmMatrixCosts kMatrix{.shared = {18, 9.5, 21, 11, 5.6, 3.6, 2.8, 2.4, 1.4},
                                  .alone = {18, 13, 21, 14, 8, 5, 3.5, 3, 3.5},
                                  .tile_steps = 96,
                                  .shrink_column = 2,
                                  .shrink_launch = 4,
                                  .sum_launch = 4,
                                  .sum_bytes = 2.5e6,
                                  .max_slices = 16,
                                  .min_slice_steps = 256};
constexpr GemmCpuCosts kCpu{12, 1, 0.5, 0.5, 1.7, 1e6, 2};
constexpr PlannedProduct kPlans[] = {
    {{8192, 4864, 896, 0}, "224 1, 256x128x64 1, 128x128x32 1, 8x1 8x1 1x2 8x2 8x2 1x16"},
    {{8192, 896, 4864, 0}, "224 1, 256x128x64 1, 128x256x32 1, 4x1 4x1 1x2 4x4 4x4 1x16"},
    {{8192, 128, 896, 0}, "128 1, 64x64x64 1, 64x128x64 1, 4x1 1x2 1x2 4x4 1x16 1x16"},
    {{8192, 896, 896, 16}, "224 1, 256x128x64 1, 128x256x32 1, 1x2 1x2 1x2 1x16 1x16 1x16"},
    {{1024, 896, 4864, 0}, "128 2, 256x128x64 4, 128x256x32 4, 4x1 4x1 1x2 4x4 4x4 1x16"},
    {{1024, 16, 4864, 0}, "64 7, 32x16x128 12, 32x16x128 8, 1x2 1x2 1x2 1x15 1x15 1x16"},
    {{512, 3584, 18944, 0}, "224 2, 256x128x64 7, 128x256x32 2, 8x1 8x1 1x2 16x1 16x1 2x8"},
    {{512, 18944, 3584, 64}, "192 1, 128x256x32 1, 128x256x32 1, 2x1 2x1 1x2 16x1 8x2 2x8"},
    {{64, 896, 4864, 0}, "128 16, 64x64x64 9, 64x64x64 9, 4x1 4x1 1x2 28x1 14x1 4x4"},
    {{16, 18944, 3584, 0}, "160 1, 16x64x128 1, 16x64x128 3, 8x1 2x1 2x1 16x1 16x1 16x1"},
    {{4096, 3584, 3584, 16}, "224 1, 128x128x64 1, 128x256x32 1, 1x2 1x2 1x2 2x8 2x8 1x16"},
    {{100, 576, 1536, 0}, "64 12, 16x64x128 1, 16x64x128 1, 6x1 2x1 2x1 18x3 5x3 3x5"},
    {{2048, 1536, 576, 16}, "192 1, 64x128x64 1, 128x256x32 1, 1x2 1x2 1x2 4x4 4x4 1x16"},
    {{31, 151936, 896, 0}, "256 1, 64x128x64 1, 32x64x64 1, 4x1 4x1 2x1 48x1 48x1 16x1"},
};

std::string wgmma_plan(const Product& p) {
  const WgmmaTiles tiles =
      wgmma_tiles({132, kWgmma},
                  {.rows = p.rows, .columns = {p.columns}, .shrink = p.shrink, .boxes = p.k / 64});
  return fmt::format("{} {}", tiles.columns, tiles.slices);
}

std::string matrix_plan(const Product& p, const GemmMatrixUnits& units) {
  const GemmMatrixTiles tiles = choose_gemm_matrix_tiles(units, kMatrix,
                                                         {.rows = p.rows,
                                                          .columns = {p.columns},
                                                          .k = p.k,
                                                          .shrink = p.shrink,
                                                          .may_split = p.shrink == 0});
  return fmt::format("{} {}", tiles.tile.name(), tiles.slices);
}

std::string cpu_plan(const Product& p, std::uint32_t units) {
  Device device;
  device.local_memory_bytes = 1 << 20U;
  Capabilities capabilities;
  capabilities.cpu = capabilities.bf16_dots = true;
  const GemmSize size{p.rows, p.columns, p.k};
  std::string text;
  const auto add = [&](const GemmTiles& tiles, const GemmShareCosts& of_share) {
    const GemmShares shares = share_gemm(size, tiles, of_share, units);
    text += fmt::format(" {}x{}", shares.column_groups, shares.row_groups);
  };
  const double shrink = p.shrink / static_cast<double>(GemmTiles::kColumns);
  add(gemm_tiles(device), tiles_costs(kCpu, false, shrink));
  add(gemm_bf16_tiles(device, capabilities), tiles_costs(kCpu, true, shrink));
  const GemmPackedTiles packed = gemm_packed_tiles(device, capabilities, true).value();
  add(packed.as_tiles(size), packed_costs(kCpu, shrink));
  return text;
}

TEST(Costs, GiveThePlansThatTheyGaveAsConstants) {
  for (const auto& [product, plan] : kPlans) {
    const std::string got = fmt::format(
        "{}, {}, {},{}{}", wgmma_plan(product), matrix_plan(product, {132, 227U << 10U}),
        matrix_plan(product, {128, 100U << 10U}), cpu_plan(product, 2), cpu_plan(product, 16));
    EXPECT_EQ(got, plan) << product.rows << " x " << product.columns << " x " << product.k;
  }
}

}  // namespace
}  // namespace clora
