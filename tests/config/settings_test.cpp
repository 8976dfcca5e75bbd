#include "config/settings.h"

#include <gmock/gmock.h>

#include "base/error.h"
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

TEST(Settings, ABackslashInDoubleQuotesIsExplained) {
  Scratch folder;
  std::string model;
  std::vector<std::string> files;
  config::Fields fields;
  fields.path("model", model, "");
  fields.path("files", files, "");
  auto read = [&](const std::string& text, Exit code) {
    return error_of([&] { config::read_toml(folder.write("a.toml", text), fields); }, code);
  };
  for (const char* windows : {"C:\\Users\\me", "C:\\Umbria", "D:\\data", "D:\\xyz", "C:\\u12"}) {
    auto said = read("model = \"" + std::string(windows) + "\"\n", Exit::data);
    EXPECT_THAT(said, HasSubstr("line 1")) << windows;
    EXPECT_THAT(said, HasSubstr("write a path in single quotes")) << windows;
  }
  for (const char* windows : {"D:\\train", "D:\\new", "D:\\bin", "D:\\runs", "D:\\flux"}) {
    EXPECT_THAT(read("model = \"" + std::string(windows) + "\"\n", Exit::config), HasSubstr("write a path in single quotes, or with /"))
        << windows;
    EXPECT_THAT(read("files = ['a', \"" + std::string(windows) + "\"]\n", Exit::config), HasSubstr("line 1: 'files'")) << windows;
  }
  config::read_toml(folder.write("a.toml", "model = '/C:\\Users\\new'\n"), fields);
  EXPECT_EQ(model, "/C:\\Users\\new");
  EXPECT_THAT(error_of([&] { config::read_toml_text("model = \"C:\\Users\"", fields); }), HasSubstr("single quotes"));
  EXPECT_THAT(error_of([&] { config::read_settings(folder.write("b.toml", "m = \"C:\\Users\"\n")); }), HasSubstr("single quotes"));
  EXPECT_THAT(error_of([&] {
                config::read_toml_items(folder.write("c.toml", "[[datasets]]\nmodel = \"C:\\Users\"\n"), "datasets", "subsets",
                                        [&] { return fields; });
              }),
              HasSubstr("single quotes"));
}
