// The memory plan of a recorded training step, parsed from its text.

#include "clora/runtime/memory/memory_plan.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

#include "clora/model/training/recorded_step.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

struct Planned {
  std::string name;
  Lifetime life;
  Place place;
};

// Parses the lines of Batch::plan_text().
std::vector<Planned> read_plan(const std::string& text) {
  std::vector<Planned> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Planned p;
    const std::size_t number_end = line.find(" bytes, commands");
    const std::size_t end = line.rfind(' ', number_end - 1);
    p.name = line.substr(0, line.find_last_not_of(' ', end) + 1);
    const int read =
        std::sscanf(line.c_str() + end, " %zu bytes, commands %zu to %zu, block %zu at %zu",
                    &p.life.bytes, &p.life.first, &p.life.last, &p.place.chunk, &p.place.offset);
    EXPECT_EQ(read, 5) << line;
    all.push_back(p);
  }
  return all;
}

bool collide(const Planned& a, const Planned& b) {
  const bool in_time = a.life.first <= b.life.last && b.life.first <= a.life.last;
  const bool in_space = a.place.chunk == b.place.chunk &&
                        a.place.offset < b.place.offset + b.life.bytes &&
                        b.place.offset < a.place.offset + a.life.bytes;
  return in_time && in_space;
}

// A plan of `most_bytes` times the bytes that live at once is tight.
void expect_a_good_plan(const Batch& batch, std::size_t least_temporaries, double most_bytes) {
  const std::vector<Planned> all = read_plan(batch.plan_text());
  ASSERT_GE(all.size(), least_temporaries);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      ASSERT_FALSE(collide(all[i], all[j])) << all[i].name << " and " << all[j].name;
    }
  }
  EXPECT_LE(static_cast<double>(batch.planned_bytes()),
            most_bytes * static_cast<double>(batch.live_bytes()));
  EXPECT_GE(batch.planned_bytes(), batch.live_bytes());
}

void expect_a_good_plan_of_training(LanguageModel& model, std::int64_t rank, RowCounts counts,
                                    std::size_t least_temporaries, double most_bytes) {
  Adapter adapter(model.context(), adapter_sites(model.config()), {.rank = rank});
  adapter.initialise(1);
  adapter.allocate_gradients();
  const Tensor loss = model.context().allocate({1}, DType::f32, MemoryTag::activations);
  RecordedStep step(model, &adapter, {StepKind::train, {}}, counts, {loss},
                    std::make_shared<Arena>());
  expect_a_good_plan(step.batch(), least_temporaries, most_bytes);
}

TEST(MemoryPlan, OfTinyTrainingStepsIsTight) {
  for (const auto& tiny : test::tiny_models()) {
    const test::TemporaryFolder folder;
    test::write_tiny_model(folder.path(), tiny.config);
    test::OpenModel open(folder.path());
    // Gaps between a few small tensors count for more than in a real step on a GPU.
    const bool is_gpu = open.model.context().device().kind == DeviceKind::gpu;
    expect_a_good_plan_of_training(open.model, 4, {.rows = 64, .labelled = 64}, 20,
                                   is_gpu ? 1.15 : 1.1);
  }
}

TEST(MemoryPlan, OfTheDemoModelsTrainingStepIsTight) {
  CLORA_DEMO_MODEL_OR_SKIP(path);
  test::OpenModel open(path);
  expect_a_good_plan_of_training(open.model, 8, {.rows = 4 * 512, .labelled = 4 * 512}, 300, 1.1);
}

}  // namespace
}  // namespace clora
