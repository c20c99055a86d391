// The directives for clc in the comment block at the beginning of a kernel file:
//
//   //! clc: build [on DEVICES:] NAME[=VALUE]... OPTION...
//        A set of build options; {a,b} expands to one set for each value. DEVICES is a comma-
//        separated list of cpu, gpu, nvidia, avx2, avx512_vnni, or a minimum matrix unit:
//        avx512_bf16, amx, mma, wgmma, mfma, wmma_gfx11, wmma_gfx12, xmx. The set is skipped on
//        other devices.
//   //! clc: budget [of KERNEL] [on TARGET] NAME<=VALUE...
//        Limits for `clc stats`: registers, spills, local, private; = requires the exact value.
//   //! clc: grid [of KERNEL] X[,Y[,Z]] [by X[,Y[,Z]]]
//        Global and local sizes, as expressions (tools/clc/kernel_file/expression.hpp) of -D values
//        and of the call's integer arguments; the default of calls without sizes.
//   //! clc: tune [of KERNEL] NAME={a,b,c}... [where EXPRESSION]
//        The options that `clc tune` tries.
//   //! clc: allow RULE REASON
//        Disables a rule of `clc lint` for this file.
//   //!      more of the line before
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/device/device.hpp"

namespace clora {

struct BuildSet {
  std::vector<std::string> devices;  // the set applies to any of them; empty: all
  std::string options;               // "-D X_TYPE=f32 -cl-mad-enable"
};

struct BudgetLimit {
  std::string name;  // "registers"
  bool exact = false;
  double value = 0;
};
struct Budget {
  std::string kernel, target;  // empty: all
  std::vector<BudgetLimit> limits;
};

struct TuneParameter {
  std::string name;
  std::vector<std::string> values;
};
struct TuneSpace {
  std::string kernel;  // empty: all
  std::vector<TuneParameter> parameters;
  std::string where;  // empty: all
};

struct GridRule {
  std::string kernel;         // empty: all
  std::string global, local;  // "ceil(M/TILE)*SIDE,1"; empty local: not stated
};

struct AllowedRule {
  std::string rule, reason;
};

struct FileHead {
  std::vector<BuildSet> builds;
  std::vector<Budget> budgets;
  std::vector<GridRule> grids;
  std::vector<TuneSpace> tunes;
  std::vector<AllowedRule> allowed;
};

// Parses the text of `file`, which the errors name. Errors: invalid_file, with the line and the
// accepted forms.
FileHead read_file_head(std::string_view text, std::string_view file);

// The build options of "NAME[=VALUE] -option": names get a -D.
std::string options_of_words(const std::vector<std::string>& words);

// All combinations of one value per parameter; the last parameter varies fastest.
std::vector<std::vector<std::string>> choices_of(const std::vector<TuneParameter>& parameters);

// Whether the set applies to the device.
bool is_meant_for(const BuildSet& set, const Device& device);

}  // namespace clora
