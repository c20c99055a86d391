// Ten training steps of a family's model as PEFT takes them: the documents, the first matrices and
// the comparison that the scripts of tests/reference describe (families.py).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/data/packing.hpp"
#include "clora/model/data/records.hpp"
#include "clora/model/training/trainer.hpp"

namespace clora::test {

// factor * sin(0.37 i + 0.11 j + phase) of [rows, columns], or with i and j exchanged.
std::vector<float> sines(std::int64_t rows, std::int64_t columns, double factor, double phase,
                         bool transposed = false);

// The first matrices A of an adapter of layers in blocks; its B stay zero.
void fill_reference_adapter(const Adapter& adapter);

// Ids (37 i + 11 + shift) % vocabulary, all labelled.
Record document(int length, int shift, std::int64_t vocabulary);
PackedRows two_documents(std::int64_t vocabulary);

// Takes ten steps on two_documents() and expects the "loss" and "grad_norm" of `reference`, at its
// "lr": losses to 5e-5, norms to a relative tolerance.
void expect_peft_steps(Trainer& trainer, const nlohmann::json& reference, std::int64_t vocabulary,
                       double norm_tolerance);
// Expects the "logits" of the second document.
void expect_peft_logits(LanguageModel& model, const Adapter& adapter,
                        const nlohmann::json& reference);

}  // namespace clora::test
