#pragma once
#include "train/objectives/dmd2_options.h"
#include "train/objectives/passes.h"

namespace burnish::train {

/// The names of what stands beside the denoiser, which is the student, and of what is drawn for a visit beside the student's noise and
/// time.
inline const char *const kTeacher = "teacher", *const kFakeScore = "fake_score", *const kDiscriminator = "discriminator";
inline const char *const kMatchingSigma = "matching_sigma", *const kMatchingNoise = "matching_noise",
                         *const kRegularisingNoise = "regularising_noise", *const kStepNoise = "step_noise";
/// The kinds of steps.
enum Dmd2Phase : int64_t { student_steps, critic_steps };

/// The values that are logged. Each is of one kind of step, and not a number in steps of the other kind.
inline const std::vector<std::string> kDmd2Losses{"distribution_matching_loss", "generator_loss", "fake_score_loss", "discriminator_loss"};

/// Makes the unit from latents [B, C, ...], what is drawn of them and the denoiser's conditions, under guidance also those of no prompt
/// (`negative` names them), to loss [B] and kDmd2Losses. With x̂ what the student makes of latents at one of its times, or under
/// backward simulation of `noisy`, its own drawing up to there (drawn_latents.h), y = x̂ at a drawn time, and x0(m) what model m takes y
/// for:
///   a student's step: ½ mse(x̂, x̂ - (x0(fake score) - x0(teacher)) / mean|x̂ - x0(teacher)|) + gan_weight · softplus(-D(teacher's blocks
///   on y)), its target and divisor without gradient;
///   another one: mse(x0(fake score), x̂) + softplus(D(y)) + softplus(-D(data at the same noise)) + r1_weight · mse(D(data), D(data moved)).
/// Further streams have levels and noise of their own, and their losses are added by Stream::weight, also where samples lack them; the
/// discriminator sees what blocks make of the first. `options` name the blocks that the discriminator reads. The model must outlive the
/// unit.
pipeline::Unit dmd2_unit(const Subject& subject, const Dmd2Options& options, const std::set<std::string>& negative);

}  // namespace burnish::train
