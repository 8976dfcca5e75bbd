#pragma once
#include "pipeline/unit.h"
#include "train/objectives/nft_options.h"

namespace burnish::train {

// Shape letters: N pictures of a round, B of them that a batch sees, T scores that count.

/// The names of what a drawing gives for each visit: the latents of the picture, in each stream under its own name (LatentSpace), how good
/// the picture is among its group, from 0 to 1 [B], and what the policy that drew predicts of the noisy picture.
inline const char *const kDrawnPicture = "drawn_picture", *const kOptimality = "optimality", *const kOldPrediction = "old_prediction";
/// The name of what is logged of the round: the mean score, its standard deviation, then the mean of each term [B, 2 + T].
inline const char* const kRoundScores = "round_scores";

/// Computes how good each picture is [N], fp64, from sums of scores [N] that stand group by group: 1/2 + 1/2 · clamp(A / most, -1, 1) with
/// A = (score - mean of its group) / (standard deviation of all + 1e-4), as the authors' program has it by itself
/// (flow_grpo/stat_tracking.py with global_std).
at::Tensor optimality_of(const at::Tensor& scores_N, int64_t group_size, double most_advantage);

/// Makes the unit from predictions by what trains (v), by the policy that drew (v_old) and by the model before training (v_0), of x = (1 -
/// σ) x0 + σ ε, to loss [B] and what is logged. With v± = v_old ± β (v - v_old), x0± = x - σ v±, and r the optimality:
///   loss = most_advantage/β · (r e(x0+) + (1 - r) e(x0-)) + kl_weight · mse(v, v_0),  e(y) = mse(y, x0) / max(mean|y - x0|, 1e-5),
/// the divisor without gradient (DiffusionNFT, arXiv 2509.16117; NVlabs/DiffusionNFT, scripts/train_nft_sd3.py). Losses of streams are
/// added by Stream::weight. Also writes policy_loss, kl_loss, drift, which is |v - v_0| / |v_0|, reward, reward_spread, and where several
/// scores count the mean of each, reward_NAME. `model` must outlive the unit.
pipeline::Unit nft_unit(models::Model& model, const NftOptions& options);
/// Returns the names of the values that the unit writes beside the loss.
std::vector<std::string> nft_logged(const RewardOptions& reward);

}  // namespace burnish::train
