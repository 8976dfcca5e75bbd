#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace burnish::judging {

/// What pictures that were drawn at a step stand for, as unit vectors, row by row.
struct Drawn {
  int64_t step = 0;
  std::vector<int64_t> numbers = {};  ///< of the previews, by which those of other steps are of one prompt and noise
  at::Tensor pictures_ND = {};
  at::Tensor answers_ND = {};  ///< the pictures as what places prompts too sees them; undefined where nothing does
  at::Tensor prompts_ND = {};  ///< of each one's prompt; undefined where none is known
};

/// How pictures of a step compare with the training pictures, with their prompts and with each other; shares of likeness are cosines.
struct Scores {
  double likeness = 0;                           ///< to the training pictures, the mean over all pairs
  std::optional<double> answer = {};             ///< to the prompt of each
  std::optional<double> counted_variety = {};    ///< variety, at most that of the training pictures: a model before training has more
  std::optional<double> variety = {};            ///< 1 less the likeness of two of them, the mean over all pairs
  std::optional<double> drift = {};              ///< 1 less the likeness to the same preview before training
  double nearest = 0;                            ///< the largest likeness to one training picture
  int64_t nearest_preview = 0, nearest_row = 0;  ///< which two these are: a preview's number, and the row of a training picture
  int64_t num_copies = 0;                        ///< previews that are nearer to a training picture than `copy_from`
};

/// Returns from which likeness on a preview counts as the copy of a training picture: halfway between what is usual between a training
/// picture and its nearest other, in the middle of all, and 1. Of one picture alone 0.9.
double copy_from(const at::Tensor& training_ND);

/// Compares the pictures of a step; `before` is what was drawn ahead of training, null where nothing was.
Scores scores_of(const Drawn& drawn, const at::Tensor& training_ND, double copies_from, const Drawn* before);

}  // namespace burnish::judging
