// The autoencoder in tiles, for training, caches and drawing.
#include <gmock/gmock.h>

#include "tests/integration/families/qwen_image.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class TilesRun : public BadInput {
 protected:
  double first_loss(const std::string& folder) const { return read_log(at(folder)).front()["loss"]; }
};

}  // namespace

TEST_F(TilesRun, TrainsOnTheLatentsThatTilesMake) {
  for (const auto& [family, model] : std::map<std::string, std::string>{{"flux", golden_model()}, {"qwen_image", qwen_image_model()}}) {
    auto train = [&, model = model](const std::string& name, const std::string& more) {
      run_ok("train " + model + golden_data() + "--dtype fp32 --lora_rank 4 --max_steps 1 --plan off --cache_path " +
             quoted(at(family + "cache")) + " --output_path " + quoted(at(name)) + " " + more);
      return first_loss(name);
    };
    auto whole = train(family + "whole", ""), tiled = train(family + "tiled", "--vae_tile_size 32");
    EXPECT_NE(whole, tiled) << "the cache of whole pictures serves no tiles";
    EXPECT_NEAR(whole, tiled, 0.2 * whole);
    EXPECT_EQ(whole, train(family + "one tile", "--vae_tile_size 64")) << family;
  }
}

TEST_F(TilesRun, DecodesInThem) {
  run_ok(sample("--vae_tile_size 32 --save_latents " + quoted(at("tiled.safetensors"))));
  auto tiled = read_file(out() / "0000.png");
  run_ok(sample("--save_latents " + quoted(at("whole.safetensors"))));
  EXPECT_EQ(read_file(at("tiled.safetensors")), read_file(at("whole.safetensors")));
  EXPECT_NE(tiled, read_file(out() / "0000.png"));
}

TEST_F(TilesRun, SaysHowToAskForTiles) {
  for (const auto* word : {"--vae_tiling", "--enable_vae_tiling", "--tiled"})
    refused(2, train(word), {"is not supported: say how large the autoencoder's tiles are: --vae_tile_size 512"});
  refused(2, sample("--vae_tile_size 100"), {"vae_tile_size must be 0 or a multiple of 32, not 100"});
}
