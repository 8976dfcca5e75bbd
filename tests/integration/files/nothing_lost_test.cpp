// Nothing of the user's is lost by any verb: each is run where a file of the user's has a name that the verb writes, for every such name.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <set>

#include "data/image.h"
#include "tests/golden.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class NothingLost : public testing::Test {
 protected:
  /// What a verb is told, to write into a folder; "" for a verb that writes nothing where a user names a place.
  static std::string command(const std::string& verb, const fs::path& out, const fs::path& given) {
    const auto model = golden_model();
    const std::string pictures = quoted(out / "pictures") + " ";
    const std::map<std::string, std::string> commands{
        {"new", "--dataset " + quoted(given / "pictures") + " --model " + quoted(kAssets) +
                    " --subject 'a cat' --memory cpu --overwrite --output " + quoted(out / "run.toml")},
        {"train", model + golden_data() + "--max_steps 1 --save_steps 1 --lora_rank 2 --preview_prompts " + quoted(given / "prompts.txt") +
                      " --preview_num_inference_steps 1 --output_path " + quoted(out)},
        {"launch", ""},  // train, in several processes
        {"plan", ""},
        {"cache", model + golden_data() + "--cache_path " + quoted(out / "cache")},
        {"data", quoted(kGolden / "pictures/metadata.csv") + " --contact_sheet " + quoted(out / "sheet.html")},
        {"caption", pictures + option("model", golden_path("captions/qwen3_vl")) +
                        "--dtype fp32 --max_new_tokens 2 --num_threads 1 --caption_mode replace"},
        {"mask", pictures + option("model", golden_path("masks/clip_seg")) +
                     "--mask_prompt cat --num_threads 1 --mask_mode replace --mask_folder " + quoted(out / "masks")},
        {"sample", model + "--height 48 --width 64 --num_inference_steps 1 --prompt cat --lora " +
                       quoted(given / "run/step-1.safetensors") + " --lora_strengths 0,1 --output_path " + quoted(out) +
                       " --save_latents " + quoted(out / "latents.safetensors")},
        {"convert", quoted(given / "run/step-1.safetensors") + " " + quoted(out / "kohya.safetensors") +
                        " --lora_format kohya --overwrite --model " + quoted(kGolden / "model")},
        {"inspect", ""},
        {"models", ""},  // its cache has names by content
        {"import", quoted(given / "kohya.sh") + " --overwrite --output " + quoted(out / "settings.toml")},
        {"report", quoted(given / "run") + " --output " + quoted(out / "page.html")},
        {"card", quoted(given / "run") + " --overwrite --output " + quoted(out / "card")},
        {"watch", ""},
        {"studio", ""},  // its requests are tried in tests/studio/routes_test.cpp
        {"mcp", ""},
        {"doctor", ""},
        {"best", ""},
    };
    const auto found = commands.find(verb);
    EXPECT_NE(found, commands.end()) << "say here what burnish " << verb << " writes";
    return found == commands.end() || found->second.empty() ? "" : verb + " " + found->second;
  }

  /// What all verbs are given to read.
  void make_given(const fs::path& given) const {
    fs::create_directories(given / "pictures");
    for (const char* name : {"a", "b"})
      fs::copy(golden_path(std::string("captions/pictures/") + name + ".png"), given / "pictures" / (std::string(name) + ".png"));
    std::ofstream(given / "prompts.txt") << "red apple --w 64 --h 48\n";
    std::ofstream(given / "kohya.sh") << "accelerate launch flux_train_network.py --network_dim=4 --network_module=networks.lora_flux\n";
    const auto run =
        run_burnish("train " + golden_model() + golden_data() + "--max_steps 1 --lora_rank 2 --output_path " + quoted(given / "run"));
    ASSERT_EQ(run.exit_code, 0) << run.output;
  }
  static void make_out(const fs::path& out, const fs::path& given) {
    fs::create_directories(out);
    fs::copy(given / "pictures", out / "pictures", fs::copy_options::recursive);
  }

  static std::vector<std::string> verbs() {
    std::vector<std::string> names;
    std::istringstream lines(run_burnish("--help --names").output);
    for (std::string line; std::getline(lines, line);) names.push_back(line.substr(0, line.find('\t')));
    return names;
  }
};

}  // namespace

TEST_F(NothingLost, ByAnyVerb) {
  Scratch given;
  make_given(given.path());
  data::write_png(given / "users.png", at::full({8, 12, 3}, 77, at::kByte));
  const auto users = read_file(given / "users.png");
  int num_tried = 0;
  for (const auto& verb : verbs()) {
    SCOPED_TRACE(verb);
    Scratch first;
    make_out(first / "out", given.path());
    const auto before = files_below(first / "out");
    const auto arguments = command(verb, first / "out", given.path());
    if (arguments.empty()) continue;
    const auto outcome = run_burnish(arguments);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    std::vector<std::string> written;
    std::ranges::set_difference(files_below(first / "out"), before, std::back_inserter(written));
    EXPECT_FALSE(written.empty());
    for (const auto& name : written) {
      if (verb == "cache" && !name.ends_with("s.json") && !name.ends_with("manifest.json")) continue;  // a name by its contents
      SCOPED_TRACE(name);
      Scratch again;
      make_out(again / "out", given.path());
      fs::create_directories((again / "out" / name).parent_path());
      fs::copy(given / "users.png", again / "out" / name);
      const auto with_theirs = files_below(again / "out");
      const auto second = run_burnish(command(verb, again / "out", given.path()), "BURNISH_LOG=error");
      EXPECT_EQ(read_file(again / "out" / name), users) << second.output;
      for (const auto& file : with_theirs) EXPECT_TRUE(fs::exists(again / "out" / file)) << file;
      ++num_tried;
    }
  }
  EXPECT_GT(num_tried, 20);
}

/// A folder that is replaced as a whole holds nothing else.
TEST_F(NothingLost, InFoldersThatAreReplaced) {
  Scratch given;
  make_given(given.path());
  const auto card = "card " + quoted(given / "run") + " --overwrite --output " + quoted(given / "card");
  ASSERT_EQ(run_burnish(card).exit_code, 0);
  ASSERT_EQ(run_burnish(card).exit_code, 0) << "its own";
  std::ofstream(given / "card/notes.odt") << "mine";
  expect_one_error(run_burnish(card, "BURNISH_LOG=error"), 2, {"notes.odt in it was not written by this command"});
  const auto convert = "convert " + quoted(kGolden / "model") + " " + quoted(given / "pictures") + " --overwrite";
  expect_one_error(run_burnish(convert, "BURNISH_LOG=error"), 2, {"a.png in it was not written by this command"});
  EXPECT_TRUE(fs::exists(given / "card/notes.odt") && fs::exists(given / "pictures/a.png"));
}

/// Endings of other files, and of other folders, are no endings of captions.
TEST_F(NothingLost, ByEndingsOfCaptions) {
  Scratch scratch;
  fs::create_directories(scratch / "pictures");
  fs::copy(golden_path("captions/pictures/a.png"), scratch / "pictures/a.png");
  const auto before = read_file(scratch / "pictures/a.png");
  for (const char* ending :
       {".png", ".PNG", ".mp4", ".safetensors", ".json", "../../x", "./x", ".a/b", ".txt,.long", ".txt=3", "txt", "."}) {
    const auto outcome = run_burnish("caption " + quoted(scratch / "pictures") + " " + option("model", golden_path("captions/qwen3_vl")) +
                                         "--caption_mode replace --caption_extension '" + ending + "'",
                                     "BURNISH_LOG=error");
    EXPECT_EQ(outcome.exit_code, 2) << ending << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("caption_extension")) << ending;
  }
  EXPECT_EQ(files_below(scratch.path()), std::vector<std::string>{"pictures/a.png"});
  EXPECT_EQ(read_file(scratch / "pictures/a.png"), before);
}

/// A user's settings lie where the run is to be.
TEST_F(NothingLost, OfSettingsInTheFolderOfARun) {
  Scratch scratch;
  std::ofstream(scratch / "config.toml") << "# mine\nlora_rank = 2\n";
  const auto train = "train " + quoted(fs::path(scratch / "config.toml")) + " " + golden_model() + golden_data() +
                     "--max_steps 1 --output_path " + quoted(fs::path(scratch.path()));
  expect_one_error(run_burnish(train, "BURNISH_LOG=error"), 2, {"config.toml was written by no run", "--output_path"});
  EXPECT_EQ(read_file(scratch / "config.toml"), "# mine\nlora_rank = 2\n");
  EXPECT_EQ(scratch.num_files(), 1u);
}
