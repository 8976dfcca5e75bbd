#include <fmt/core.h>

#include "diffusion/loss_weighting.h"
#include "train/objectives/robust_loss.h"
#include "train/options/asked.h"
#include "train/options/rows.h"

namespace burnish::train {

using config::Level;
using Times = diffusion::TimestepOptions;

namespace {

/// What a row says that stands in the words of another.
std::string said_by_another() { return ""; }

bool is_robust(const TrainOptions& o) { return o.robust.type != "l2"; }
bool scales_threshold(const TrainOptions& o) { return is_robust(o) && o.robust.schedule != "snr"; }
bool has_mask_column(const TrainOptions& o) { return o.masks.from == "column"; }

void weighting_fields(config::Fields& f, TrainOptions& o) {
  f("timestep_sampling", o.timesteps.mode, "{words}; default takes the model's own")
      .known(diffusion::timestep_samplings())
      .decides_what_is_learned();
  f("stratified_timesteps", o.course.stratified_times,
    "spread the times of an optimizer step evenly over their distribution: of N samples each draws in an Nth of it of its own")
      .decides_what_is_learned()
      .counts_when("tasks that draw a time for each sample (sft, dpo)", [&o] { return draws_times(o); });
  f("loss_weighting", o.loss.weighting, "{words}; default takes the model's own")
      .known(diffusion::loss_weightings())
      .decides_what_is_learned();
  f("min_snr_gamma", o.loss.min_snr_gamma, "gamma of Min-SNR loss weights, of models with discrete timesteps; 0 is off")
      .decides_what_is_learned();
}

void robust_fields(config::Fields& f, TrainOptions& o) {
  f("loss_type", o.robust.type, "{words}: how much large errors count").known(loss_types()).learned_as([&o] {
    const auto& r = o.robust;
    return r.type == "l2" ? "" : fmt::format("{} {} {} {}", r.type, r.schedule, r.c, r.scale);
  });
  f("huber_schedule", o.robust.schedule, "how huber's and smooth_l1's threshold goes with time: {words}")
      .known(huber_schedules())
      .learned_as(said_by_another)
      .counts_when("loss_type huber and smooth_l1", [&o] { return is_robust(o); })
      .level(Level::all);
  f("huber_c", o.robust.c, "the threshold of huber and smooth_l1, above which errors count less than by their square")
      .learned_as(said_by_another)
      .counts_when("loss_type huber and smooth_l1", [&o] { return is_robust(o); });
  f("huber_scale", o.robust.scale, "factor on that threshold under huber_schedule constant and exponential")
      .learned_as(said_by_another)
      .counts_when("loss_type huber and smooth_l1 with huber_schedule constant or exponential", [&o] { return scales_threshold(o); })
      .level(Level::all);
}

void mask_fields(config::Fields& f, TrainOptions& o) {
  f("prior_loss_weight", o.course.prior_loss_weight, "factor on the losses of the class set")
      .label("Weight of regularization pictures")
      .at_least(0)
      .learned_as([&o] { return o.course.prior_loss_weight == 1 ? "" : fmt::format("prior_loss_weight {}", o.course.prior_loss_weight); });
  f("masked_loss", o.masks.from,
    "where a sample's loss counts: column, as far as the gray picture in mask_column is white; alpha, as far as the picture is opaque; "
    "none, everywhere")
      .label("Use masks")
      .one_of({"none", "column", "alpha"})
      .learned_as([&o] {
        const auto& m = o.masks;
        return m.from == "none" ? "" : fmt::format("masked_loss {} {}{}", m.from, m.unmasked_weight, m.per_area ? " per area" : "");
      });
  f("mask_column", o.masks.column, "column that names the masks of masked_loss column; rows that leave it empty count whole")
      .counts_when("masked_loss column", [&o] { return has_mask_column(o); });
  f("unmasked_weight", o.masks.unmasked_weight, "of masked_loss: how much what lies outside of a mask still counts, 0 to 1")
      .learned_as(said_by_another);
  f("normalize_masked_area_loss", o.masks.per_area,
    "of masked_loss: a sample's loss is the mean over what counts of it, not over all of it")
      .learned_as(said_by_another);
  f("noise_offset", o.noise_offset, "adds to the noise a draw of this deviation for each channel").at_least(0).decides_what_is_learned();
  f.row("mask_folder").counts_when("masked_loss column", [&o] { return has_mask_column(o); });
}

/// Numbers of how times are drawn, which count with the schemes that read them.
void time_fields(config::Fields& f, Times& o) {
  const auto read = [&o](double Times::*number) { return [&o, number] { return diffusion::reads(o, number); }; };
  f("discrete_flow_shift", o.shift,
    "shift towards noise of timestep_sampling shift, sigma, logit_normal, mode, heavy_tail, cos_map, inverted_parabola, logistic and beta")
      .decides_what_is_learned()
      .counts_when("a timestep_sampling that shifts (shift, sigma, logit_normal, ...)", read(&Times::shift));
  f("sigmoid_scale", o.sigmoid_scale,
    "deviation before the sigmoid of timestep_sampling sigmoid, shift, flux_shift, qwen_shift and krea2_shift")
      .decides_what_is_learned()
      .counts_when("timestep_sampling sigmoid, shift, flux_shift, qwen_shift and krea2_shift", read(&Times::sigmoid_scale))
      .level(Level::all);
  f("logit_mean", o.logit_mean, "mean of timestep_sampling logit_normal and logsnr")
      .decides_what_is_learned()
      .counts_when("timestep_sampling logit_normal and logsnr", read(&Times::logit_mean))
      .level(Level::all);
  f("logit_std", o.logit_std, "deviation of timestep_sampling logit_normal and logsnr")
      .decides_what_is_learned()
      .counts_when("timestep_sampling logit_normal and logsnr", read(&Times::logit_std))
      .level(Level::all);
  f("mode_scale", o.mode_scale, "strength of timestep_sampling mode and heavy_tail")
      .decides_what_is_learned()
      .counts_when("timestep_sampling mode and heavy_tail", read(&Times::mode_scale))
      .level(Level::all);
  f("noising_weight", o.noising_weight, "steepness of timestep_sampling inverted_parabola and logistic; a of beta")
      .decides_what_is_learned()
      .counts_when("timestep_sampling inverted_parabola, logistic and beta", read(&Times::noising_weight))
      .level(Level::all);
  f("noising_bias", o.noising_bias, "place of timestep_sampling inverted_parabola and logistic, from their middle; b of beta")
      .decides_what_is_learned()
      .counts_when("timestep_sampling inverted_parabola, logistic and beta", read(&Times::noising_bias))
      .level(Level::all);
  f("min_t", o.min_t, "sigma is drawn from the part of its distribution above this").decides_what_is_learned().level(Level::all);
  f("max_t", o.max_t, "sigma is drawn from the part of its distribution below this").decides_what_is_learned().level(Level::all);
  f("min_timestep_boundary", o.min_boundary, "start of the trained share of the schedule, from pure noise")
      .decides_what_is_learned()
      .level(Level::all);
  f("max_timestep_boundary", o.max_boundary, "end of the trained share of the schedule, 1 for a picture without noise")
      .decides_what_is_learned()
      .level(Level::all);
}

}  // namespace

void loss_fields(config::Fields& f, TrainOptions& o) {
  f.group("Loss and times");
  weighting_fields(f, o);
  robust_fields(f, o);
  mask_fields(f, o);
  time_fields(f, o.timesteps);
}

}  // namespace burnish::train
