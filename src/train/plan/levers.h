#pragma once
#include <optional>
#include <string>
#include <vector>

#include "train/options/settings.h"
#include "train/plan/memory_plan.h"

namespace burnish::train {

/// An option and its value as they stand behind a command; the value of a switch that is set is "".
struct Asked {
  std::string option, value;
  auto operator<=>(const Asked&) const = default;
};
std::string to_flags(const std::vector<Asked>& asked);

/// A function from the settings of a run to those of one that takes less memory and more time, and the options that ask for it.
struct Lever {
  /// The value that an option has, by its name, in a run whose lever is pulled; nothing where the run says it already.
  struct LeverOption {
    std::string option;
    std::optional<std::string> (*value)(const Settings& pulled);
  };

  bool (*can)(const Settings&, const MemoryPlan&);  ///< whether the run has not pulled it yet, and may
  Settings (*pull)(Settings, const MemoryPlan&);
  std::vector<LeverOption> rows;  ///< the first names the lever: of two levers whose first option is one the later holds
  bool makes_codes = false;       ///< whether it makes codes of weights, which reads_files needs as their files have them
  bool reads_files = false;
  bool recomputes = false;   ///< whether it recomputes blocks by number, in whose place an activation_budget may stand
  bool accumulates = false;  ///< whether it accumulates batches, so that nothing can be updated inside backward
  bool pages = false;        ///< whether blocks go from main memory to the device twice a step

  std::vector<Asked> says(const Settings& pulled) const;
};

/// Returns all levers, in order of what they cost a step.
const std::vector<Lever>& levers();

using Levers = std::vector<const Lever*>;

/// A run with some levers pulled.
struct Pulled {
  struct PulledLever {
    const Lever* lever;
    std::vector<Asked> says;
  };
  Settings settings;
  std::vector<PulledLever> parts = {};

  std::vector<Asked> says() const;
};

/// Pulls levers one after the other, without those that the ones before them leave nothing to do.
Pulled pull(const Levers& levers, const Settings& settings, const MemoryPlan& plan);

/// Replaces the recomputing of blocks by number by a budget of so many MiB for what forward leaves for backward. Nothing where no lever
/// that recomputes is pulled.
std::optional<Pulled> with_budget(Pulled pulled, int64_t mebibytes);

}  // namespace burnish::train
