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
#include "train/step/own_drawings.h"
#include "train/step/ownership.h"
#include "train/step/replays.h"
#include "train/step/settings.h"
#include "train/subject/attached.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// The device that batches are computed on, and what computing on it needs.
struct Execution {
  c10::Device device;
  std::unique_ptr<memory::Upload> upload;                   ///< brings batches to the device
  std::unique_ptr<Replays> replays = {};                    ///< null where every part is computed as usual
  std::unique_ptr<optim::GradientsInPlace> gradients = {};  ///< gradients that stay in one place, where parts may be replayed
  std::shared_ptr<nn::TokenShares> token_shares = {};       ///< shares of the denoiser's tokens; null where each process has all tokens
  std::shared_ptr<memory::HostStore> host = {};             ///< null where nothing waits in host memory
};

/// The model that a training step runs, and all that the step changes.
struct Trainee {
  models::Model& model;  ///< has all models loaded that the live stage runs
  pipeline::Stage live;
  Execution execution;
  std::unique_ptr<Attached> attached = {};  ///< the trained values of the model
  std::unique_ptr<optim::Optimizer> optimizer = {};
  std::unique_ptr<optim::Ema> ema = {};             ///< null where files take the weights themselves
  std::unique_ptr<OwnDrawings> own = {};            ///< pictures that the run draws itself; null where it draws none
  std::unique_ptr<Ownership> ownership = {};        ///< owners of parameters; null where each process keeps all of them
  std::unique_ptr<dist::Reduction> reduction = {};  ///< sums gradients over processes; null where there is none
  checkpoint::Progress progress = {};
  int64_t saved_step = -1;  ///< step of the state on disk; -1 for none
  std::string_view place;   ///< what goes on in the step: kForward and so on

  /// Returns what a state is saved of.
  checkpoint::Trainee saved() const;
  /// Returns how the trainee's values are shared, as optim::Averaged takes it.
  optim::Sharing sharing() const;
};

// Names of what goes on in a step (Trainee::place).
inline constexpr std::string_view kForward = "forward", kBackward = "backward", kOptimizerStep = "optimizer step",
                                  kAfterStep = "after the step";

/// Returns, by parameter of the optimizer, the number of the first model that uses it, among those that the live stage runs; for a
/// parameter in a block, the number of the model that runs the block.
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
