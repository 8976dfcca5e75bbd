#include "config/settings.h"

#include <gmock/gmock.h>

#include "config/fields.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::Scratch;
using ::testing::HasSubstr;

TEST(Settings, AreWhatToTomlWrote) {
  std::string model = "a 🦊 \"b\" # c", empty;
  std::vector<std::string> list{"x", "y#z"};
  double rate = 5e-5;
  int64_t rank = 16;
  config::Fields fields;
  fields.group("Model");
  fields("model", model, "what is trained");
  fields("list", list, "two");
  fields.group("Optimisation");
  fields("rate", rate, "peak # learning rate");
  fields("rank", rank, "rank");
  fields("empty", empty, "");
  Scratch folder;
  auto settings = config::read_settings(folder.write("config.toml", config::to_toml(fields)));

  std::vector<std::vector<std::string>> found;
  for (const auto& s : settings) found.push_back({s.group, s.name, s.value, s.doc});
  EXPECT_EQ(found, (std::vector<std::vector<std::string>>{{"Model", "model", "a 🦊 \"b\" # c", "what is trained"},
                                                          {"Model", "list", "[ \"x\", \"y#z\" ]", "two"},
                                                          {"Optimisation", "rate", "5e-05", "peak # learning rate"},
                                                          {"Optimisation", "rank", "16", "rank"},
                                                          {"Optimisation", "empty", "", ""}}));
}

TEST(Settings, NameTheLineThatIsNoToml) {
  Scratch folder;
  auto path = folder.write("config.toml", "a = 1\nb = \n");
  EXPECT_THAT(error_of([&] { config::read_settings(path); }), HasSubstr("config.toml line 2"));
  EXPECT_THAT(error_of([&] { config::read_settings(folder / "none.toml"); }), HasSubstr("none.toml"));
}
