// Files of a studio: what they are, and what they are converted into.
#include <ATen/ops/zeros.h>

#include "io/safetensors.h"
#include "tests/studio/served.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class FileTest : public StudioTest {
 protected:
  /// In place of burnish: `inspect` says which file it was given, `convert` copies its settings to the path that they name last.
  FileTest() {
    std::ofstream(program())
        << "#!/bin/sh\ncase $1 in\n"
           "inspect) case $2 in *broken*) echo '[inspect] no header' >&2; exit 3;; esac; printf '[{\"path\": \"%s\"}]' \"$2\";;\n"
           "help) echo \"{\\\"verb\\\": \\\"$2\\\"}\"; echo asked >> '"
        << (scratch / "asked").string() << "';;\nconvert) echo '[info] convert 1/2' >&2; while [ -e '" << (scratch / "hold").string()
        << "' ]; do sleep 0.02; done\n  OUT=$(sed -n 's/^path = .*,\"\\(.*\\)\"]$/\\1/p' \"$3\"); cp \"$3\" \"$OUT\";;\nesac\n";
    io::save_safetensors(scratch / "lora.safetensors", {{"dit.to_q.lora_A.weight", at::zeros({1, 4})}});
    lora = text_of(scratch / "lora.safetensors");
  }
  int put(const std::string& path, const std::string& bytes) const {
    auto answer = client().Put("/api/files/" + path, {{"Authorization", "Bearer " + token}}, bytes, "application/octet-stream");
    return answer ? answer->status : 0;
  }
  json convert(json wish) const {
    wish["inputs"] = {{{"place", "files"}, {"name", "cat.safetensors"}}};
    return ask("/api/conversions", wish);
  }
  json last_conversion() const { return ask("/api/conversions").back(); }

  std::string lora;
};

}  // namespace

TEST_F(FileTest, AreAddedListedTakenAwayAndThrownAway) {
  EXPECT_EQ(put("files/cat.safetensors", lora), 200);
  EXPECT_EQ(put("files/cat.safetensors", lora), 200);
  EXPECT_EQ(put("loras/other.pt", "x"), 200);
  EXPECT_EQ(put("files/peft/adapter_config.json", "{}"), 200);
  EXPECT_EQ(put("files/peft/adapter_model.safetensors", lora), 200);
  fs::create_directories(run("r"));
  std::ofstream(run("r") / "step-1.safetensors") << "no weights";
  std::ofstream(run("r") / "config.toml") << "";
  std::map<std::string, bool> found;
  for (const auto& file : ask("/api/files"))
    found[file["place"].get<std::string>() + "/" + file["name"].get<std::string>()] = file["is_adapter"];
  EXPECT_EQ(found, (std::map<std::string, bool>{{"files/cat.safetensors", true},
                                                {"files/cat-2.safetensors", true},
                                                {"files/peft", true},
                                                {"loras/other.pt", false},
                                                {"runs/r/step-1.safetensors", false}}));
  auto sent = client().Get("/api/files/files/peft/adapter_model.safetensors", {{"Cookie", cookie()}});
  EXPECT_EQ(sent->body, lora);
  auto gone = client().Delete("/api/files/files/cat-2.safetensors", {{"Authorization", "Bearer " + token}});
  EXPECT_EQ(gone->status, 200);
  EXPECT_FALSE(fs::exists(root() / "files/cat-2.safetensors"));
  EXPECT_EQ(client().Delete("/api/files/runs/r/step-1.safetensors", {{"Authorization", "Bearer " + token}})->status, 404);
}

TEST_F(FileTest, TakesNothingElse) {
  EXPECT_EQ(put("files/a.sh", "x"), 400);
  EXPECT_EQ(put("files/config.json", "{}"), 400) << "which belongs into a folder";
  EXPECT_EQ(put("files/a/../../a.safetensors", lora), 400);
  EXPECT_EQ(put("files/.hidden/a.safetensors", lora), 400);
  EXPECT_EQ(put("files/a/b/c/d/e.safetensors", lora), 400);
  EXPECT_EQ(put("runs/r/a.safetensors", lora), 404);
  EXPECT_EQ(ask("/api/files/runs/../queue/queue.json")["status"], 404);
  EXPECT_EQ(ask("/api/inspect/files/..")["status"], 404);
  EXPECT_FALSE(fs::exists(root() / "a.safetensors"));
}

TEST_F(FileTest, AreLookedAtByTheProgram) {
  ASSERT_EQ(put("files/cat.safetensors", lora) + put("files/broken.safetensors", "x"), 400);
  EXPECT_EQ(ask("/api/inspect/files/cat.safetensors")["reports"][0]["path"], (root() / "files/cat.safetensors").string());
  const auto broken = ask("/api/inspect/files/broken.safetensors");
  EXPECT_EQ(broken["sentence"], "no header");
  EXPECT_TRUE(broken["reports"].empty());
}

TEST_F(FileTest, AreConvertedOneAfterTheOther) {
  ASSERT_EQ(put("files/cat.safetensors", lora), 200);
  std::ofstream(scratch / "hold") << "";
  EXPECT_EQ(convert({{"name", "out.safetensors"}, {"settings", "lora_format = \"kohya\"\n"}})["run"], "out.safetensors");
  convert({{"name", "cat.safetensors"}});
  ASSERT_TRUE(comes_true([&] { return ask("/api/conversions")[0]["says"] == "convert 1/2"; }));
  EXPECT_EQ(last_conversion()["state"], "waiting");
  fs::remove(scratch / "hold");
  ASSERT_TRUE(comes_true([&] { return last_conversion()["state"] == "ended"; }));
  EXPECT_EQ(last_conversion()["exit_code"], 0);
  EXPECT_EQ(last_conversion()["name"], "cat-2.safetensors") << "what is there stays";
  EXPECT_EQ(text_of(root() / "files/cat.safetensors"), lora);
  EXPECT_THAT(text_of(root() / "files/out.safetensors"), HasSubstr("lora_format = \"kohya\""));
  EXPECT_EQ(client().Get("/api/files/files/out.safetensors", {{"Cookie", cookie()}})->body, text_of(root() / "files/out.safetensors"));
}

TEST_F(FileTest, AConversionCanBeStopped) {
  ASSERT_EQ(put("files/cat.safetensors", lora), 200);
  std::ofstream(scratch / "hold") << "";
  const auto id = convert({{"name", "out.safetensors"}})["id"].get<std::string>();
  ASSERT_TRUE(comes_true([&] { return last_conversion()["state"] == "running"; }));
  EXPECT_EQ(ask("/api/conversions/" + id + "/stop", json::object()), json::object());
  ASSERT_TRUE(comes_true([&] { return last_conversion()["state"] == "ended"; }));
  EXPECT_EQ(last_conversion()["exit_code"], 130);
  EXPECT_FALSE(fs::exists(root() / "files/out.safetensors"));
  EXPECT_EQ(ask("/api/conversions/" + id + "/stop", json::object())["status"], 409);
  EXPECT_EQ(convert({{"name", "../out"}})["status"], 400);
  EXPECT_EQ(ask("/api/conversions", json{{"name", "out"}, {"inputs", {{{"place", "files"}, {"name", "no.safetensors"}}}}})["status"], 400);
}

TEST_F(FileTest, OptionsAreThoseOfTheProgramAskedForOnce) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask("/api/options/convert")["verb"], "convert");
  EXPECT_EQ(text_of(scratch / "asked"), "asked\n");
  EXPECT_EQ(status_of("/api/options/launch", {{"Cookie", cookie()}}), 404);
}
