// The tuned table: the parameters with which an op builds its kernel on a measured device.
#include "ops/tuned/tuned.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "clora/ops/gemm/gemm.hpp"
#include "ops/gemm/gemm_portable.hpp"
#include "tests/reference/gemm_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TunedEntry entry(const NamedNumbers& sizes, std::int64_t tile) {
  return {.of = {"A device", "gemm.cl", "gemm", "-D WEIGHT_TYPE=WEIGHT_F32 -D X_TYPE=bf16", sizes},
          .values = {{"TILE", tile}},
          .driver = "1.0",
          .seconds = 1e-3,
          .default_seconds = 2e-3};
}

TunedKernel wanted(const NamedNumbers& sizes) { return entry(sizes, 0).of; }

TEST(TunedTable, GivesTheEntryWhoseSizesAreNearest) {
  TunedTable table;
  table.put(entry({{"M", 64}, {"K", 512}}, 16));
  table.put(entry({{"M", 4096}, {"K", 512}}, 128));
  EXPECT_EQ(table.nearest(wanted({{"M", 100}, {"K", 512}}))->values.at("TILE"), 16);
  EXPECT_EQ(table.nearest(wanted({{"M", 1000}, {"K", 512}}))->values.at("TILE"), 128);
  EXPECT_EQ(table.nearest(wanted({{"M", 2000}, {"other", 5}}))->values.at("TILE"), 128);
}

TEST(TunedTable, KeepsApartDevicesFilesKernelsAndOptions) {
  TunedTable table;
  table.put(entry({}, 16));
  TunedKernel other = wanted({});
  other.device = "Another device";
  EXPECT_EQ(table.nearest(other), nullptr);
  other = wanted({});
  other.kernel = "gemm_rows";
  EXPECT_EQ(table.nearest(other), nullptr);
  other = wanted({});
  other.options = "-D WEIGHT_TYPE=WEIGHT_F32";
  EXPECT_EQ(table.nearest(other), nullptr);
  other.options =
      "-DX_TYPE=bf16 -DWEIGHT_TYPE=WEIGHT_F32";  // the same options, spelled differently
  EXPECT_NE(table.nearest(other), nullptr);
}

TEST(TunedTable, IsTheSameAfterItWasWrittenAndRead) {
  const TemporaryFolder folder;
  TunedTable table;
  table.put(entry({{"M", 64}}, 16));
  table.put(entry({{"M", 64}}, 32));  // replaces the first entry
  table.write(folder / "tuned.json");
  const TunedTable read = TunedTable::read(folder / "tuned.json");
  ASSERT_EQ(read.entries().size(), 1U);
  EXPECT_EQ(read.text(), table.text());
  EXPECT_THAT(read.entries()[0].values, ElementsAre(Pair("TILE", 32)));
  EXPECT_EQ(read.entries()[0].driver, "1.0");
}

TEST(TunedTable, ReadsTheKeyThatEarlierVersionsWrote) {
  TunedTable table;
  table.put(entry({{"M", 64}}, 16));
  std::string text = table.text();
  const std::string key = "default_seconds", earlier_key = "preset_seconds";
  text.replace(text.find(key), key.size(), earlier_key);
  const TunedTable read = TunedTable::parse(text, "t.json");
  ASSERT_EQ(read.entries().size(), 1U);
  EXPECT_EQ(read.entries()[0].default_seconds, 2e-3);
  EXPECT_EQ(read.text(), table.text());
}

TEST(TunedTable, LosesAnEntryThatIsRemoved) {
  TunedTable table;
  table.put(entry({{"M", 64}}, 16));
  table.remove(wanted({{"M", 65}}));
  EXPECT_EQ(table.entries().size(), 1U);
  table.remove(wanted({{"M", 64}}));
  EXPECT_THAT(table.entries(), IsEmpty());
}

TEST(TunedTable, NamesAnInvalidFile) {
  CLORA_EXPECT_ERROR(TunedTable::parse("{", "t.json"), ErrorCode::invalid_file, "t.json");
  CLORA_EXPECT_ERROR(
      TunedTable::parse(R"({"format": "clora tuned kernels", "version": 9})", "t.json"),
      ErrorCode::invalid_file, "version 1");
  EXPECT_THAT(TunedTable::read("/nowhere/tuned.json").entries(), IsEmpty());
}

// Messages do not contain the JSON library's text, and deep nesting does not overflow the stack.
TEST(TunedTable, NamesTheKeyThatIsWrong) {
  const std::string begin = R"({"format": "clora tuned kernels", "version": 1, "kernels": )";
  const std::string one = R"({"device": "d", "file": "f", "kernel": "k", "options": "", )"
                          R"("driver": "1", "seconds": 1, "default_seconds": 1, "sizes": {})";
  CLORA_EXPECT_ERROR(TunedTable::parse(begin + "3}", "t.json"), ErrorCode::invalid_file,
                     "t.json: kernels must be an array, got 3");
  CLORA_EXPECT_ERROR(TunedTable::parse(begin + "[{}]}", "t.json"), ErrorCode::invalid_file,
                     "t.json: the key kernels[0].device is missing");
  CLORA_EXPECT_ERROR(
      TunedTable::parse(begin + "[" + one + R"(, "values": {"TILE": 1.5}}]})", "t.json"),
      ErrorCode::invalid_file, "kernels[0].values.TILE must be a 64-bit integer, got 1.5");
  CLORA_EXPECT_ERROR(TunedTable::parse(begin + std::string(100'000, '['), "t.json"),
                     ErrorCode::invalid_file, "nested");
  const auto error = test::caught([&] { TunedTable::parse("{", "t.json"); });
  EXPECT_THAT(error->message, testing::Not(HasSubstr("json.exception")));
}

TEST(TunedTable, OfTheProjectIsFasterThanTheDefaults) {
  const TunedTable project = project_tuned_table();
  for (const TunedEntry& each : project.entries()) {
    EXPECT_LT(each.seconds, each.default_seconds) << each.of.device << ' ' << each.of.kernel;
  }
}

NamedNumbers values_of(const GemmTile& tile) {
  return {{"TILE_ROWS", tile.rows},
          {"TILE_COLUMNS", tile.columns},
          {"STEPS", tile.steps},
          {"ITEM_ROWS", tile.item_rows},
          {"ITEM_COLUMNS", tile.item_columns}};
}

// As options_of_the_kernel() contains them.
std::string text_of(const GemmTile& tile) {
  return fmt::format(
      "-D TILE_ROWS={} -D TILE_COLUMNS={} -D STEPS={} -D ITEM_ROWS={} -D ITEM_COLUMNS={}",
      tile.rows, tile.columns, tile.steps, tile.item_rows, tile.item_columns);
}

// None of the tiles among which the op chooses.
constexpr GemmTile kOther{.rows = 16, .columns = 64, .steps = 8, .item_rows = 4, .item_columns = 8};

// A Context with portable kernels and the table of a file.
class TunedGemm : public testing::Test {
 protected:
  ContextConfig config() {
    ContextConfig config = config_from_environment();
    config.variant = Variant::portable;
    config.tuned_table = folder_ / "tuned.json";
    config.hooks.log = [this](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) warnings_ += text;
    };
    return config;
  }

  void tune(const NamedNumbers& values) {
    TunedTable table;
    TunedEntry mine = entry({}, 0);
    mine.of.device = Context(config_from_environment()).device().name;
    mine.of.options = "-D WEIGHT_TYPE=WEIGHT_F32 -D X_TYPE=f32 -D Y_TYPE=f32 -D BACKWARD=0";
    mine.values = values;
    table.put(mine);
    table.write(folder_ / "tuned.json");
  }

  static void multiply(Context& context) {
    const auto x = test::random_values(70 * 40, 1), w = test::random_values(50 * 40, 2);
    const test::Output y(context, {70, 50});
    Batch batch(context);
    record_gemm(batch, y.tensor(), test::upload(context, {70, 40}, x),
                test::upload(context, {50, 40}, w));
    batch.submit().wait();
    test::expect_close(y.values(),
                       test::gemm_reference(test::to_double(x), test::to_double(w), {70, 50, 40}),
                       test::tolerance_of(40), "y");
  }

  // The build options of the kernel, taken from the error message of a text that never builds.
  std::string options_of_the_kernel() {
    test::write_file(folder_ / "gemm.cl", "#error never");
    ContextConfig broken = config();
    broken.kernel_folders = {folder_.path()};
    Context context(broken);
    const auto error = test::caught([&] { multiply(context); });
    return error ? error->message : "no error";
  }

  bool uses_a_tile_of_the_op() {
    const std::string options = options_of_the_kernel();
    return std::ranges::any_of(gemm_tiles_portable(), [&](const GemmTile& tile) {
      return options.find(text_of(tile)) != std::string::npos;
    });
  }

  TemporaryFolder folder_;
  std::string warnings_;
};

TEST_F(TunedGemm, BuildsItsKernelWithTheTablesValuesAndIsRight) {
  tune(values_of(kOther));
  EXPECT_THAT(options_of_the_kernel(), HasSubstr(text_of(kOther)));
  Context context(config());
  multiply(context);
}

TEST_F(TunedGemm, ChoosesATileIfTheTableHasNothing) {
  const std::string device = Context(config()).device().name;
  const TunedTable project = project_tuned_table();
  for (const TunedEntry& each : project.entries()) {
    if (each.of.device == device) GTEST_SKIP() << "the project's table has values for " << device;
  }
  EXPECT_TRUE(uses_a_tile_of_the_op());
}

TEST_F(TunedGemm, ChoosesATileInPlaceOfValuesThatItCannotUse) {
  GemmTile uneven = kOther;
  uneven.item_columns = 24;
  GemmTile large = kOther;
  large.steps = 1U << 20U;
  for (const GemmTile& bad : {uneven, large, GemmTile{}}) {
    tune(values_of(bad));
    EXPECT_TRUE(uses_a_tile_of_the_op()) << text_of(bad);
  }
}

TEST_F(TunedGemm, WarnsOfADamagedTableAndContinues) {
  test::write_file(folder_ / "tuned.json", "{\"format\"");
  Context context(config());
  multiply(context);
  EXPECT_THAT(warnings_, HasSubstr("tuned.json"));
}

}  // namespace
}  // namespace clora
