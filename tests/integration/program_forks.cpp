// Runs the program many times, each in a fork of this process: it has loaded libtorch, which takes longer than most tests, and has done
// nothing else. Every line that comes in is {"arguments": [...], "environment": {...}, "output": FILE}; the status of waitpid goes out.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/program.h"

namespace {

[[noreturn]] void run(const nlohmann::json& request) {
  auto output = request.at("output").get<std::string>();
  int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC), file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (::dup2(nothing, 0) < 0 || ::dup2(file, 1) < 0 || ::dup2(file, 2) < 0) std::_Exit(126);
  for (const auto& [name, value] : request.at("environment").get<std::map<std::string, std::string>>())
    ::setenv(name.c_str(), value.c_str(), 1);
  int code = burnish::app::run_program(request.at("arguments").get<std::vector<std::string>>());
  std::fflush(nullptr);
  std::_Exit(code);  // as main does
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    auto request = nlohmann::json::parse(line);
    auto child = ::fork();
    if (child == 0) run(request);
    int status = -1;
    ::waitpid(child, &status, 0);
    std::cout << status << std::endl;
  }
}
