// Adapters of single requests: which are on the device, and passes whose rows have different ones.
#include "model/generation/adapter_slots.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "clora/model/transformer/recorded_rows.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "model/transformer/recorded_model.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_groups.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Lengths of the documents in the rows of a pass; a last one is padding.
constexpr std::array<std::int64_t, 4> kLengths{7, 3, 9, 4};
constexpr std::int64_t kRows = 24;

using Logits = std::vector<float>;  // [kRows, V]

// A tiny model by its name, and adapters of it.
class Adapters {
 public:
  explicit Adapters(std::string_view model) {
    test::write_tiny_model(folder_.path(), test::tiny_config(model));
    open_ = std::make_unique<test::OpenModel>(folder_.path());
  }
  LanguageModel& model() { return open_->model; }
  Context& context() { return model().context(); }
  std::size_t vocabulary() { return size(model().config().vocabulary); }

  // Of random matrices. rank: of the first module; the others have one less, in turn.
  Adapter adapter(const std::vector<std::string>& targets, std::int64_t rank, std::uint32_t seed,
                  float scale = 0.75F) {
    std::vector<AdapterModule> modules;
    for (const AdapterSite& site : select_sites(model().config(), targets, 0)) {
      const std::int64_t less = rank > 1 && modules.size() % 2 == 1 ? 1 : 0;
      modules.push_back({site, rank - less, scale, 0, 0});
    }
    Adapter adapter(context(), std::move(modules), {.rank = rank});
    const auto values = test::random_values(size(adapter.parameters().elements()), seed, 0.4F);
    context().write(adapter.parameters(), std::as_bytes(std::span(values)));
    return adapter;
  }

  // The logits of every row of a pass over documents of kLengths, with options for adapters.
  Logits logits(RecordingOptions options) {
    RecordedRows rows(context(), kRows, kRows);
    Batch batch(context());
    const Tensor out = context().allocate({kRows, model().config().vocabulary}, DType::f32,
                                          MemoryTag::activations);
    options.rows = {rows.positions(), rows.first(), rows.last()};
    options.positions = kRows;
    options.type = context().activation_type();
    Recording recording(model(), batch, options);
    const RecordedModel recorded(recording, {.ids = rows.ids()});
    recorded.record_logits(out);
    std::vector<std::int32_t> staging;
    rows.upload(context(), packed_rows(), {}, staging).wait();
    batch.submit().wait();
    return context().read<float>(out);
  }
  Logits alone(const Adapter* adapter) { return logits({.adapter = adapter}); }
  Logits together(const AdapterSlots& slots, const std::vector<RowGroup>& groups) {
    return logits({.stacks = slots.stacks(),
                   .row_groups = test::upload_row_groups(context(), kRows, groups)});
  }

  // Compares the rows of one document.
  void expect_document(const Logits& got, const Logits& want, std::size_t document) {
    // Products that round to bf16 round other first factors where they compute these themselves.
    const float bound = products_round_to_bf16(context()) ? 2e-2F : 2e-5F;
    float largest = 0;
    for (const float value : want) largest = std::max(largest, std::abs(value));
    const auto [begin, end] = elements_of(document);
    for (std::size_t i = begin; i < end; ++i) {
      ASSERT_NEAR(got[i], want[i], bound * largest) << "document " << document << " at " << i;
    }
  }
  void expect_same_bits(const Logits& got, const Logits& want, std::size_t document) {
    const auto [begin, end] = elements_of(document);
    for (std::size_t i = begin; i < end; ++i) ASSERT_EQ(got[i], want[i]) << i;
  }

 private:
  std::pair<std::size_t, std::size_t> elements_of(std::size_t document) {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < document; ++i) begin += kLengths.at(i);
    return {size(begin) * vocabulary(), size(begin + kLengths.at(document)) * vocabulary()};
  }
  PackedRows packed_rows() {
    std::vector<std::vector<std::int32_t>> ids;
    std::int32_t id = 3;
    for (const std::int64_t length : kLengths) {
      for (auto& of = ids.emplace_back(); std::ssize(of) < length;) {
        of.push_back(id = (id * 5 + 11) % static_cast<std::int32_t>(vocabulary()));
      }
    }
    std::vector<RecordView> records;
    const std::vector<std::uint8_t> marks(size(kRows));
    for (const auto& of : ids) records.emplace_back(of, std::span(marks).first(of.size()));
    return pack_rows(records, size(kRows));
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<test::OpenModel> open_;
};

// The rows of a document.
RowGroup group_of(std::size_t document, const AdapterSlot& slot) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < document; ++i) begin += kLengths.at(i);
  return {begin, begin + kLengths.at(document), slot.slot, slot.rank, slot.scale};
}

AdapterSlot acquired(AdapterSlots& slots, const std::vector<AdapterUse>& uses) {
  return slots.acquire(slots.select(uses)).value();
}

class PassOfSeveralAdapters : public testing::TestWithParam<const char*> {
 protected:
  PassOfSeveralAdapters() : of_(GetParam()) {}
  Adapters of_;
};
INSTANTIATE_TEST_SUITE_P(TinyModels, PassOfSeveralAdapters,
                         testing::Values("Llama", "Qwen2", "Gemma3", "Phi3", "Lfm2", "Qwen3_5"),
                         [](const auto& test) { return std::string(test.param); });

// Three adapters with other ranks and targets, and rows without one.
TEST_P(PassOfSeveralAdapters, GivesEachDocumentWhatItsAdapterAloneGives) {
  const auto sites = adapter_sites(of_.model().config());
  const std::string first = sites.front().path.substr(sites.front().path.rfind('.') + 1);
  const std::string last = sites.back().path.substr(sites.back().path.rfind('.') + 1);
  const Adapter a = of_.adapter({first}, 2, 1), b = of_.adapter({"all-linear"}, 5, 2),
                c = of_.adapter({last, first}, 1, 3);
  AdapterSlots slots(of_.model(), {.slots = 4, .max_rank = 6});
  slots.add("a", a);
  slots.add("b", b);
  slots.add("c", c);
  const AdapterSlot in_a = acquired(slots, {{"a"}}), in_b = acquired(slots, {{"b"}}),
                    in_c = acquired(slots, {{"c"}});
  const Logits got = of_.together(slots, {group_of(0, in_c), group_of(1, in_a), group_of(3, in_b)});
  of_.expect_document(got, of_.alone(&c), 0);
  of_.expect_document(got, of_.alone(&a), 1);
  of_.expect_document(got, of_.alone(nullptr), 2);
  of_.expect_document(got, of_.alone(&b), 3);
  // The other rows' adapters change no bit.
  const Logits only_b = of_.together(slots, {group_of(3, in_b)});
  of_.expect_same_bits(only_b, got, 3);
  of_.expect_same_bits(only_b, got, 2);
}

TEST(AdapterSlots, AScaleOfARequestMultipliesTheTerm) {
  Adapters of("Llama");
  const Adapter once = of.adapter({"q_proj", "down_proj"}, 3, 1, 0.5F),
                twice = of.adapter({"q_proj", "down_proj"}, 3, 1, 1.0F);
  AdapterSlots slots(of.model(), {.slots = 1, .max_rank = 3});
  slots.add("a", once);
  const AdapterSlot slot = acquired(slots, {{"a", 2}});
  EXPECT_EQ(slot.scale, 2);
  const AdapterSlot same = acquired(slots, {{"a", -1}});  // the same matrices
  EXPECT_EQ(same.slot, slot.slot);
  EXPECT_EQ(slots.uploads(), 1U);
  const Logits got = of.together(slots, {group_of(0, slot), group_of(1, same)});
  of.expect_document(got, of.alone(&twice), 0);
}

TEST(AdapterSlots, TwoAdaptersAreAddedWithTheirScales) {
  Adapters of("Llama");
  const Adapter a = of.adapter({"q_proj", "up_proj"}, 3, 1),
                b = of.adapter({"up_proj", "o_proj"}, 2, 2);
  AdapterSlots slots(of.model(), {.slots = 2, .max_rank = 5});
  slots.add("a", a);
  slots.add("b", b);
  const AdapterSlot both = acquired(slots, {{"a", 0.5}, {"b", -2}});
  EXPECT_EQ(both.rank, 5U);
  // One adapter with the rows of both.
  std::vector<AdapterModule> modules;
  for (const AdapterSite& site :
       select_sites(of.model().config(), {"q_proj", "up_proj", "o_proj"}, 0)) {
    modules.push_back({site, 5, 1, 0, 0});
  }
  const Adapter sum(of.context(), modules, {.rank = 5});
  std::vector<float> values(size(sum.parameters().elements()));
  for (const AdapterModule& module : sum.modules()) {
    std::size_t row = 0;
    for (const auto& [part, scale] : {std::pair(&a, 0.5F), std::pair(&b, -2.0F)}) {
      const AdapterModule* from = part->find(module.site.path);
      if (from == nullptr) continue;
      const auto all = of.context().read<float>(part->parameters());
      const std::size_t K = size(module.site.inputs), N = size(module.site.outputs);
      for (std::size_t r = 0; r < size(from->rank); ++r, ++row) {
        for (std::size_t k = 0; k < K; ++k) {
          values[module.a_offset + row * K + k] = all[from->a_offset + r * K + k];
        }
        for (std::size_t n = 0; n < N; ++n) {
          values[module.bt_offset + row * N + n] =
              scale * from->scale * all[from->bt_offset + r * N + n];
        }
      }
    }
  }
  of.context().write(sum.parameters(), std::as_bytes(std::span(values)));
  const Logits got = of.together(slots, {group_of(2, both)});
  of.expect_document(got, of.alone(&sum), 2);
  of.expect_document(got, of.alone(nullptr), 0);
}

TEST(AdapterSlots, TheSlotThatWasUnusedLongestGivesWay) {
  Adapters of("Llama");
  AdapterSlots slots(of.model(), {.slots = 2, .max_rank = 2});
  for (const std::uint32_t i : {0U, 1U, 2U}) {
    slots.add(std::string(1, static_cast<char>('a' + i)), of.adapter({"q_proj"}, 2, i + 1));
  }
  const AdapterSlot a = acquired(slots, {{"a"}}), b = acquired(slots, {{"b"}});
  EXPECT_NE(a.slot, b.slot);
  const AdapterSelection of_c = slots.select(std::vector<AdapterUse>{{"c"}});
  EXPECT_FALSE(slots.acquire(of_c).has_value()) << "both slots are held";
  const AdapterSlot again = acquired(slots, {{"a"}});  // a second holder
  slots.release(a);
  EXPECT_FALSE(slots.acquire(of_c).has_value());
  slots.release(again);
  slots.release(b);
  EXPECT_EQ(slots.uploads(), 2U);
  EXPECT_EQ(acquired(slots, {{"b"}}).slot, b.slot) << "it is still there";
  EXPECT_EQ(slots.uploads(), 2U);
  EXPECT_EQ(slots.acquire(of_c).value().slot, a.slot);
  EXPECT_EQ(slots.uploads(), 3U);
  EXPECT_FALSE(slots.acquire(slots.select(std::vector<AdapterUse>{{"a"}})).has_value());
  slots.release(a);  // that of c by now
  slots.release(b);
  EXPECT_EQ(acquired(slots, {{"a"}}).slot, a.slot);
  EXPECT_EQ(acquired(slots, {{"b"}}).slot, b.slot);
  EXPECT_EQ(slots.uploads(), 4U) << "b has stayed";
}

// An adapter that is overwritten by one of a lower rank and fewer targets leaves nothing behind.
TEST(AdapterSlots, ASlotHasNothingOfTheAdapterBefore) {
  Adapters of("Llama");
  const Adapter large = of.adapter({"all-linear"}, 4, 1), small = of.adapter({"q_proj"}, 2, 2);
  AdapterSlots slots(of.model(), {.slots = 1, .max_rank = 4});
  slots.add("large", large);
  slots.add("small", small);
  slots.release(acquired(slots, {{"large"}}));
  const Logits got = of.together(slots, {group_of(1, acquired(slots, {{"small"}}))});
  of.expect_document(got, of.alone(&small), 1);
}

TEST(AdapterSlots, ARequestKeepsTheContentsThatItSelected) {
  Adapters of("Llama");
  const Adapter first = of.adapter({"q_proj"}, 2, 1), second = of.adapter({"q_proj"}, 2, 2);
  AdapterSlots slots(of.model(), {.slots = 2, .max_rank = 2});
  const std::vector<AdapterUse> uses{{"a"}};
  slots.add("a", first);
  const AdapterSelection before = slots.select(uses);
  slots.add("a", second);
  const AdapterSelection after = slots.select(uses);
  EXPECT_NE(before.content, after.content);
  slots.remove("a");
  EXPECT_THAT(slots.names(), IsEmpty());
  const Logits got =
      of.together(slots, {group_of(0, *slots.acquire(before)), group_of(1, *slots.acquire(after))});
  of.expect_document(got, of.alone(&first), 0);
  of.expect_document(got, of.alone(&second), 1);
  slots.add("b", first);
  const AdapterSelection same = slots.select(std::vector<AdapterUse>{{"b"}});
  EXPECT_EQ(same.content, before.content) << "of the contents, not of the name";
}

TEST(AdapterSlots, ContentsDifferByScalesAndByTheOrderOfTwo) {
  Adapters of("Llama");
  AdapterSlots slots(of.model(), {.slots = 2, .max_rank = 4});
  slots.add("a", of.adapter({"q_proj"}, 2, 1));
  slots.add("b", of.adapter({"q_proj"}, 2, 2));
  const auto content = [&](const std::vector<AdapterUse>& uses) {
    return slots.select(uses).content;
  };
  EXPECT_EQ(content({}), Digest{});
  EXPECT_EQ(content({{"a"}}), content({{"a", 1}}));
  EXPECT_NE(content({{"a"}}), content({{"a", 0.5}}));
  EXPECT_NE(content({{"a"}, {"b"}}), content({{"a"}, {"b", 2}}));
  EXPECT_NE(content({{"a"}, {"b"}}), content({{"a"}}));
  EXPECT_EQ(slots.acquire({}).value().slot, kNoAdapter);
  slots.release({});
}

TEST(AdapterSlots, OnlyLayersThatAreAdaptedTakeMemory) {
  Adapters of("Llama");
  AdapterSlots slots(of.model(), {.slots = 3, .max_rank = 4});
  EXPECT_EQ(slots.device_bytes(), 0U);
  slots.add("a", of.adapter({"q_proj"}, 2, 1));
  const std::size_t of_q = slots.device_bytes();
  EXPECT_GE(of_q, 2U * 3 * 4 * 4 * (24 + 24));
  EXPECT_EQ(slots.stacks()->generation(), 1U);
  slots.add("b", of.adapter({"q_proj"}, 4, 2));
  EXPECT_EQ(slots.stacks()->generation(), 1U) << "passes need not be recorded again";
  EXPECT_EQ(slots.device_bytes(), of_q);
  slots.add("c", of.adapter({"q_proj", "v_proj"}, 1, 3));
  EXPECT_EQ(slots.stacks()->generation(), 2U);
  EXPECT_GT(slots.device_bytes(), of_q);
  EXPECT_THAT(slots.names(), ElementsAre("a", "b", "c"));
}

TEST(AdapterSlots, RefusesWhatRequestsCannotHave) {
  Adapters of("Llama");
  const Adapter base = of.adapter({"o_proj"}, 1, 1), a = of.adapter({"q_proj"}, 3, 2);
  AdapterSlots slots(of.model(), {.slots = 1, .max_rank = 4}, &base);
  slots.add("a", a);
  const auto of_uses = [&](const std::vector<AdapterUse>& uses) {
    return test::error_of([&] { (void)slots.select(uses); });
  };
  EXPECT_THAT(of_uses({{"b"}}), HasSubstr("there is none of the name 'b'"));
  EXPECT_THAT(of_uses({{"a"}, {"a"}, {"a"}}), HasSubstr("has at most 2, got 3"));
  EXPECT_THAT(of_uses({{"a"}, {"a"}}), HasSubstr("have rank 6 together, 4 is configured"));
  EXPECT_THAT(of_uses({{"a", std::numeric_limits<double>::quiet_NaN()}}), HasSubstr("got nan"));
  EXPECT_THAT(of_uses({{"a", 1e9}}), HasSubstr("the scale must be from -1000000 to 1000000"));
  CLORA_EXPECT_ERROR(slots.remove("b"), ErrorCode::invalid_argument, "none of the name 'b'");
  CLORA_EXPECT_ERROR(slots.add("", a), ErrorCode::invalid_argument, "must not be empty");
  CLORA_EXPECT_ERROR(slots.add("b", of.adapter({"q_proj"}, 5, 1)), ErrorCode::invalid_argument,
                     "ranks up to 4 are configured");
  CLORA_EXPECT_ERROR(slots.add("b", of.adapter({"o_proj"}, 1, 1)), ErrorCode::invalid_argument,
                     "the base adapter also adapts 'model.layers.0.self_attn.o_proj'");
  const Adapter stranger(of.context(), std::vector<AdapterSite>{{"model.layers.9.q_proj", 24, 24}},
                         {.rank = 1});
  CLORA_EXPECT_ERROR(slots.add("b", stranger), ErrorCode::invalid_argument,
                     "no module model.layers.9.q_proj that can be adapted");
  const Adapter wide(of.context(),
                     std::vector<AdapterSite>{{"model.layers.0.self_attn.q_proj", 25, 24}},
                     {.rank = 1});
  CLORA_EXPECT_ERROR(slots.add("b", wide), ErrorCode::invalid_argument, "must have 24 inputs");
  CLORA_EXPECT_ERROR(slots.add("b", of.adapter({"q_proj"}, 1, 1, 1e32F)),
                     ErrorCode::invalid_argument, "must be finite and at most 1e+30");
  EXPECT_THAT(slots.names(), ElementsAre("a"));
  AdapterSlots none(of.model(), {});
  CLORA_EXPECT_ERROR(none.add("a", a), ErrorCode::invalid_argument, "at least one slot");
}

TEST(AdapterSlots, RefusesAdaptersOfExperts) {
  Adapters of("Qwen3Moe");
  AdapterSlots slots(of.model(), {.slots = 1, .max_rank = 4});
  CLORA_EXPECT_ERROR(slots.add("a", of.adapter({"all-linear"}, 2, 1)), ErrorCode::unsupported,
                     "is a layer of experts");
  EXPECT_EQ(slots.stacks()->generation(), 0U);
}

TEST(AdapterSlots, SaysHowMuchMemoryItsStacksNeed) {
  Adapters of("Llama");
  AdapterSlots slots(of.model(), {.slots = 10'000, .max_rank = 60'000});
  CLORA_EXPECT_ERROR(slots.add("a", of.adapter({"q_proj"}, 2, 1)), ErrorCode::out_of_memory,
                     "10000 adapters of rank 60000 in 2 more layers need");
  EXPECT_EQ(slots.stacks()->generation(), 0U);
  EXPECT_THAT(slots.names(), IsEmpty());
}

TEST(Recording, RefusesRowGroupsInAPassThatTrains) {
  Adapters of("Llama");
  AdapterSlots slots(of.model(), {.slots = 1, .max_rank = 4});
  const Tensor table = test::upload_row_groups(of.context(), kRows, {});
  EXPECT_THAT(test::error_of([&] {
                of.logits({.stacks = slots.stacks(), .row_groups = table, .trains = true});
              }),
              HasSubstr("only in a pass without a backward"));
  EXPECT_THAT(test::error_of([&] { of.logits({.stacks = slots.stacks()}); }),
              HasSubstr("row_groups must be u32 [24, 4]"));
}

}  // namespace
}  // namespace clora
