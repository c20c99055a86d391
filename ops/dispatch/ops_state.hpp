// State of the ops that belongs to one Context, one struct per kind: created on first use, freed
// with the Context. Threads: those of the Context.
#pragma once

#include <map>
#include <memory>
#include <typeindex>

#include "clora/runtime/context.hpp"

namespace clora {

// REQUIRES: T is default-constructible.
template <class T>
T& ops_state(const Context& context) {
  using States = std::map<std::type_index, std::shared_ptr<void>>;
  std::shared_ptr<void>& all = context.ops_state();
  if (all == nullptr) all = std::make_shared<States>();
  std::shared_ptr<void>& mine = (*static_cast<States*>(all.get()))[typeid(T)];
  if (mine == nullptr) mine = std::make_shared<T>();
  return *static_cast<T*>(mine.get());
}

}  // namespace clora
