// The choice among the implementations of an op family (ops/dispatch/implementation.hpp).
#include "ops/dispatch/implementation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ops/attention/attention_dispatch.hpp"
#include "ops/decode/decode_layers_dispatch.hpp"
#include "ops/gemm/gemm_dispatch.hpp"
#include "ops/lora_linear/lora_gradient_dispatch.hpp"
#include "ops/loss/cross_entropy_head_dispatch.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

// A problem is a size. `tested` counts the self-tests that ran.
struct Toy {
  std::string_view name, file;
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const int&);
  bool (*passed)(Context&, const int&);
};

int tested = 0;
const char* refuse_odd(const Context&, const int& n) { return n % 2 == 0 ? nullptr : "n is odd"; }
const char* lack(const Context&) { return "no such unit"; }
const char* lack_nothing(const Context&) { return nullptr; }
bool pass(Context&, const int&) { return ++tested > 0; }
bool pass_up_to_10(Context&, const int& n) { return ++tested > 0 && n <= 10; }

constexpr std::array<Toy, 4> kToys{
    Toy{"unit", "unit.cl", lack, refuses_nothing, pass},
    Toy{"even", "even.cl", lack_nothing, refuse_odd, pass_up_to_10},
    Toy{"small", "small.cl", lack_nothing, refuses_nothing, pass_up_to_10},
    Toy{"portable", "toy.cl", lack_nothing, refuses_nothing, pass}};
constexpr ImplementationList<Toy> kToyList{"toy", kToys};

class ChooseImplementation : public testing::Test {
 protected:
  static std::string_view chosen(int n) {
    tested = 0;
    return choose_implementation(test::context_of(Variant::portable), kToyList, n).name;
  }
};

TEST_F(ChooseImplementation, TakesTheFirstThatSupportsTheProblem) {
  EXPECT_EQ(chosen(4), "even");
  EXPECT_EQ(chosen(5), "small");
}

TEST_F(ChooseImplementation, TestsOnlyThoseThatSupportTheProblem) {
  (void)chosen(5);
  EXPECT_EQ(tested, 1);
}

TEST_F(ChooseImplementation, PassesOverThoseThatFailTheirSelfTest) {
  EXPECT_EQ(chosen(12), "portable");
  EXPECT_EQ(tested, 2) << "the last one needs no test";
}

template <class Implementation>
void expect_list(const ImplementationList<Implementation>& list) {
  std::set<std::string_view> names;
  for (const Implementation& each : list.all) names.insert(each.name);
  EXPECT_EQ(names.size(), list.all.size()) << list.family << ": two have the same name";
  const Implementation& last = list.all.back();
  Context& portable = test::context_of(Variant::portable);
  EXPECT_EQ(last.unavailable(portable), nullptr) << list.family;
}

TEST(ImplementationLists, HaveDifferentNamesAndEndWithAPortableOne) {
  expect_list(gemm_implementations());
  expect_list(attention_implementations());
  expect_list(attention_backward_implementations());
  expect_list(lora_gradient_implementations());
  expect_list(head_loss_implementations());
  expect_list(decode_layers_implementations());
}

TEST(GemmImplementations, OfThePortableVariantAreThePortableOnes) {
  Context& context = test::context_of(Variant::portable);
  for (const std::int64_t rows : {1, 200}) {
    const GemmProduct p{.y = context.allocate({rows, 64}, DType::f32, MemoryTag::scratch),
                        .x = context.allocate({rows, 64}, DType::f32, MemoryTag::scratch),
                        .w = context.allocate({64, 64}, DType::f32, MemoryTag::scratch),
                        .epilogue = {}};
    EXPECT_EQ(choose_gemm(context, p).name, rows == 1 ? "skinny" : "portable");
  }
}

}  // namespace
}  // namespace clora
