// A run whose text encoder has no room: what it keeps is what it keeps with the whole encoder in memory, and it takes a few blocks of it.
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "dist/world.h"
#include "io/checkpoint_files.h"
#include "io/files.h"
#include "io/safetensors.h"
#include "models/model/block_by_block.h"
#include "nn/block.h"
#include "tests/allocations.h"
#include "tests/scratch.h"
#include "tests/train/options/small_options.h"
#include "train/options/settings.h"
#include "train/run/encode_all.h"
#include "train/run/opened.h"
#include "train/run/run.h"

using namespace burnish;
using namespace burnish::train;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kHidden = 8192;  // of the MLPs, by which a block is larger than all that is encoded

/// MiniMax-H3's small model with wide MLPs in its text encoder.
void save_wide(const fs::path& folder) {
  fs::copy(test::small_family("minimax_h3").folder(), folder, fs::copy_options::recursive);
  const auto file = folder / "text_encoder/model.safetensors", config_file = folder / "text_encoder/config.json";
  auto config = nlohmann::json::parse(std::ifstream(config_file));
  config["text_config"]["intermediate_size"] = kHidden;
  io::write_text_atomic(config_file, config.dump());
  io::NamedTensors wide;
  {
    auto source = io::TensorSource::open({file.string()});
    at::manual_seed(1);
    for (const auto& name : source.names()) {
      auto tensor = source.tensor(name).clone();
      if (name.find("language_model") != name.npos && name.find(".mlp.") != name.npos) {
        const bool is_last = name.find("down_proj") != name.npos;
        tensor = at::randn({is_last ? tensor.size(0) : kHidden, is_last ? kHidden : tensor.size(1)}).mul(0.02).to(tensor.scalar_type());
      }
      wide.emplace_back(name, tensor);
    }
  }
  io::save_safetensors(file, wide);
}

class WideEncoder : public testing::Test {
 protected:
  WideEncoder() { save_wide(scratch / "model"); }
  TrainOptions options(const std::string& cache) const {
    auto words =
        test::small_run("minimax_h3", "--lora_rank 4 --dtype fp32 --height 64 --width 64 --cache_path " + (scratch / cache).string());
    words.at(1) = (scratch / "model").string();
    auto options = test::options_of(words);
    options.output_path = (scratch / "run").string();
    return options;
  }
  /// Encodes all samples where there are so many bytes of memory, and returns the most that were taken of it.
  int64_t encoded(const std::string& cache, int64_t host_bytes, bool expects_blocks) const {
    auto settings = settle(options(cache));
    settings.plan.host_bytes = host_bytes;
    test::Allocations allocations;
    auto run = open_run(settings);
    const auto by_block = encoders_by_block(run);
    EXPECT_EQ(by_block, expects_blocks ? std::set<std::string>{"text_encoder"} : std::set<std::string>{});
    encode_all(run, run.schedule, by_block, dist::World());
    return allocations.peak();
  }
  std::map<std::string, std::string> files(const std::string& cache) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(scratch / cache)) {
      const bool is_note = entry.path().filename() == "hashes.json";  // of files that changed just now nothing is noted
      if (entry.is_regular_file() && !is_note) all[fs::relative(entry.path(), scratch / cache).string()] = io::read_text(entry.path());
    }
    return all;
  }
  test::Scratch scratch;
};

}  // namespace

TEST_F(WideEncoder, IsEncodedWithInThreeBlocksOfMemoryToTheSameBytes) {
  const auto run = settle(options("none"));
  auto subject = open_subject(run.model, run.trained);
  auto& components = subject.model->components();
  const auto whole = components.num_bytes("text_encoder");
  components.load("text_encoder");
  int64_t of_block = 0;
  for (auto* block : components.blocks("text_encoder")) of_block = std::max(of_block, block->num_bytes());
  components.unload("text_encoder");
  ASSERT_GT(whole, 40 * of_block);
  EXPECT_LE(encoded("by_block", whole, true), 3 * of_block);
  EXPECT_GE(encoded("whole", 4 * whole, false), whole);
  const auto ours = files("by_block"), theirs = files("whole");
  EXPECT_GE(ours.size(), 4u) << "of four pictures and their captions";
  EXPECT_EQ(ours, theirs);
  train::train(options("by_block"));  // which finds all in the cache
  EXPECT_TRUE(fs::exists(scratch / "run/step-2.safetensors"));
}
