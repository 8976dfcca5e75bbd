#pragma once
#include <string>
#include <vector>

namespace burnish::app {

using Arguments = std::vector<std::string>;

// Each verb takes its arguments without program and verb name, and throws Error for what a user can mend.
void new_run(const Arguments& arguments);
void train(const Arguments& arguments);
void launch(const Arguments& arguments);
void plan(const Arguments& arguments);
void cache(const Arguments& arguments);
void sample(const Arguments& arguments);
void convert(const Arguments& arguments);
void data(const Arguments& arguments);
void caption(const Arguments& arguments);
void mask(const Arguments& arguments);
void inspect(const Arguments& arguments);
void list_models(const Arguments& arguments);
void import_settings(const Arguments& arguments);
void report(const Arguments& arguments);
void best(const Arguments& arguments);
void card(const Arguments& arguments);
void watch(const Arguments& arguments);
void studio(const Arguments& arguments);
void mcp(const Arguments& arguments);
void doctor(const Arguments& arguments);

}  // namespace burnish::app
