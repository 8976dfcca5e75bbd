// Models from hubs, and what doctor says: the program against a hub on loopback.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/golden.h"
#include "tests/hub/fake_hub.h"
#include "tests/integration/processes.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

class HubProgram : public testing::Test {
 protected:
  void SetUp() override { hub_.add_folder(kAssets); }

  /// Variables that take the program to the hub of this test, and to caches of its own.
  std::string environment(const std::string& more = "") const {
    return "env -u HF_TOKEN -u HF_HUB_CACHE -u HF_HUB_OFFLINE HF_ENDPOINT=" + hub_.address() + " MODELSCOPE_ENDPOINT=" + hub_.address() +
           " HF_HOME=" + quoted(folder_ / "hf") + " MODELSCOPE_CACHE=" + quoted(folder_ / "ms") +
           " DIFFSYNTH_MODEL_BASE_PATH=" + quoted(folder_ / "models") + " " + more;
  }
  /// The golden pictures at a size that the small model takes.
  std::string pictures() const { return option("dataset_metadata_path", kGolden / "pictures/metadata.csv") + "--height 64 --width 64 "; }
  std::string data(const std::string& out) const {
    return pictures() + "--lora_rank 2 --max_steps 1 --dtype fp32 --num_threads 1 --output_path " + quoted(folder_ / out) + " ";
  }
  fs::path snapshot() const { return folder_ / "hf/hub/models--author--model/snapshots" / FakeHub::kCommit; }

  Scratch folder_;
  FakeHub hub_;
  const std::string four_parts_ =
      "--model_id_with_origin_paths 'author/model:transformer/*.safetensors,author/model:text_encoder/model.safetensors,"
      "author/model:text_encoder_2/,author/model:vae/diffusion_pytorch_model.safetensors' ";
};

}  // namespace

TEST_F(HubProgram, TrainsAModelByItsIdAndAsksOnce) {
  hub_.files["flux1-dev.safetensors"] = std::string(100000, 'x');  // the same weights in one file, which no run opens
  hub_.files["transformer/diffusion_pytorch_model.fp16.safetensors"] = std::string(100000, 'x');
  auto outcome = run_burnish("train --model author/model " + data("first"), environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("of author/model from " + hub_.address()));
  EXPECT_FALSE(fs::exists(snapshot() / "flux1-dev.safetensors"));
  EXPECT_FALSE(fs::exists(snapshot() / "transformer/diffusion_pytorch_model.fp16.safetensors"));

  auto before = hub_.requests().size();
  outcome = run_burnish("train --model author/model " + data("second"), environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* models : {"author/model:transformer,author/model:text_encoder_2", "author/model"})
    EXPECT_EQ(run_burnish("train --model author/model --overwrite --fp8_models " + std::string(models) + " " + data("fp8"), environment())
                  .exit_code,
              0)
        << models;
  outcome = run_burnish("inspect author/model", environment());
  EXPECT_THAT(outcome.output, HasSubstr("author/model/transformer\n  FLUX.1"));
  EXPECT_EQ(hub_.requests().size(), before);
  EXPECT_EQ(read_log(folder_ / "first").at(0)["loss"], read_log(folder_ / "second").at(0)["loss"]);
}

/// Pictures and captions of a hub are named as its own programs name them, on the command line and in settings.
TEST_F(HubProgram, TrainsOnADatasetByItsAddress) {
  FakeHub::add(kGolden / "pictures", hub_.dataset_files);
  const auto address = std::string("hf://datasets/author/set");
  auto outcome = run_burnish("data " + address + " --resolution 64", environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const auto asked = hub_.requests().size();
  std::ofstream(folder_ / "run.toml") << "dataset_base_path = \"" << address << "\"\n";
  const std::string options = "--height 64 --width 64 --lora_rank 2 --max_steps 1 --dtype fp32 --num_threads 1 --model " + quoted(kAssets);
  outcome =
      run_burnish("train " + quoted(folder_ / "run.toml") + " " + options + " --output_path " + quoted(folder_ / "run"), environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  outcome =
      run_burnish("train " + options + " --dataset_base_path " + quoted(kGolden / "pictures") + " --output_path " + quoted(folder_ / "own"),
                  environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(read_log(folder_ / "run").at(0)["loss"], read_log(folder_ / "own").at(0)["loss"]);
  EXPECT_EQ(hub_.requests().size(), asked) << "what is here is not asked for again";
  outcome = run_burnish("train " + options + " --dataset_base_path hf://datasets/author --output_path " + quoted(folder_ / "none"),
                        environment());
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("names no dataset of a hub"));
}

TEST_F(HubProgram, ACacheOfEncodingsLeavesTheDenoiserOnTheHub) {
  auto arguments = "cache --model author/model " + pictures() + "--dtype fp32 --num_threads 1 --cache_path " + quoted(folder_ / "cache");
  auto outcome = run_burnish(arguments, environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(snapshot() / "vae/diffusion_pytorch_model.safetensors"));
  EXPECT_FALSE(fs::exists(snapshot() / "transformer"));
  outcome = run_burnish("train --model author/model --cache_path " + quoted(folder_ / "cache") + " " + data("run"), environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(snapshot() / "transformer/diffusion_pytorch_model.safetensors"));
}

TEST_F(HubProgram, ARunOverACacheLeavesTheEncodersOnTheHub) {
  auto cache = quoted(folder_ / "cache");
  auto model = "--model author/model --dtype fp32 --num_threads 1 ";
  auto outcome = run_burnish("train --task sft:data_process " + (model + pictures()) + "--output_path " + cache, environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  fs::remove_all(folder_ / "hf");
  auto train =
      std::string("train --task sft:train ") + model + "--dataset_base_path " + cache + " --lora_rank 2 --max_steps 1 --output_path ";
  outcome = run_burnish(train + quoted(folder_ / "run"), environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(snapshot() / "transformer/diffusion_pytorch_model.safetensors"));
  for (const char* part : {"text_encoder", "text_encoder_2", "vae"}) EXPECT_FALSE(fs::exists(snapshot() / part)) << part;
}

TEST_F(HubProgram, DiffSynthStudiosOptionFetchesIntoTheModelBase) {
  hub_.files["google/umt5-xxl/spiece.model"] = "a vocabulary";
  auto outcome = run_burnish("train " + four_parts_ + data("run"), environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* tokenizer : {"tokenizer_2", "google/umt5-xxl"})  // beside the weights, as that program does
    EXPECT_TRUE(fs::exists(folder_ / "models/author/model" / tokenizer / "spiece.model")) << tokenizer;
  for (const auto& request : hub_.requests()) EXPECT_THAT(request, HasSubstr("GET /api/v1/models/author/model/"));  // ModelScope's
  auto before = hub_.requests().size();
  EXPECT_EQ(run_burnish("train " + four_parts_ + data("again"), environment("DIFFSYNTH_SKIP_DOWNLOAD=true")).exit_code, 0);
  EXPECT_EQ(run_burnish("train " + four_parts_ + data("third"), environment()).exit_code, 0);
  EXPECT_EQ(hub_.requests().size(), before);

  fs::remove_all(folder_ / "models");
  outcome = run_burnish("train " + four_parts_ + data("hf"), environment("DIFFSYNTH_DOWNLOAD_SOURCE=huggingface"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(hub_.requests().back(), HasSubstr("/author/model/resolve/"));
}

TEST_F(HubProgram, TokenizersOfFoldersAreFetchedToo) {
  const std::string folders =
      "--model_id_with_origin_paths 'author/model:transformer/,author/model:text_encoder/,author/model:text_encoder_2/,author/model:vae/' ";
  auto outcome = run_burnish("train " + folders + data("run"), environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(folder_ / "models/author/model/scheduler/scheduler_config.json"));
  // Weights that another program left here without them.
  const auto tokenizer = folder_ / "models/author/model/tokenizer_2";
  for (const auto& models : {folders, four_parts_}) {
    fs::remove_all(tokenizer);
    outcome = run_burnish("train " + models + data("offline"), environment("DIFFSYNTH_SKIP_DOWNLOAD=true"));
    EXPECT_THAT(outcome.output, HasSubstr("no T5 tokenizer beside the model"));
    outcome = run_burnish("train --overwrite " + models + data("again"), environment());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_TRUE(fs::exists(tokenizer / "spiece.model"));
  }
  fs::remove_all(tokenizer);
  std::erase_if(hub_.files, [](const auto& file) { return file.first.starts_with("tokenizer_2/"); });
  outcome = run_burnish("train " + folders + data("none"), environment());
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("no T5 tokenizer beside the model"));
}

TEST_F(HubProgram, AModularPipelinesFolderIsFetchedButWhatLiesElsewhere) {
  hub_.files.clear();
  hub_.add_folder(golden_path("flux3_pipeline/model"));
  auto index = nlohmann::json::parse(hub_.files.at("modular_model_index.json"));
  index["prompt_upsampler"] = {"transformers", "AModel", {{"pretrained_model_name_or_path", "author/other"}, {"subfolder", ""}}};
  hub_.files["modular_model_index.json"] = index.dump();
  hub_.files["model.safetensors"] = std::string(100000, 'x');  // the same weights in one file, which no run opens
  // A stage that only encodes leaves the transformer there.
  const auto cache = "--cache_path " + quoted(folder_ / "cache") + " ";
  auto outcome = run_burnish("cache --model author/model " + pictures() + "--dtype fp32 --num_threads 1 " + cache, environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* run : {"first", "second"}) {
    outcome = run_burnish("train --model author/model " + cache + data(run), environment());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
  EXPECT_TRUE(fs::exists(snapshot() / "text_encoder/tokenizer.json"));
  EXPECT_FALSE(fs::exists(snapshot() / "model.safetensors"));
}

TEST_F(HubProgram, AMissingShardIsFetched) {
  hub_.files = {{"transformer/model-00001-of-00002.safetensors", "one"}, {"transformer/model-00002-of-00002.safetensors", "two"}};
  fs::create_directories(folder_ / "models/author/model/transformer");
  std::ofstream(folder_ / "models/author/model/transformer/model-00001-of-00002.safetensors") << "one";
  run_burnish("train --model_id_with_origin_paths 'author/model:transformer/*.safetensors' " + data("run"), environment());
  EXPECT_EQ(read_file(folder_ / "models/author/model/transformer/model-00002-of-00002.safetensors"), "two");
}

TEST_F(HubProgram, GoesOnAfterAFailureAndSaysSo) {
  const auto target = std::string("/resolve/") + FakeHub::kCommit + "/transformer/diffusion_pytorch_model.safetensors ";
  const auto& weights = hub_.files["transformer/diffusion_pytorch_model.safetensors"];
  hub_.instead = [&](const std::string& request) {
    if (request.find(target) == request.npos) return std::string();
    return asked_from(request) < 0 ? http(200, weights.substr(0, 1000), "", static_cast<int64_t>(weights.size())) : http(403, "expired");
  };
  auto outcome = run_burnish("train --model author/model " + data("run"), environment());
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("refuses 'transformer/diffusion_pytorch_model.safetensors' of 'author/model' (403)"));
  hub_.instead = [](const std::string&) { return ""; };
  outcome = run_burnish("train --model author/model " + data("run"), environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  bool went_on = false;
  for (const auto& request : hub_.requests()) went_on = went_on || (request.find(target) != request.npos && asked_from(request) == 1000);
  EXPECT_TRUE(went_on);
}

TEST_F(HubProgram, AnInterruptionKeepsWhatCame) {
  hub_.instead = [](const std::string& request) {
    return request.find("/transformer/diffusion") == request.npos ? "" : http(503, "", "Retry-After: 200\r\n");
  };
  Running run(environment() + quoted(test::kProgram) + " train --model author/model " + data("run"), folder_ / "output");
  auto is_asked_for = [&] {
    return std::ranges::any_of(hub_.requests(), [](const auto& request) { return request.find("/transformer/diffusion") != request.npos; });
  };
  const auto came = snapshot() / "vae/diffusion_pytorch_model.safetensors";
  EXPECT_TRUE(within(60, [&] { return run.has_ended() || (fs::exists(came) && is_asked_for()); })) << run.output();
  run.send(SIGINT);
  ASSERT_TRUE(run.ends_within(30)) << run.output();
  EXPECT_EQ(run.exit_code(), 130);
  EXPECT_THAT(run.output(), HasSubstr("[hub] interrupted; what was fetched is kept"));
  EXPECT_TRUE(fs::exists(came));
}

TEST_F(HubProgram, RefusalsAreOneSentence) {
  auto refused = [&](const std::string& model, const std::string& more, const std::vector<std::string>& words, int exit_code = 3) {
    expect_one_error(run_burnish("train " + model + " " + data("run"), environment(more + " BURNISH_LOG=error")), exit_code, words);
  };
  refused("--model author/nosuch", "",
          {"no model 'author/nosuch', neither here nor on Hugging Face (404)", "DIFFSYNTH_DOWNLOAD_SOURCE=modelscope"});
  refused("--model author/model", "HF_HUB_OFFLINE=1", {"'author/model' is not whole", "HF_HUB_OFFLINE keeps burnish from asking"});
  refused("--model author/model", "DIFFSYNTH_SKIP_DOWNLOAD=maybe", {"DIFFSYNTH_SKIP_DOWNLOAD must be true or false, not 'maybe'"}, 2);
  refused("--model author/model", "DIFFSYNTH_DOWNLOAD_SOURCE=github", {"must be modelscope or huggingface"}, 2);
  refused("--model_id_with_origin_paths author/model:nosuch*.safetensors", "",
          {"no file of the model matches", "vae/diffusion_pytorch_model"});
  refused("--model_id_with_origin_paths author/model:vae/*.safetensors", "DIFFSYNTH_SKIP_DOWNLOAD=true", {"nothing matches", "unset"});
  hub_.instead = [](const std::string&) { return http(401, ""); };
  refused("--model author/model", "", {"does not show the model 'author/model' (401)", "set HF_TOKEN"});
  expect_one_error(run_burnish("inspect author/model", environment("BURNISH_LOG=error")), 3, {"'author/model' does not exist"});
}

TEST_F(HubProgram, APointerOfGitLfsIsSaidToBeOne) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 335304388\n";
  fs::copy(kAssets, folder_ / "clone", fs::copy_options::recursive);
  for (const char* name : {"vae/diffusion_pytorch_model.safetensors", "tokenizer_2/spiece.model"}) {
    auto whole = read_file(folder_ / "clone" / name);
    std::ofstream(folder_ / "clone" / name) << pointer;
    expect_one_error(run_burnish("train --model " + quoted(folder_ / "clone") + " " + data("run"), "BURNISH_LOG=error"), 3,
                     {name, "is a pointer of git-lfs", "git lfs pull"});
    std::ofstream(folder_ / "clone" / name, std::ios::binary) << whole;
  }
}

TEST_F(HubProgram, ModelsSaysHowMuchARunOpensAndBringsIt) {
  hub_.files["flux1-dev.safetensors"] = std::string(100000, 'x');  // which no run opens
  auto models = [&](const std::string& more) {
    auto outcome = run_burnish("models --json " + more, environment("BURNISH_LOG=error"));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return nlohmann::json::parse(outcome.output);
  };
  const auto before = models("author/model")["models"][0];
  EXPECT_EQ(before["name"], "author/model");
  EXPECT_GT(before["missing_bytes"], 1 << 20);
  EXPECT_FALSE(fs::exists(snapshot() / "vae/diffusion_pytorch_model.safetensors")) << "small files alone are fetched";
  EXPECT_TRUE(models("")["here"].empty());

  EXPECT_EQ(models("author/model --fetch")["models"][0]["bytes"], before["bytes"]);
  EXPECT_FALSE(fs::exists(snapshot() / "flux1-dev.safetensors"));
  const auto num_requests = hub_.requests().size();
  EXPECT_EQ(models("author/model")["models"][0]["missing_bytes"], 0);
  const auto here = models("");
  ASSERT_EQ(here["here"].size(), 1);
  EXPECT_EQ(here["here"][0]["name"], "author/model");
  EXPECT_THAT(here["here"][0]["title"].get<std::string>(), HasSubstr("FLUX"));
  EXPECT_NEAR(here["here"][0]["bytes"].get<double>() / before["bytes"].get<double>(), 1, 0.05);
  EXPECT_GT(here["published"].size(), 10);
  EXPECT_EQ(hub_.requests().size(), num_requests);
  EXPECT_THAT(run_burnish("models author/model", environment()).output, HasSubstr("all on this machine"));
  expect_one_error(run_burnish("models ./here", environment("BURNISH_LOG=error")), 2, {"'./here' is no id", "burnish inspect ./here"});
  expect_one_error(run_burnish("models --fetch", environment("BURNISH_LOG=error")), 2, {"fetch needs the id"});
}

TEST_F(HubProgram, DoctorSaysWhatIsThere) {
  auto outcome = run_burnish("doctor --quick --json", environment("HF_TOKEN=secret HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("secret")));
  auto report = nlohmann::json::parse(outcome.output);
  EXPECT_THAT(report["torch"]["version"].get<std::string>(), HasSubstr("2."));
  EXPECT_GT(report["memory"]["total_bytes"].get<double>(), 1e8);
  EXPECT_GT(report["processor"]["hardware threads"].get<int>(), 0);
  EXPECT_EQ(report["used"]["threads"], 1);
  EXPECT_EQ(report["hub"]["HF_ENDPOINT"], hub_.address());
  EXPECT_EQ(report["hub"]["HF_TOKEN"], "set");
  EXPECT_THAT(report["hub"]["models"].get<std::string>(), HasSubstr("HF_HUB_OFFLINE is set"));
  EXPECT_EQ(report["files"]["cache of Hugging Face"]["folder"], (folder_ / "hf/hub").string());
  EXPECT_GT(report["files"]["this folder"]["free_bytes"].get<double>(), 0);

  outcome = run_burnish("doctor --quick", environment("DIFFSYNTH_DOWNLOAD_SOURCE=modelscope"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("\n  of --model ID: ModelScope\n"));
  EXPECT_THAT(outcome.output, HasSubstr("\n  total: "));
  EXPECT_TRUE(hub_.requests().empty());
}
