// A family that says how much of a prediction counts is listened to by every objective.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "tests/scratch.h"
#include "tests/skeleton_model.h"
#include "train/objectives/dpo.h"
#include "train/objectives/objective.h"
#include "train/objectives/sample_loss.h"
#include "train/subject/attached.h"
#include "train/subject/choosing.h"

namespace burnish::loss_map_test {
using namespace burnish::train;

namespace {

enum class Half { left, right, both };

at::Tensor map_of(const at::Tensor& latents, Half half) {
  auto map = at::zeros({latents.size(0), 1, latents.size(2), latents.size(3), latents.size(4)});
  auto side = latents.size(4) / 2;
  if (half != Half::right) map.narrow(4, 0, side).fill_(1);
  if (half != Half::left) map.narrow(4, side, side).fill_(1);
  return map;
}

/// The skeleton family, of whose predictions one half counts.
class HalfModel final : public models::skeleton::SkeletonModel {
 public:
  HalfModel(const models::ModelFiles& files, const models::ModelOptions& options, Half half) : SkeletonModel(files, options), half_(half) {}
  models::UnitGroups units_of(const models::Expert& expert) override {
    auto groups = SkeletonModel::units_of(expert);
    groups.weigh = {{"weigh", {"latents"}, {models::kLossMap}, {}, [half = half_](pipeline::Scope& s) {
                       s.write(models::kLossMap, map_of(s.tensor("latents"), half));
                     }}};
    return groups;
  }

 private:
  Half half_;
};

at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  return at::empty(shape, at::kFloat).normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

class LossMap : public testing::Test {
 protected:
  LossMap() { test::save_skeleton(scratch / "model.safetensors"); }

  /// All values of one visit under an objective, of a model of which that half counts.
  pipeline::Values values(const ObjectiveSettings& settings, Half half) const {
    at::NoGradGuard no_grad;
    models::ModelOptions options;
    options.dtype = at::kFloat;
    auto files = models::open_model_files({{(scratch / "model.safetensors").string()}, "", ""});
    auto model = std::make_unique<HalfModel>(files, options, half);
    TrainedSettings trained;
    trained.learning_rate = 1;
    trained.targets = "to_q";
    trained.adapted = {"dit"};
    trained.experts = {"high_noise"};
    auto chosen = choose(trained, *model);
    const Subject subject{std::move(model), std::move(chosen), ""};
    for (const char* component : {"dit", "dit_2", "text_encoder", "vae"}) subject.model->components().load(component);
    const Attached attached(subject.chosen, *subject.model);
    auto objective = make_objective(settings, subject);
    pipeline::Values given{{"prompt", std::string("a")},
                           {"image", random({1, 3, 16, 32}, 1).clamp(-1, 1)},
                           {kRejectedImage, random({1, 3, 16, 32}, 2).clamp(-1, 1)},
                           {"mask", random({1, 1, 4, 8}, 3).sigmoid()},
                           {"noise", random({1, 4, 1, 4, 8}, 4)},
                           {"start_noise", random({1, 4, 1, 4, 8}, 4)},
                           {"trajectory_noise", random({1, 4, 1, 4, 8}, 4)},
                           {"num_inference_steps", at::scalar_tensor(3, at::kLong)},
                           {"trajectory_step", at::tensor({int64_t{1}})},
                           {"sigma", at::full({1}, 0.4)}};
    pipeline::run(objective->units(), given);
    return given;
  }
  double number(const ObjectiveSettings& settings, Half half, const std::string& name = "loss") const {
    return std::get<at::Tensor>(values(settings, half).at(name)).item<double>();
  }
  /// Each half's is its own, and they make up the whole.
  void expect_halves(const ObjectiveSettings& settings, const std::string& name = "loss") const {
    auto left = number(settings, Half::left, name), right = number(settings, Half::right, name), both = number(settings, Half::both, name);
    EXPECT_GT(std::abs(left - right), 1e-3) << name;
    EXPECT_NEAR((left + right) / 2, both, 1e-5 * both) << name;
  }

  test::Scratch scratch;
};

ObjectiveSettings of(const ObjectiveKind& kind) {
  ObjectiveSettings settings;
  settings.kind = &kind;
  settings.dtype = at::kFloat;
  return settings;
}

}  // namespace

TEST_F(LossMap, CountsUnderEveryObjective) {
  expect_halves(of(sft()));
  expect_halves(of(direct_distill()));
  auto imitation = of(trajectory_imitation());
  imitation.own.set("student_num_inference_steps", int64_t{2});
  imitation.own.set("teacher_num_inference_steps", int64_t{4});
  imitation.own.set("teacher_cfg_scale", 1.0);
  expect_halves(imitation);
  for (const char* error : {"error", "rejected_error", "reference_error", "reference_rejected_error"}) expect_halves(of(dpo()), error);
}

TEST_F(LossMap, CountsUnderRobustLossesAndMasks) {
  auto robust = of(sft());
  robust.sample_loss.robust = parse_robust_loss("huber", "snr", 0.1, 1);
  expect_halves(robust);
  auto masked = of(sft());
  masked.sample_loss.masked = {.on = true, .unmasked_weight = 0.2};
  expect_halves(masked);
  for (bool per_area : {false, true}) {
    masked.sample_loss.masked.per_area = per_area;
    auto all = values(masked, Half::left);
    auto of_left = [&](const std::string& name) { return std::get<at::Tensor>(all.at(name)).narrow(-1, 0, 4).to(at::kDouble); };
    auto weight = of_left("mask").clamp_min(0.2);
    auto sum = ((of_left("prediction") - of_left("target")).square() * weight).sum().item<double>();
    auto expected = sum / (per_area ? 4 * weight.sum().item<double>() : 4. * 4 * 4);
    EXPECT_NEAR(std::get<at::Tensor>(all.at("loss")).item<double>(), expected, 1e-5 * expected) << per_area;
  }
}

TEST_F(LossMap, OnesChangeNothing) {
  auto all = values(of(sft()), Half::both);
  auto difference = std::get<at::Tensor>(all.at("prediction")) - std::get<at::Tensor>(all.at("target"));
  EXPECT_NEAR(std::get<at::Tensor>(all.at("loss")).item<double>() / difference.square().mean().item<double>(), 1, 1e-6);
}

TEST(MeanError, OfWhatNothingCountsIsZeroAndFinite) {
  auto error = random({2, 4, 3, 3}, 1).square();
  EXPECT_TRUE(at::equal(mean_error({}, error, {}, at::zeros({2, 1, 3, 3})), at::zeros({2})));
}

}  // namespace burnish::loss_map_test
