// Self-tests of kernel variants: one fast kernel at a time is broken in a copy of cl/ that stands
// for a driver that miscompiles it.
#include "ops/variant_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "ops/adamw.hpp"
#include "ops/attention.hpp"
#include "ops/cross_entropy.hpp"
#include "ops/dropout.hpp"
#include "ops/embedding.hpp"
#include "ops/gemm.hpp"
#include "ops/layer_norm.hpp"
#include "ops/lora_linear.hpp"
#include "ops/quant.hpp"
#include "ops/rms_norm.hpp"
#include "ops/rope.hpp"
#include "ops/sample.hpp"
#include "ops/softmax.hpp"
#include "ops/swiglu.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A copy of cl/ and a cache folder of its own.
class Folders {
 public:
  Folders() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    const char* source = std::getenv("CLORA_SOURCE_DIR");
    fs::copy(fs::path(source == nullptr ? "." : source) / "cl", kernels());
  }
  ~Folders() { fs::remove_all(root_); }
  Folders(const Folders&) = delete;
  Folders& operator=(const Folders&) = delete;

  fs::path kernels() const { return root_ / "cl"; }
  fs::path cache() const { return root_ / "cache"; }
  // The files of outcomes, in no order.
  std::vector<fs::path> outcomes() const {
    std::vector<fs::path> files;
    if (!fs::exists(cache() / "self_tests")) return files;
    for (const auto& entry : fs::directory_iterator(cache() / "self_tests")) {
      files.push_back(entry.path());
    }
    return files;
  }
  void replace(const std::string& file, const std::string& what, const std::string& by) const {
    std::string text = text_of(kernels() / file);
    ASSERT_NE(text.find(what), std::string::npos) << what << " is not in " << file;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
      text.replace(at, what.size(), by);
    }
    std::ofstream(kernels() / file, std::ios::binary) << text;
  }

 private:
  fs::path root_ = fs::temp_directory_path() / ("clora_variants_" + std::to_string(::getpid()));
};

// A Context on the copied kernels, and what it logged.
struct Observed {
  std::shared_ptr<std::vector<std::string>> warnings = std::make_shared<std::vector<std::string>>();
  std::unique_ptr<Context> context;

  explicit Observed(const Folders& folders, Variant variant = Variant::cpu, bool self_test = true) {
    ContextConfig config = config_from_environment();
    config.kernel_folder = folders.kernels();
    config.cache_folder = folders.cache();
    config.variant = variant;
    config.self_test = self_test;
    config.hooks.log = [log = warnings](LogLevel level, std::string_view message) {
      if (level == LogLevel::warning && message.find("self-test") != std::string_view::npos) {
        log->emplace_back(message);
      }
    };
    context = std::make_unique<Context>(config);
  }
  std::vector<SelfTest::Result> run(const SelfTestRecord& record) const {
    SelfTest test(*context);
    record(test);
    return test.run();
  }
};

bool same(const SelfTest::Result& a, const SelfTest::Result& b) {
  if (a.type != DType::f32) return a.bytes == b.bytes;
  std::vector<float> x(a.bytes.size() / sizeof(float)), y(x.size());
  std::memcpy(x.data(), a.bytes.data(), a.bytes.size());
  std::memcpy(y.data(), b.bytes.data(), b.bytes.size());
  // Other kernels than the broken one are the fast ones, and round otherwise.
  return std::ranges::equal(x, y, [](float u, float v) { return std::abs(u - v) < 1e-4F; });
}
bool same(const std::vector<SelfTest::Result>& a, const std::vector<SelfTest::Result>& b) {
  return std::ranges::equal(a, b, [](const auto& u, const auto& v) { return same(u, v); });
}

// What breaks a kernel: by default every group does the work of the first one, as pocl 3.1 makes of
// functions that are static and not inlined.
struct Break {
  std::string file;
  std::string what = "get_group_id(0)";
  std::string by = "0";
};

struct Family {
  std::string name;  // of the kernel, in the warning
  Break broken;
  SelfTestRecord record;
};

AttentionInputs attention_inputs(SelfTest& t, std::int64_t rows) {
  std::vector<std::int32_t> last(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < last.size(); ++i) last[i] = static_cast<std::int32_t>(i);
  return {.q = t.input({rows, 2, 16}),
          .k = t.input({rows, 1, 16}),
          .v = t.input({rows, 1, 16}),
          .first = t.input({rows}, std::vector<std::int32_t>(last.size(), 0)),
          .last = t.input({rows}, last),
          .scale = 0.25F};
}

void attention(SelfTest& t, std::int64_t rows, bool backward) {
  const AttentionInputs in = attention_inputs(t, rows);
  const Tensor y = t.output(in.q.shape());
  const Tensor logs = t.output({rows, 2});
  record_attention(t.batch(), y, logs, in);
  if (!backward) return;
  record_attention_backward(
      t.batch(), {t.output(in.q.shape()), t.output(in.k.shape()), t.output(in.k.shape())},
      t.input(in.q.shape()), y, logs, in);
}

const std::vector<std::int32_t> kIds{3, 0, 6, 5, 6};
const std::vector<std::int32_t> kToken{7};

std::vector<Family> families() {
  const Break range{"group_range.clh"};
  return {
      {"softmax_forward", range,
       [](SelfTest& t) {
         record_softmax(t.batch(), t.output({9, 40}), t.input({9, 40}));
       }},
      {"softmax_backward", range,
       [](SelfTest& t) {
         record_softmax_backward(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({9, 40}));
       }},
      {"rms_norm_forward", range,
       [](SelfTest& t) {
         record_rms_norm(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({40}), 1e-5F);
       }},
      {"rms_norm_backward", range,
       [](SelfTest& t) {
         record_rms_norm_backward(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({9, 40}),
                                  t.input({40}), {}, 1e-5F);
       }},
      {"layer_norm_forward", range,
       [](SelfTest& t) {
         record_layer_norm(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({40}),
                           t.input({40}), 1e-5F);
       }},
      {"layer_norm_backward", range,
       [](SelfTest& t) {
         record_layer_norm_backward(t.batch(), t.output({9, 40}), t.input({9, 40}),
                                    t.input({9, 40}), t.input({40}), {}, 1e-5F);
       }},
      {"swiglu_forward", range,
       [](SelfTest& t) {
         record_swiglu(t.batch(), t.output({9000}), t.input({9000}), t.input({9000}));
       }},
      {"swiglu_backward", range,
       [](SelfTest& t) {
         record_swiglu_backward(t.batch(), t.output({9000}), t.output({9000}), t.input({9000}),
                                t.input({9000}), t.input({9000}));
       }},
      {"rope", range,
       [](SelfTest& t) {
         record_rope(t.batch(), t.output({5, 2, 32}), t.input({5, 2, 32}), t.input({5}, kIds),
                     t.input({7, 16, 2}), RopeLayout::half_split, RopeDirection::forward);
       }},
      {"dropout_range",
       {"dropout.cl"},
       [](SelfTest& t) {
         const std::vector<std::uint32_t> counters{1, 2};
         record_dropout(t.batch(), t.output({99}), t.input({99}), t.input({2}, counters), {0.5F, 1},
                        false);
       }},
      {"embedding_rows q8_0",
       {"embedding.cl"},
       [](SelfTest& t) {
         record_embedding(t.batch(), t.output({5, 64}), t.input({5}, kIds),
                          t.weights({7, 64}, DType::q8_0));
       }},
      {"dequantise_rows q4_1",
       {"quant.cl"},
       [](SelfTest& t) {
         record_dequantise(t.batch(), t.output({9, 64}), t.weights({9, 64}, DType::q4_1));
       }},
      {"gemm_tiles q4_1",
       {"gemm_cpu.cl"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({40, 70}), t.input({40, 64}),
                     t.weights({70, 64}, DType::q4_1));
       }},
      {"gemm_few_rows f32",
       {"gemm_few_rows_cpu.cl"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({2, 70}), t.input({2, 64}), t.input({70, 64}));
       }},
      {"lora_gradient",
       {"lora_linear_cpu.cl"},
       [](SelfTest& t) {
         record_lora_gradient(t.batch(), t.changed(t.input({4, 70})), t.input({9, 4}),
                              t.input({9, 70}), 1);
       }},
      {"attention_forward_cpu", {"attention_cpu.cl"}, [](SelfTest& t) { attention(t, 70, false); }},
      {"attention_decode_cpu",
       {"attention_decode_cpu.cl"},
       [](SelfTest& t) { attention(t, 5, false); }},
      {"attention_backward_cpu",
       {"attention_backward_cpu.cl"},
       [](SelfTest& t) { attention(t, 70, true); }},
      {"cache_append_cpu",
       {"attention_decode_cpu.cl"},
       [](SelfTest& t) {
         record_cache_append(t.batch(), t.changed(t.input({9, 1, 16})), t.input({5, 1, 16}),
                             t.input({5}, std::vector<std::int32_t>{4, 0, 8, 1, 2}));
       }},
      {"cross_entropy_loss",
       {"cross_entropy_cpu.cl"},
       [](SelfTest& t) {
         record_cross_entropy(t.batch(), t.output({5}), {}, t.input({5, 40}), t.input({5}, kIds),
                              {});
       }},
      {"cross_entropy_gradient",
       {"cross_entropy_cpu.cl"},
       [](SelfTest& t) {
         record_cross_entropy(t.batch(), t.output({5}), t.output({5, 40}), t.input({5, 40}),
                              t.input({5}, kIds), t.input({1}));
       }},
      {"sum_in_order",
       {"cross_entropy_cpu.cl", "for (; i + 16 <= count; i += 16)",
        "for (; i + 16 <= count; i += 32)"},
       [](SelfTest& t) { record_sum(t.batch(), t.output({1}), t.input({99}), false); }},
      {"adamw",
       {"adamw_cpu.cl"},
       [](SelfTest& t) {
         const auto words = std::bit_cast<std::array<float, 8>>(AdamwSettings{.learning_rate = 1});
         const std::vector<float> zeros(300);
         record_adamw(t.batch(),
                      {t.changed(t.input({300})), t.changed(t.input({300}, zeros)),
                       t.changed(t.input({300}, zeros)), t.input({300}), t.input({8}, words)},
                      t.output({1}));
       }},
      {"sample",
       {"sample_cpu.cl", "settings.temperature", "(2.0f * settings.temperature)"},
       [](SelfTest& t) {
         const auto words = std::bit_cast<std::array<std::uint32_t, 8>>(
             SampleSettings{.temperature = 0.7F, .seed = 3});
         record_sample(t.batch(), t.output({1}, DType::i32),
                       t.input({25}, std::vector<std::uint32_t>(25)).slice(0, {100}, DType::u8),
                       t.input({8}, words), t.input({100}));
       }},
      {"sample_logprobs",
       {"sample_cpu.cl", "- log_sum", "+ log_sum"},
       [](SelfTest& t) {
         record_logprobs(t.batch(), {t.output({1}), t.output({3}, DType::i32), t.output({3})},
                         t.input({100}), t.input({1}, kToken));
       }},
  };
}

class BrokenKernel : public testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Families, BrokenKernel, testing::ValuesIn(families()),
                         [](const auto& given) {
                           std::string name = given.param.name;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

TEST_P(BrokenKernel, IsSeenOnceAndReplacedByThePortableOne) {
  const Family& family = GetParam();
  const Folders folders;
  folders.replace(family.broken.file, family.broken.what, family.broken.by);
  const auto want = Observed(folders, Variant::portable).run(family.record);
  const auto trusted = Observed(folders, Variant::cpu, false).run(family.record);
  EXPECT_FALSE(same(trusted, want)) << "the break does no harm here";
  const Observed tested(folders);
  for (int repeat = 0; repeat < 2; ++repeat) EXPECT_TRUE(same(tested.run(family.record), want));
  EXPECT_THAT(*tested.warnings, testing::Contains(HasSubstr("self-test: " + family.name)).Times(1));
}

// One family stands for all in what follows.
const Family& softmax() {
  static const Family family = families().front();
  return family;
}

TEST(VariantChoice, KeepsARightKernelWithoutAWord) {
  const Folders folders;
  const Observed tested(folders);
  const auto got = tested.run(softmax().record);
  EXPECT_TRUE(tested.warnings->empty());
  EXPECT_TRUE(same(got, Observed(folders, Variant::cpu, false).run(softmax().record)));
  EXPECT_EQ(variant_for(*tested.context, "softmax_cpu.cl", "softmax_forward", {}), Variant::cpu);
}

TEST(VariantChoice, OfAPortableContextIsPortableWithoutATest) {
  const Folders folders;
  const Observed portable(folders, Variant::portable);
  EXPECT_EQ(variant_for(*portable.context, "softmax_cpu.cl", "any", {}), Variant::portable);
  EXPECT_TRUE(folders.outcomes().empty());
}

TEST(VariantChoice, AKernelThatDoesNotBuildIsReplaced) {
  const Folders folders;
  folders.replace("softmax_cpu.cl", "__kernel", "this does not build __kernel");
  const Observed tested(folders);
  EXPECT_TRUE(same(tested.run(softmax().record),
                   Observed(folders, Variant::portable).run(softmax().record)));
  ASSERT_EQ(tested.warnings->size(), 1U);
  EXPECT_THAT(tested.warnings->front(), HasSubstr("does not build"));
}

TEST(VariantChoice, WithoutAPortableKernelThereIsNoChoiceAndNothingIsKept) {
  const Folders folders;
  folders.replace("softmax.cl", "__kernel", "this does not build __kernel");
  const Observed tested(folders);
  EXPECT_TRUE(same(tested.run(softmax().record),
                   Observed(folders, Variant::cpu, false).run(softmax().record)));
  EXPECT_TRUE(folders.outcomes().empty());
}

// Makes the file of the one outcome tell something else.
void plant(const Folders& folders, const std::string& instead) {
  const std::vector<fs::path> files = folders.outcomes();
  ASSERT_EQ(files.size(), 1U);
  const std::string text = text_of(files[0]);
  ASSERT_TRUE(text.ends_with("right\n"));
  std::ofstream(files[0], std::ios::binary)
      << text.substr(0, text.size() - std::string("right\n").size()) << instead;
}

TEST(VariantChoice, OutcomesAreKeptForTheNextContext) {
  const Folders folders;
  (void)Observed(folders).run(softmax().record);
  plant(folders, "wrong: planted\n");
  const Observed next(folders);
  EXPECT_TRUE(
      same(next.run(softmax().record), Observed(folders, Variant::portable).run(softmax().record)));
  ASSERT_EQ(next.warnings->size(), 1U);
  EXPECT_THAT(next.warnings->front(), HasSubstr("planted"));
}

TEST(VariantChoice, ADamagedOutcomeIsTestedAgainAndReplaced) {
  const Folders folders;
  (void)Observed(folders).run(softmax().record);
  const fs::path file = folders.outcomes().at(0);
  const std::string whole = text_of(file);
  for (const std::string& damaged : {std::string(), whole.substr(0, whole.size() - 1),
                                     "x" + whole.substr(1), whole + "wrong: x\n"}) {
    std::ofstream(file, std::ios::binary) << damaged;
    const Observed next(folders);
    (void)next.run(softmax().record);
    EXPECT_TRUE(next.warnings->empty());
    EXPECT_EQ(text_of(file), whole);
  }
}

TEST(VariantChoice, AnotherKernelTextIsTestedAnew) {
  const Folders folders;
  (void)Observed(folders).run(softmax().record);
  plant(folders, "wrong: planted\n");
  folders.replace("float16_math.clh", "// The sum of the lanes", "// All lanes' sum");
  const Observed next(folders);
  (void)next.run(softmax().record);
  EXPECT_TRUE(next.warnings->empty());
  EXPECT_EQ(folders.outcomes().size(), 2U);
}

TEST(VariantChoice, ACacheThatCannotBeWrittenCostsTheTestOnly) {
  const Folders folders;
  std::ofstream(folders.cache()) << "a file in the folder's place";
  const Observed tested(folders);
  EXPECT_NO_THROW((void)tested.run(softmax().record));
  EXPECT_TRUE(tested.warnings->empty());
}

}  // namespace
}  // namespace clora
