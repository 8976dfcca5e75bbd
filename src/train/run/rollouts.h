#pragma once
#include "base/error.h"
#include "train/run/opened.h"
#include "train/run/rewards.h"
#include "train/step/step.h"

namespace burnish::train {

/// Draws the pictures that a run learns from: at the start of each round (Rounds) by the average of what trains (OwnDrawings), which have
/// them scored; and gives each batch those that it sees.
class Rollouts {
 public:
  /// Finds what scores, before anything is computed. The run must outlive it.
  explicit Rollouts(const Opened& run);

  /// Draws where the trainee's next step begins a round of which it has no pictures yet. Throws NotDrawn where that fails or is
  /// interrupted: then the trainee can be saved as it is, and goes on here.
  void prepare(Trainee& trainee, const Course& course, const Feed& feed);
  /// Puts into a batch what it sees of its round, and what the policy that drew predicts of that.
  void complete(const Trainee& trainee, const Course& course, Batch& batch, const BatchId& id) const;
  Rewards& rewards() { return rewards_; }

 private:
  std::vector<pipeline::Values> draw(const Trainee& trainee, const BatchVisits& pictures, const Feed& feed) const;
  std::vector<ScoredPicture> decode(const Trainee& trainee, const std::vector<pipeline::Values>& latents,
                                    const BatchVisits& pictures) const;
  at::Tensor sums_of(const at::Tensor& scores_NT) const;

  const Opened& run_;
  models::Model& model_;
  NftOptions own_;
  Rewards rewards_;
};

/// Drawing or scoring the pictures of a round ended before its end.
class NotDrawn : public Error {
 public:
  using Error::Error;
};

}  // namespace burnish::train
