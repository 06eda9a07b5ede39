// `strata` alone, `strata help` and `strata completion`.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/style.h"

namespace strata::cli {
namespace {

struct Page {
  const char* name;
  const char* text;
};
constexpr Page kPages[] = {
#include "strata/help_pages.inc"
};

// A page of docs/usage for a terminal: without fences, and links by their text.
std::string plain(std::string_view page) {
  std::string out;
  bool code = false;
  for (size_t at = 0; at < page.size();) {
    const size_t end = std::min(page.find('\n', at), page.size());
    std::string line(page.substr(at, end - at));
    at = end + 1;
    if (line.starts_with("```")) {
      code = !code;
      continue;
    }
    if (code) {
      out += "    " + line + "\n";
      continue;
    }
    if (line.starts_with("<!--")) continue;
    for (size_t open = line.find("]("); open != line.npos; open = line.find("](", open)) {
      const size_t close = line.find(')', open), begin = line.rfind('[', open);
      if (close == line.npos || begin == line.npos) break;
      line = line.substr(0, begin) + line.substr(begin + 1, open - begin - 1) + line.substr(close + 1);
      open = begin;
    }
    if (line.starts_with('#')) line = bold(line.substr(line.find_first_not_of("# ")));
    out += line + "\n";
  }
  return out;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> all = app.get_subcommands([](const CLI::App*) { return true; });
  std::sort(all.begin(), all.end(), [](const CLI::App* a, const CLI::App* b) { return a->get_name() < b->get_name(); });
  return all;
}

std::string topics() {
  std::string text;
  for (const Page& p : kPages) text += fmt::format("{}{}", text.empty() ? "" : ", ", p.name);
  return text;
}

int help(const CLI::App& app, const std::string& topic) {
  if (topic.empty()) {
    fmt::print("{}\nTopics of `strata help`: the names of commands, and {}\n", app.help(), topics());
    return 0;
  }
  // A command first: `strata help devices` is its options; the page of that name follows.
  bool known = false;
  for (const CLI::App* c : commands_of(app))
    if (c->get_name() == topic) {
      fmt::print("{}\n", c->help("strata"));
      known = true;
    }
  for (const Page& p : kPages)
    if (topic == p.name) {
      fmt::print("{}", plain(p.text));
      known = true;
    }
  STRATA_CHECK(known, Value, "help: there is no topic '{}'; there are the names of commands, and {}", topic, topics());
  return 0;
}

// --- completion --------------------------------------------------------------------------------------------------------

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& name : o->get_lnames()) all.push_back("--" + name);
  std::sort(all.begin(), all.end());
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

std::string names_of(const std::vector<const CLI::App*>& all) {
  std::string text;
  for (const CLI::App* c : all) text += (text.empty() ? "" : " ") + c->get_name();
  return text;
}

std::string for_bash(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* c : commands_of(app))
    cases += fmt::format("    {}) words=\"{}\" ;;\n", c->get_name(), joined(options_of(*c)));
  return fmt::format(R"sh(_strata() {{
  local words current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  case $previous in
    --device) COMPREPLY=($(compgen -W "cpu cuda vgpu" -- "$current")); return ;;
    --dtype) COMPREPLY=($(compgen -W "float64 float32 float16 bfloat16 int64 int32 int8 uint8" -- "$current")); return ;;
    --out|--data|--output) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} {}" -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}    *) words="" ;;
  esac
  case ${{COMP_WORDS[1]}},$current in
    *,-*) ;;
    explain,*|tune,*|ops,*) [ "$COMP_CWORD" -eq 2 ] && words="$words $(strata ops --names 2>/dev/null)" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _strata strata
)sh",
                     names_of(commands_of(app)), joined(options_of(app)), cases);
}

std::string quoted(std::string text) {  // for single quotes
  for (size_t at = text.find('\''); at != text.npos; at = text.find('\'', at + 4)) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

std::string for_zsh(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* c : commands_of(app)) {
    std::string about = c->get_description();
    for (char& x : about) x = x == ':' ? ';' : x;
    commands += fmt::format("    {}\n", quoted(c->get_name() + ":" + about));
    cases += fmt::format("    {}) compadd -- {} ;;\n", c->get_name(), joined(options_of(*c)));
  }
  return fmt::format(R"sh(#compdef strata
_strata() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    compadd -- {}
    return
  fi
  case $words[CURRENT-1] in
    --device) compadd cpu cuda vgpu; return ;;
    --out|--data|--output) _files; return ;;
  esac
  case $words[2] in
{}  esac
  _files
}}
compdef _strata strata
)sh",
                     commands, joined(options_of(app)), cases);
}

std::string for_fish(const CLI::App& app) {
  std::string text = "complete -c strata -f\n";
  for (const CLI::App* c : commands_of(app)) {
    text += fmt::format("complete -c strata -n __fish_use_subcommand -a {} -d {}\n", c->get_name(),
                        quoted(c->get_description()));
    for (const CLI::Option* o : c->get_options())
      for (const std::string& name : o->get_lnames())
        text += fmt::format("complete -c strata -n '__fish_seen_subcommand_from {}' -l {}{} -d {}\n", c->get_name(),
                            name, o->get_expected_max() > 0 ? " -r" : "", quoted(o->get_description()));
  }
  return text;
}
}  // namespace

void add_help(CLI::App& app, Run& run) {
  auto topic = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("help", "Show the options of a command, or a page of the documentation");
  command->add_option("topic", *topic, "A command, or a page such as tour, devices, saving");
  command->footer("Example: strata help tour");
  command->callback([&run, &app, topic] { run = [&app, topic] { return help(app, *topic); }; });
}

void add_completion(CLI::App& app, Run& run) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands in a shell");
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer("Example: strata completion bash > ~/.local/share/bash-completion/completions/strata");
  command->callback([&run, &app, shell] {
    run = [&app, shell] {
      fmt::print("{}", *shell == "bash" ? for_bash(app) : *shell == "zsh" ? for_zsh(app) : for_fish(app));
      return 0;
    };
  });
}

int welcome() {
  fmt::print(
    "{}\n\nFive things to try first:\n"
    "  strata devices                                    what this machine has\n"
    "  strata doctor                                     whether its GPUs can be used, and if not, why not\n"
    "  strata explain add 'f(512,512), f(512)'           every layer that one addition passes\n"
    "  strata train --epochs 1                           a small network on handwritten digits\n"
    "  strata help tour                                  ten minutes of Strata\n\n"
    "strata --help lists all commands.\n",
    bold(fmt::format("Strata {}: a deep-learning stack you can see through.", STRATA_VERSION)));
  return 0;
}

}  // namespace strata::cli
