#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "optim/update_rule.h"

namespace burnish::optim {

// The update rules. All decay weights apart from the gradient ("decoupled"), by the step's rate times weight_decay, as AdamW does.
// Numbers that stand for all parameters are fp64.

/// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101), equal to torch.optim.AdamW on fp32 parameters.
struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
};
RulePtr adamw(const AdamWOptions& options);

/// AdamW whose averages are kept in 8 bits: codes of the dynamic maps of dynamic_map, with one scale for each block of 256 elements
/// (Dettmers et al. 2022, arXiv 2110.02861; bitsandbytes, backends/cpu/ops.py). The update sees the averages before they are rounded.
RulePtr adamw8bit(const AdamWOptions& options);
/// The 256 values, rising, that codes of an average stand for, as fractions of the block's largest magnitude: the "dynamic" data type of
/// bitsandbytes (functional.py, create_dynamic_map). With a sign bit a code has e leading zeros and 6 - e bits of a linear fraction;
/// unsigned ones have a bit more of it.
std::vector<float> dynamic_map(bool is_signed);
/// Below this many elements bitsandbytes keeps averages in fp32, and so does make_optimizer.
constexpr int64_t kSmallestIn8Bits = 4096;

/// AdEMAMix (Pagliardini et al. 2024, arXiv 2409.03137), equal to bitsandbytes' optim/ademamix.py: AdamW whose update is of two averages of
/// the gradients, the second so slow that it holds those of thousands of steps.
struct AdEMAMixOptions {
  double beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999, eps = 1e-8;  ///< beta3 is the slow average's
  double alpha = 5;                                               ///< factor on the slow average
  int64_t t_alpha = 0, t_beta3 = 0;                               ///< steps over which alpha and beta3 rise; 0: whole from the first
};
RulePtr ademamix(const AdEMAMixOptions& options);
/// AdEMAMix whose three averages are kept as adamw8bit's are.
RulePtr ademamix8bit(const AdEMAMixOptions& options);

/// Makes a rule cautious (Liang et al. 2024, arXiv 2411.16085): of each update what goes against the gradient of its step is left out, and
/// the rest grows by the share of the parameter's numbers that is left, 1e-3 at least. Not for rules that average.
RulePtr cautious(RulePtr rule);

/// Lion (Chen et al. 2023, arXiv 2302.06675): steps of the rate itself, by the sign of an average.
struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99;
};
RulePtr lion(const LionOptions& options);

/// Adafactor (Shazeer and Stern 2018, arXiv 1804.04235) as transformers (optimization.py) and sd-scripts have it: the second moment of a
/// matrix, or of the last two dimensions, is kept as its rows' and its columns' means.
struct AdafactorOptions {
  double eps1 = 1e-30;           ///< added to squared gradients
  double eps2 = 1e-3;            ///< smallest scale of a parameter, for scale_parameter
  double clip_threshold = 1;     ///< most that the update's root mean square may be
  double decay_rate = -0.8;      ///< the second moment keeps 1 - step^decay_rate
  double beta1 = 0;              ///< decay of an average of the updates; 0 keeps none
  bool scale_parameter = false;  ///< multiplies the rate with the parameter's root mean square
  bool relative_step = false;    ///< min(1e-2, 1 / sqrt(step)) takes the place of the rate
  bool warmup_init = false;      ///< with relative_step: min(1e-6 step, 1 / sqrt(step))
};
RulePtr adafactor(const AdafactorOptions& options);

/// Automagic of ai-toolkit (toolkit/optimizers/automagic3.py, the third): Adafactor's second moment, whose updates are clipped as a whole
/// and number by number, at one rate that is found while training. Of every number the signs of its last updates are kept. Where all of
/// them are equal it votes for a larger rate, where each differs from the one before for a smaller one, with the size of its update; of the
/// sums V of votes and S of all sizes, each step ends with the rate times e^(V / S).
struct AutomagicOptions {
  double beta2 = 0.999, eps = 1e-30;
  double clip_threshold = 1;     ///< most that the update's root mean square, and then each of its numbers, may be
  int64_t polarity_history = 8;  ///< signs that are looked at, 2 to 8
};
RulePtr automagic(const AutomagicOptions& options);

/// CAME (Luo et al. 2023, arXiv 2307.02047), equal to came-pytorch: Adafactor's factors, an average of the updates, and factors of how far
/// updates are from it.
struct CameOptions {
  double beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999;
  double eps1 = 1e-30, eps2 = 1e-16;
  double clip_threshold = 1;
};
RulePtr came(const CameOptions& options);

/// Prodigy (Mishchenko and Defazio 2023, arXiv 2306.06101), equal to prodigyopt: AdamW that finds its rate d itself, from how far the
/// parameters have come; the step's rate is a factor on it.
struct ProdigyOptions {
  double beta1 = 0.9, beta2 = 0.999;
  double beta3 = 0;  ///< decay of the sums that d comes from; 0 takes sqrt(beta2)
  double eps = 1e-8;
  double d0 = 1e-6, d_coef = 1;  ///< the first d, and a factor on every estimate
  double growth_rate = 0;        ///< factor by which d may grow in a step; 0 for any
  bool use_bias_correction = false;
  bool safeguard_warmup = false;  ///< leaves the rate out of the sums, for schedules with a warm-up
  int64_t slice_p = 1;            ///< estimates d from every so many elements, which saves memory
};
RulePtr prodigy(const ProdigyOptions& options);

/// Schedule-free AdamW (Defazio et al. 2024, arXiv 2405.15682), equal to schedulefree's AdamWScheduleFree without its own warm-up:
/// gradients are taken at y, between the fast z and their average x, which takes the place of a decaying rate. x is the rule's `average`.
struct ScheduleFreeOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double r = 0;                ///< weighs later steps more, by step^r
  double weight_lr_power = 2;  ///< weighs steps by the largest rate so far to this power
};
RulePtr adamw_schedulefree(const ScheduleFreeOptions& options);

/// Prodigy's estimate of the rate for schedule-free AdamW, equal to ProdigyPlusScheduleFree of prodigy-plus-schedule-free with factored and
/// use_stableadamw off and one group, but for the sums of d, which are kept in fp32. beta2 is 0.99 there, and d grows by 2^(1/4) a step at
/// most. use_bias_correction, safeguard_warmup and growth_rate are not read.
RulePtr prodigy_schedulefree(const ProdigyOptions& options);

/// Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon), for matrices [rows, columns] alone, equal to torch.optim.Muon: the average
/// of the gradients, made nearly orthogonal by Newton and Schulz's iteration. Products are in bf16, as they are there, but in fp32 on the
/// CPU.
struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  int64_t ns_steps = 5;
  /// Tells whether updates have the size of AdamW's, 0.2 sqrt(max(rows, columns)) (Liu et al. 2025, arXiv 2502.16982), so that one rate
  /// does for both; else sqrt(max(1, rows / columns)).
  bool match_rms_adamw = true;
};
RulePtr muon(const MuonOptions& options);

}  // namespace burnish::optim
