#include "hub/settings.h"

#include <gmock/gmock.h>

#include <map>

#include "base/error.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;

namespace {

/// The settings under these variables and no others.
hub::Settings settings_under(const std::map<std::string, std::string>& variables) {
  for (const char* name :
       {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT",
        "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DOWNLOAD_TIMEOUT", "XDG_CACHE_HOME", "MODELSCOPE_CACHE", "MODELSCOPE_ENDPOINT",
        "MODELSCOPE_DOMAIN", "MODELSCOPE_API_TOKEN", "DIFFSYNTH_MODEL_BASE_PATH", "DIFFSYNTH_SKIP_DOWNLOAD", "DIFFSYNTH_DOWNLOAD_SOURCE"})
    unsetenv(name);
  setenv("HOME", "/home/nobody", 1);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  return hub::settings_from_environment();
}

}  // namespace

TEST(HubSettings, Defaults) {
  auto s = settings_under({});
  EXPECT_FALSE(s.source.has_value());
  EXPECT_EQ(s.offline, "");
  EXPECT_EQ(s.model_base, "./models");
  EXPECT_EQ(s.huggingface_endpoint, "https://huggingface.co");
  EXPECT_EQ(s.huggingface_cache, "/home/nobody/.cache/huggingface/hub");
  EXPECT_EQ(s.huggingface_token, "");
  EXPECT_EQ(s.modelscope_endpoint, "https://www.modelscope.cn");
  EXPECT_EQ(s.modelscope_cache, "/home/nobody/.cache/modelscope");
}

TEST(HubSettings, TheNearestVariableWins) {
  EXPECT_EQ(settings_under({{"XDG_CACHE_HOME", "/x"}}).huggingface_cache, "/x/huggingface/hub");
  EXPECT_EQ(settings_under({{"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "~/hf"}}).huggingface_cache, "/home/nobody/hf/hub");
  EXPECT_EQ(settings_under({{"HF_HOME", "/hf"}, {"HF_HUB_CACHE", "/cache"}}).huggingface_cache, "/cache");
  EXPECT_EQ(settings_under({{"MODELSCOPE_DOMAIN", "www.modelscope.ai"}}).modelscope_endpoint, "https://www.modelscope.ai");
  EXPECT_EQ(settings_under({{"MODELSCOPE_DOMAIN", "b"}, {"MODELSCOPE_ENDPOINT", "http://a/"}}).modelscope_endpoint, "http://a");
  EXPECT_EQ(settings_under({{"HF_HUB_OFFLINE", "0"}, {"DIFFSYNTH_SKIP_DOWNLOAD", "True"}}).offline, "DIFFSYNTH_SKIP_DOWNLOAD");
  EXPECT_EQ(settings_under({{"HF_HUB_OFFLINE", "yes"}}).offline, "HF_HUB_OFFLINE");
  EXPECT_EQ(settings_under({{"DIFFSYNTH_DOWNLOAD_SOURCE", "huggingface"}}).source, hub::Source::huggingface);
}

TEST(HubSettings, TheTokenThatALoginLeft) {
  Scratch home;
  home.write("token", "of the file\n");
  EXPECT_EQ(settings_under({{"HF_HOME", home.path()}}).huggingface_token, "of the file");
  EXPECT_EQ(settings_under({{"HF_HOME", home.path()}, {"HF_TOKEN", " given "}}).huggingface_token, "given");
}

TEST(HubSettings, WhatNobodyKnowsIsRefused) {
  EXPECT_THROW(settings_under({{"DIFFSYNTH_DOWNLOAD_SOURCE", "github"}}), Error);
  EXPECT_THROW(settings_under({{"DIFFSYNTH_SKIP_DOWNLOAD", "maybe"}}), Error);
  for (const char* seconds : {"0", "soon", "nan", "1e9"})
    EXPECT_THROW(settings_under({{"HF_HUB_DOWNLOAD_TIMEOUT", seconds}}), Error) << seconds;
  for (const char* variable : {"HF_ENDPOINT", "MODELSCOPE_ENDPOINT"}) {
    EXPECT_THROW(settings_under({{variable, "ftp://mirror"}}), Error) << variable;
    settings_under({{variable, "mirror/hub"}});
  }
  settings_under({});
}
