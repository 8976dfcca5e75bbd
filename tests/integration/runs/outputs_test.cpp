// What a command writes: it replaces nothing else, and when it cannot be written a script learns of it.
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;

using Outputs = BadInput;

TEST_F(Outputs, ImportReplacesNoFile) {
  auto text = std::string("accelerate launch flux_train_network.py --network_dim=4 --network_module=networks.lora_flux\n");
  auto script = write("kohya.sh", text), taken = write("taken.toml", "mine");
  refused(2, "import " + quoted(script) + " --output " + quoted(script), {"kohya.sh is there already", "--overwrite"});
  refused(2, "import " + quoted(script) + " --overwrite --output " + quoted(script), {"is read and written"});
  refused(2, "import " + quoted(script) + " --output " + quoted(taken), {"taken.toml is there already"});
  EXPECT_EQ(read_file(script), text);
  EXPECT_EQ(read_file(taken), "mine");
  EXPECT_EQ(run_burnish("import " + quoted(script) + " --overwrite --output " + quoted(taken)).exit_code, 0);
  EXPECT_NE(read_file(taken).find("lora_rank = 4"), std::string::npos);
}

TEST_F(Outputs, LatentsAreRefusedBeforeAnythingIsDrawn) {
  auto with = [&](const fs::path& path) { return sample("--save_latents " + quoted(path)); };
  refused(3, with("/proc/x.safetensors"), {"/proc/x.safetensors"});
  refused(2, with(at("latents")), {"latents must be the name of a .safetensors file"});
  refused(2, with(at(".safetensors")), {"must be the name of a .safetensors file"});
  io::save_safetensors(at("lora.safetensors"), {{"latents", at::zeros({2})}, {"more", at::zeros({2})}});
  refused(2, with(at("lora.safetensors")), {"is there already, and was not written by this command"});
  ASSERT_EQ(run_burnish(with(at("new.safetensors"))).exit_code, 0);
  EXPECT_EQ(run_burnish(with(at("new.safetensors"))).exit_code, 0) << "its own are replaced";
  EXPECT_TRUE(fs::exists(out() / "0000.png"));
}

TEST_F(Outputs, PagesReplacePagesAlone) {
  auto run = write("run/log.jsonl", "{\"step\": 1, \"loss\": 1.0, \"time\": 1.0}\n").parent_path();
  auto log = read_file(run / "log.jsonl");
  auto report = [&](const fs::path& to) { return "report " + quoted(run) + " --output " + quoted(to); };
  refused(2, report(run / "log.jsonl"), {"must be the name of a .html file"});
  EXPECT_EQ(read_file(run / "log.jsonl"), log);
  refused(2, report(write("mine.html", "<html>mine</html>")), {"mine.html is there already"});
  ASSERT_EQ(run_burnish(report(at("page.html"))).exit_code, 0);
  EXPECT_EQ(run_burnish(report(at("page.html"))).exit_code, 0);
  fs::copy(kGolden / "pictures/0.png", (fs::create_directories(at("ds")), at("ds/0.png")));
  auto caption = write("ds/0.txt", "a cat");
  auto sheet = [&](const fs::path& to) { return "data " + quoted(at("ds")) + " --contact_sheet " + quoted(to); };
  auto refused_sheet = run_burnish(sheet(caption));
  EXPECT_EQ(refused_sheet.exit_code, 2) << refused_sheet.output;
  EXPECT_EQ(read_file(caption), "a cat");
  ASSERT_EQ(run_burnish(sheet(at("sheet.html"))).exit_code, 0);
  EXPECT_EQ(run_burnish(sheet(at("sheet.html"))).exit_code, 0);
}

TEST_F(Outputs, ThatCannotBeWrittenAreAnError) {
  auto script = write("kohya.sh", "accelerate launch flux_train_network.py --network_dim=4 --network_module=networks.lora_flux\n");
  for (const auto& arguments : {"import " + quoted(script), std::string("train --help"), std::string("--version")}) {
    SCOPED_TRACE(arguments);
    auto outcome = run_burnish("-c '\"$0\" " + arguments + " >/dev/full' " + quoted(test::kProgram), "BURNISH_LOG=error", "/bin/bash");
    expect_one_error(outcome, 3, {"[app] the output cannot be written: No space left on device"});
  }
}
