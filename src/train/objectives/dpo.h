#pragma once
#include "pipeline/unit.h"

namespace burnish::train {

// Direct preference optimization of diffusion models (Wallace et al. 2023, arXiv 2311.12908).

/// The metadata column of the picture that was liked less; `image` is the one that was preferred.
inline const char* const kRejectedImage = "rejected_image";
/// The logged value that says how much of its gradient a pair has: sigmoid(-margin), which is ½ at a margin of 0 and nears 0 above.
inline const char* const kGradientWeight = "gradient_weight";

/// Makes the unit from the mean squared errors [B] of both pictures, by the model and by the reference, to loss [B] and margin [B]:
///   margin = -β/2 ((error - rejected_error) - (reference_error - reference_rejected_error)),  loss = -log sigmoid(margin).
/// The factors are those of the authors' program (SalesforceAIResearch/DiffusionDPO, train.py), so that its numbers carry over: errors are
/// means over elements, and β/2 stands for the paper's β T ω(λ) times the number of elements. diffusers' example
/// (research_projects/diffusion_dpo/train_diffusion_dpo.py) has no ½: its 2500 is 5000 here. No weight depends on time. Also writes
/// implicit_accuracy [B], 1 where the margin is above 0, and kGradientWeight [B].
pipeline::Unit dpo_unit(double beta);

}  // namespace burnish::train
