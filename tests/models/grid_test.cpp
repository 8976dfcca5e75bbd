// Times and loss weights that are called diffsynth, beside DiffSynth-Studio's scheduler of every family (tests/golden/make_grids.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "diffusion/process.h"
#include "io/files.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/places.h"

namespace burnish::grid_test {
using namespace burnish::models;

namespace {

const std::filesystem::path kGolden = std::filesystem::path(test::kCheckout) / "tests/golden";

std::vector<double> values_of(const at::Tensor& tensor) {
  auto wide = tensor.to(at::kDouble);
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

std::vector<double> walk(const diffusion::Process& process, int64_t num_steps) {
  auto sampler = process.sampler({.timestep_spacing = "diffsynth", .num_steps = num_steps, .num_image_tokens = 1024});
  std::vector<double> times;
  for (int64_t step = 0; step < num_steps; ++step) times.push_back(sampler->time(step));
  return times;
}

/// What is drawn at the index of the grid that boundaries leave.
double drawn(const diffusion::Process& process, size_t index) {
  diffusion::TimestepOptions options;
  options.min_boundary = (static_cast<double>(index) + 0.25) / 1000, options.max_boundary = (static_cast<double>(index) + 0.75) / 1000;
  return process.draw_time(options, 7, 1024);
}

struct Family {
  const char* name;
  const char* folder;
  double mean, weights[3];  ///< the mean sigma; weights at 0.1, 0.5 and 0.9
};

class DiffsynthGrid : public testing::TestWithParam<Family> {};

TEST_P(DiffsynthGrid, IsWhatTheFamilyTrainsOn) {
  const auto& family = GetParam();
  const std::string name = family.name;
  auto golden = test::golden("grids.safetensors");
  auto model = open_model(open_model_files({{(kGolden / family.folder / "model").string()}, "", ""}), {});
  const auto& process = model->process();

  const auto sigmas = values_of(golden.tensor(name + ".sigmas")), weights = values_of(golden.tensor(name + ".weights"));
  double mean = 0;
  for (size_t i = 0; i < sigmas.size(); ++i) {
    EXPECT_NEAR(drawn(process, i), sigmas[i], 5e-7) << i;
    // Theirs are differences of numbers in fp32.
    EXPECT_NEAR(process.loss_weight({}, sigmas[i]), weights[i], 3e-6) << i;
    mean += drawn(process, i) / 1000;
  }
  EXPECT_NEAR(mean, family.mean, 5e-4);
  for (size_t i = 0; i < 3; ++i) {
    const auto distance = [&](double sigma) { return std::abs(sigma - (0.1 + 0.4 * static_cast<double>(i))); };
    const auto nearest = *std::ranges::min_element(sigmas, {}, distance);  // whose weight DiffSynth-Studio takes for it
    EXPECT_NEAR(process.loss_weight({}, nearest), family.weights[i], 6e-4) << i;
  }

  for (const int64_t num_steps : {4, 9}) {
    const auto ours = walk(process, num_steps), theirs = values_of(golden.tensor(name + "." + std::to_string(num_steps)));
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 5e-7) << num_steps << " " << i;
  }
  EXPECT_NEAR(walk(process, 1).at(0), sigmas.front(), 5e-7) << "one step begins where the grid does";
}

INSTANTIATE_TEST_SUITE_P(Families, DiffsynthGrid,
                         testing::Values(Family{"flux", "pipeline", 0.678, {0.548, 1.794, 0.544}},
                                         Family{"qwen_image", "qwen_image_pipeline", 0.638, {0.507, 1.683, 0.510}},
                                         Family{"qwen_image_21", "qwen_image_21_pipeline", 0.638, {0.507, 1.683, 0.510}},
                                         Family{"flux2", "flux2_pipeline", 0.631, {0.519, 1.693, 0.514}},
                                         Family{"zimage", "zimage_pipeline", 0.677, {0.551, 1.798, 0.547}},
                                         Family{"anima", "anima_pipeline", 0.677, {0.551, 1.798, 0.547}},
                                         Family{"ernie_image", "ernie_image_pipeline", 0.677, {0.551, 1.798, 0.547}},
                                         Family{"moss_image", "moss_image_pipeline", 0.5, {0.480, 1.580, 0.480}},
                                         Family{"ideogram4", "ideogram4_pipeline", 0.621, {0.477, 1.571, 0.477}},
                                         Family{"boogu", "boogu_pipeline", 0.684, {0.553, 1.820, 0.554}},
                                         Family{"fibo2", "fibo2_pipeline", 0.583, {0.492, 1.623, 0.494}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace

}  // namespace burnish::grid_test
