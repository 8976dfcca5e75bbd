#pragma once
#include <string_view>

#include "checkpoint/state.h"
#include "dist/reduction.h"
#include "dist/world.h"
#include "memory/host_store.h"
#include "memory/transfer.h"
#include "nn/token_shares.h"
#include "optim/averaged.h"
#include "optim/gradients_in_place.h"
#include "pipeline/schedule.h"
#include "train/step/ownership.h"
#include "train/step/replays.h"
#include "train/step/settings.h"
#include "train/subject/attached.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// What batches are computed on.
struct Execution {
  c10::Device device;
  std::unique_ptr<memory::Upload> upload;                   ///< of batches to it
  std::unique_ptr<Replays> replays = {};                    ///< null where every part is computed as usual
  std::unique_ptr<optim::GradientsInPlace> gradients = {};  ///< there where parts may be replayed
  std::shared_ptr<nn::TokenShares> token_shares = {};       ///< of the denoiser's; null where each process has all tokens
};

/// What a training step runs and changes.
struct Trainee {
  models::Model& model;  ///< with all loaded that the live stage runs
  pipeline::Stage live;
  Execution execution;
  std::unique_ptr<Attached> attached = {};       ///< what trains of it
  std::shared_ptr<memory::HostStore> host = {};  ///< null where nothing waits there
  std::unique_ptr<optim::Optimizer> optimizer = {};
  std::unique_ptr<optim::Ema> ema = {};             ///< null where files take the weights themselves
  std::unique_ptr<Ownership> ownership = {};        ///< of parameters; null where each process keeps all of them
  std::unique_ptr<dist::Reduction> reduction = {};  ///< of gradients over processes; null where there is none
  checkpoint::Progress progress = {};
  int64_t saved_step = -1;  ///< of the state on disk; -1 for none
  std::string_view place;   ///< in the step: what goes on

  /// As Averaged takes it.
  optim::Sharing sharing() const;
};

// Places in a step.
inline constexpr std::string_view kForward = "forward", kBackward = "backward", kOptimizerStep = "optimizer step",
                                  kAfterStep = "after the step";

/// By parameter of the optimizer, the number of the first among the models that the live stage runs which it belongs to; of what lies in a
/// block, of the one that runs the block.
std::vector<size_t> uses_of(const Trainee& trainee);

/// The blocks of a loaded component in the order in which they run, by names as in "dit.transformer_blocks.3".
using NamedBlocks = std::vector<std::pair<std::string, nn::Block*>>;
NamedBlocks named_blocks(models::Components& components, const std::string& component);

/// Loads the models that run at every visit, hangs adapters and makes the optimizer.
Trainee load_trainee(const Subject& subject, const pipeline::Schedule& schedule, const StepSettings& settings, const KeptForBackward& kept,
                     c10::Device device, const dist::World& world);

/// Puts the state back that an earlier run saved in `folder`; a config Error unless it was made with the trainee's fingerprint.
void resume(Trainee& trainee, const std::filesystem::path& folder);

}  // namespace burnish::train
