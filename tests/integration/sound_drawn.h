#pragma once
#include "io/safetensors.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"

namespace burnish::test {

/// Draws two clips with their sound into `drawn` in a folder, from the noise of a golden folder: latents of both are those that diffusers
/// drew. `words` say the model, its size and how many frames.
inline void expect_drawn_with_sound(const fs::path& folder, const fs::path& golden, const std::string& words) {
  auto expected = expected_in(golden);
  const auto noise = folder / "noise.safetensors", latents = folder / "latents.safetensors";
  io::save_safetensors(noise, {{"noise", expected.tensor("noise")}, {"audio_latents_noise", expected.tensor("audio_latents_noise")}});
  run_ok("sample " + words +
         "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' "
         "--num_inference_steps 4 --noise " +
         quoted(noise) + " --save_latents " + quoted(latents) + " --output_path " + quoted(folder / "drawn"));
  auto drawn = io::SafetensorsFile::open(latents);
  EXPECT_LE(relative_error(drawn->tensor("latents"), expected.tensor("latents.plain")), tolerance(1e-5));
  EXPECT_LE(relative_error(drawn->tensor("audio_latents"), expected.tensor("audio_latents.plain")), tolerance(1e-5));
}

}  // namespace burnish::test
