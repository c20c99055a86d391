#include "lora/peft_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lora/safetensors.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::context_of;
using test::error_of;
using test::TemporaryFolder;
using testing::HasSubstr;

const std::vector<AdapterSite> kSites{{"model.layers.0.self_attn.q_proj", 24, 40},
                                      {"model.layers.0.mlp.down_proj", 56, 24}};

Context& context() { return context_of(Variant::portable); }

Adapter random_adapter(std::int64_t rank = 4) {
  Adapter adapter(context(), kSites,
                  {.rank = rank, .alpha = 6, .target_modules = {"q_proj", "down_proj"}});
  adapter.initialise(5);
  // b is zero at first; give it values so that the files have something to keep.
  for (const AdapterModule& module : adapter.modules()) {
    const Tensor bt = adapter.weights(module.site.path).bt;
    const std::vector<float> values =
        test::random_values(static_cast<std::size_t>(bt.elements()), 7);
    context().write(bt, std::as_bytes(std::span(values)));
  }
  return adapter;
}

std::vector<float> values_of(const Tensor& tensor) { return context().read<float>(tensor); }

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(PeftFiles, ReadBackGiveTheSameBits) {
  const TemporaryFolder folder;
  const Adapter saved = random_adapter();
  save_adapter(saved, folder / "adapter");
  const Adapter loaded = load_adapter(context(), folder / "adapter", kSites);
  EXPECT_EQ(values_of(loaded.parameters()), values_of(saved.parameters()));
  EXPECT_EQ(loaded.modules().front().scale, 1.5F);
}

TEST(PeftFiles, HoldMatricesUnderPeftsNamesAndShapes) {
  const TemporaryFolder folder;
  const Adapter adapter = random_adapter();
  save_adapter(adapter, folder.path());
  const SafetensorsFile file = SafetensorsFile::open(folder / "adapter_model.safetensors");
  const auto b = file.find("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight");
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(b->shape, (Shape{40, 4}));
  const auto a = file.find("base_model.model.model.layers.0.mlp.down_proj.lora_A.weight");
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->shape, (Shape{4, 56}));
  // b[n, r] of the file is bt[r, n] of the device.
  const std::vector<float> bt = values_of(adapter.weights(kSites[0].path).bt);
  float first_of_second_row = 0;
  std::memcpy(&first_of_second_row, b->bytes.data() + 4 * sizeof(float), sizeof(float));
  EXPECT_EQ(first_of_second_row, bt[1]);
}

TEST(PeftFiles, OfAnotherModelNameTheTensorAndBothShapes) {
  const TemporaryFolder folder;
  save_adapter(random_adapter(), folder.path());
  std::vector<AdapterSite> other = kSites;
  other[0].outputs = 48;
  const std::string shapes = error_of([&] { (void)load_adapter(context(), folder.path(), other); });
  EXPECT_THAT(shapes, HasSubstr("q_proj.lora_B.weight"));
  EXPECT_THAT(shapes, HasSubstr("[48, 4]"));
  EXPECT_THAT(shapes, HasSubstr("[40, 4]"));
  const std::string missing =
      error_of([&] { (void)load_adapter(context(), folder.path(), {kSites[0]}); });
  EXPECT_THAT(missing, HasSubstr("down_proj"));
  EXPECT_THAT(missing, HasSubstr("another model"));
}

TEST(PeftFiles, HonourRankAndAlphaPatterns) {
  const TemporaryFolder folder;
  save_adapter(random_adapter(2), folder.path());
  write_text(
      folder / "adapter_config.json",
      R"({"peft_type":"LORA","r":8,"lora_alpha":16,"rank_pattern":{"q_proj":2,"down_proj":2},)"
      R"("alpha_pattern":{"model.layers.0.mlp.down_proj":3},"use_rslora":false,)"
      R"("target_modules":["q_proj","down_proj"]})");
  const Adapter loaded = load_adapter(context(), folder.path(), kSites);
  EXPECT_EQ(loaded.modules()[0].scale, 8.0F);
  EXPECT_EQ(loaded.modules()[1].scale, 1.5F);
}

TEST(PeftFiles, RefuseWhatIsNotDoneByName) {
  const TemporaryFolder folder;
  save_adapter(random_adapter(), folder.path());
  const auto message_for = [&](const std::string& json) {
    write_text(folder / "adapter_config.json", json);
    return error_of([&] { (void)load_adapter(context(), folder.path(), kSites); });
  };
  EXPECT_THAT(message_for(R"({"r":4,"use_dora":true})"), HasSubstr("use_dora"));
  EXPECT_THAT(message_for(R"({"r":4,"peft_type":"IA3"})"), HasSubstr("IA3"));
  EXPECT_THAT(message_for(R"({"r":4,"modules_to_save":["lm_head"]})"),
              HasSubstr("modules_to_save"));
  EXPECT_THAT(message_for(R"({"r":)"), HasSubstr("adapter_config.json"));
  EXPECT_THAT(message_for(R"({"lora_alpha":4})"), HasSubstr("adapter_config.json"));
}

TEST(PeftFiles, MissingAreNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { (void)load_adapter(context(), folder / "none", kSites); }),
              HasSubstr("adapter_config.json"));
}

}  // namespace
}  // namespace clora
