#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// Replayed runs of a LoRA beside a golden file of several cases (tests/golden/make_concepts.py, make_terms.py).
namespace burnish::test {

/// How far the parameters of the LoRA that a run began with came, in the order of names: digests [P, 9] of what the run's adapter has, less
/// what `lora` has; and the norms [P] of the latter. An adapter that is written without alphas has their scales in B.
inline std::pair<at::Tensor, at::Tensor> moved(const fs::path& run, int64_t num_steps, const fs::path& lora) {
  auto begun = io::TensorSource::open({lora.string()});
  auto reached = io::SafetensorsFile::open(run / ("step-" + std::to_string(num_steps) + ".safetensors"));
  std::vector<at::Tensor> digests, norms;
  for (const auto& name : begun.names()) {
    if (name.ends_with(".alpha")) continue;
    const auto alpha = name.substr(0, name.rfind(".lora_")) + ".alpha";
    auto before = begun.tensor(name).to(at::kDouble), now = reached->tensor(name).to(at::kDouble);
    if (name.ends_with(".lora_B.weight") && !reached->tensors().contains(alpha))
      now = now * static_cast<double>(now.size(1)) / begun.tensor(alpha).item<double>();
    digests.push_back(digest(now - before));
    norms.push_back(before.norm());
  }
  return {at::stack(digests), at::stack(norms)};
}

/// The run has the golden numbers of the case `name`: CASE.FIELD of every step is what the log says, up to `bound` of it, and CASE.moved
/// how far the LoRA came.
inline void expect_case(const fs::path& run, const io::TensorSource& golden, const std::string& name, const fs::path& lora,
                        double bound = 2e-6) {
  const auto log = read_log(run);
  for (const auto& key : golden.names()) {
    if (!key.starts_with(name + ".")) continue;
    const auto field = key.substr(name.size() + 1);
    const auto expected = golden.tensor(key);
    if (field == "moved") {
      const auto [found, norm_P] = moved(run, std::ssize(log), lora);
      ASSERT_EQ(found.sizes(), expected.sizes());
      // A parameter that hardly moves is as exact as fp32 holds it.
      const auto allowed_P = 1e-4 * expected.select(1, 0) + 4e-7 * norm_P;
      const auto error_P = (found - expected).abs().amax(1) / allowed_P;
      EXPECT_LE(error_P.max().item<double>(), tolerance(1)) << key << ", parameter " << error_P.argmax().item<int64_t>();
      continue;
    }
    ASSERT_EQ(expected.numel(), std::ssize(log)) << key;
    for (int64_t i = 0; i < expected.numel(); ++i) {
      const auto found = log[static_cast<size_t>(i)].at(field).get<double>();
      EXPECT_NEAR(found / expected[i].item<double>(), 1, tolerance(bound)) << key << " of step " << i;
    }
  }
}

}  // namespace burnish::test
