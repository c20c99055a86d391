// The first matrices of adapters that begin with a part of the base model's weights: PiSSA (Meng et
// al., 2024, arXiv:2404.02948) and OLoRA (Buyukakyuz, 2024, arXiv:2406.01775).
//
// Both train B A of rank R beside W - s B0 A0, where B0 A0 are the first B and A. clora leaves W as
// it is stored: the adapter has 2 R ranks, [B, -B0] and [A; A0], of which the last R are frozen
// (TrainerConfig::frozen_ranks). So the model first computes what the base model does, but for the
// rounding of sums in which B A and B0 A0 cancel, and the result is a plain adapter of W, as
// converted_adapter() (lora/conversion.hpp) makes one of PEFT's.
#pragma once

#include <optional>
#include <string_view>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

enum class PrincipalStart {
  // s B A is the best approximation of W of rank R, with sqrt(singular value / s) in each matrix;
  // of a W with both sides above 192, by a randomised range finder with 4 power iterations.
  pissa,
  // B = the first R columns of Q, A = the first R rows of R, of the QR decomposition of W.
  olora,
};

// "pissa" or "olora"; nullopt for another name.
std::optional<PrincipalStart> principal_start_of(std::string_view name);

// Throws Error(unsupported), naming the setting or module, for an adapter that cannot begin so:
// with DoRA, dropout, embeddings, or an odd rank, or one above twice the least side of a layer.
void check_principal_start(const Adapter& adapter);

// Overwrites the matrices of all modules, each with its own rank 2 R. Waits. On a Context that
// allocates nothing (ContextConfig::dry_run) only checks. Errors: those of check_principal_start();
// invalid_argument if the model has no stored weight of a module, such as a layer of experts.
void initialise_principal(const LanguageModel& model, Adapter& adapter, PrincipalStart start);

}  // namespace clora
