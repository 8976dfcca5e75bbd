#pragma once
#include <filesystem>
#include <optional>

#include "judging/eyes.h"
#include "train/objectives/nft_options.h"
#include "train/samples/samples.h"

namespace burnish::train {

// Shape letters: N pictures, T scores that count.

/// A picture that a run drew and wants scored.
struct ScoredPicture {
  at::Tensor pixels_HW3;       ///< uint8; of a clip its first frame
  std::filesystem::path file;  ///< where it is written
  std::string prompt;
};

/// Whatever scores pictures: models that look at them, as `burnish best` has them, and a program of the user's.
class Rewards {
 public:
  /// Finds the models, which are fetched where they are named by ids on a hub. `options` and `samples`, whose pictures likeness compares
  /// with, must outlive this. Throws a config Error for a model that cannot score what counts.
  Rewards(const RewardOptions& options, const Samples& samples, models::ModelOptions model_options);

  /// Returns the scores of pictures [N, T], fp64, in the order of the options' terms: likeness is the mean cosine to the training pictures,
  /// prompt that to the prompt. Models are loaded for it and dropped. A data Error for a program that fails or answers something else.
  at::Tensor scores(const std::vector<ScoredPicture>& pictures);
  /// Tells whether pictures have to be in files.
  bool reads_files() const { return options_.has(kProgramReward); }
  /// Returns the models that look; null where none does.
  judging::Eyes* eyes() { return eyes_ ? &*eyes_ : nullptr; }

 private:
  at::Tensor likeness(const std::vector<ScoredPicture>& pictures);
  at::Tensor answers(const std::vector<ScoredPicture>& pictures);

  const RewardOptions& options_;
  const Samples& samples_;
  models::ModelOptions model_options_;
  models::ModelFiles files_;
  std::optional<judging::Eyes> eyes_;
  at::Tensor training_ND_;  ///< the training pictures as unit vectors, once they were looked at
};

/// Asks a command of the shell for the scores of pictures [N], fp64: it reads a JSON list of {"picture", "prompt"} in one line, and the
/// last line that it prints is a list with a number for each. Throws a data Error for one that fails, takes longer than `timeout` seconds,
/// or answers something else.
at::Tensor program_scores(const std::string& command, double timeout, const std::vector<ScoredPicture>& pictures);

}  // namespace burnish::train
