// A pause divides the commands of a Batch: submit() enqueues those up to the next pause, and the
// submit() after it continues there; after the last part, it begins again with the first.
//
// The temporaries of the batch live across a pause: other work may be enqueued during it, but no
// batch that shares the arena. Traces show a pause as a mark.
#pragma once

#include <string_view>

#include "clora/runtime/commands/batch.hpp"

namespace clora {

inline constexpr std::string_view kPauseMark = "pause";

inline void record_pause(Batch& batch) { (void)batch.mark(kPauseMark); }

}  // namespace clora
