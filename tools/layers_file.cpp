// Reads a layers file: merges defaults, layers and variants into one table a layer, and remembers their lines.
#include "layers_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "fmt/format.h"
#include "suggest.h"
// toml++ 3.3 asserts what a malformed file can break, and reports an error where the assertion is left out.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include "toml++/toml.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

// A table of the file, as JSON, with the line of each key.
struct Table {
    json values = json::object();
    std::map<std::string, int> lines;
    int line = 0;
};

// A layer before it is read: its merged table, and the lines of its keys.
struct Entry {
    std::string name;
    Table table;
};

class LayersFile {
  public:
    explicit LayersFile(const std::string &path) : path_(path) {}

    Spec load() {
        const toml::table root = parse();
        for (const auto &[key, node] : root) check_table_name(key, node);
        Spec spec;
        read_library(root, spec);
        const Table defaults = read_defaults(root);
        read_layers(root, defaults);
        read_variants(root);
        for (const Entry &entry : entries_) add_layer(entry, spec);
        return spec;
    }

  private:
    [[noreturn]] void fail(int line, const std::string &message) const {
        throw Error(fmt::format("{}:{}: {}", path_, line, message));
    }

    static int line_of(const toml::node &node) { return static_cast<int>(node.source().begin.line); }

    toml::table parse() const {
        std::ifstream file(path_, std::ios::binary);
        std::stringstream content;
        content << file.rdbuf();
        if (!file) throw Error(fmt::format("{} cannot be read: {}", path_, std::strerror(errno ? errno : EIO)));
        try {
            return toml::parse(content.str(), path_);
        } catch (const toml::parse_error &error) {
            fail(static_cast<int>(error.source().begin.line), std::string(error.description()));
        }
    }

    void check_table_name(const toml::key &key, const toml::node &node) const {
        constexpr std::string_view names[] = {"library", "defaults", "layer", "variant"};
        if (std::find(std::begin(names), std::end(names), key.str()) == std::end(names))
            fail(static_cast<int>(key.source().begin.line),
                 fmt::format("unknown key {}: did you mean {}?", key.str(), nearest_name(key.str(), names)));
        const bool list = key == "layer" || key == "variant";
        if (list ? !node.is_array_of_tables() : !node.is_table())
            fail(line_of(node), list ? fmt::format("{0} is a list of tables: write [[{0}]]", key.str())
                                     : fmt::format("{0} is a table: write [{0}]", key.str()));
    }

    json to_json(const std::string &key, const toml::node &node) const {
        if (const auto *value = node.as_string()) return value->get();
        if (const auto *value = node.as_integer()) return value->get();
        if (const auto *value = node.as_floating_point()) return value->get();
        if (const auto *value = node.as_boolean()) return value->get();
        if (const auto *array = node.as_array()) {
            json values = json::array();
            for (const toml::node &item : *array) values.push_back(to_json(key, item));
            return values;
        }
        if (const auto *table = node.as_table()) {
            json values = json::object();
            for (const auto &[name, item] : *table) values[std::string(name.str())] = to_json(key, item);
            return values;
        }
        fail(line_of(node), fmt::format("{} is a date or time, which no key takes", key));
    }

    Table to_table(const toml::table &source) const {
        Table table;
        table.line = line_of(source);
        for (const auto &[key, node] : source) {
            const std::string name(key.str());
            table.values[name] = to_json(name, node);
            table.lines[name] = static_cast<int>(key.source().begin.line);
        }
        return table;
    }

    // `above`, with what `table` sets in place of its own.
    static Table merged(const Table &above, const Table &table) {
        Table result = above;
        result.line = table.line;
        result.values.update(table.values);
        for (const auto &[key, line] : table.lines) result.lines[key] = line;
        return result;
    }

    void check_keys(const Table &table) const {
        for (const auto &[key, line] : table.lines) try {
                check_layer_key(key);
            } catch (const Error &error) {
                fail(line, error.what());
            }
    }

    std::vector<std::string> texts(const Table &table, const std::string &key) const {
        const json &value = table.values.at(key);
        const bool fits = value.is_array() &&
                          std::all_of(value.begin(), value.end(), [](const json &item) { return item.is_string(); });
        if (!fits) fail(table.lines.at(key), fmt::format("{} is {}: a list of texts is needed", key, shown(value)));
        return value.get<std::vector<std::string>>();
    }

    std::string identifier(const Table &table, const std::string &key) const {
        const json &value = table.values.at(key);
        if (!value.is_string() || !is_identifier(value.get<std::string>()))
            fail(table.lines.at(key),
                 fmt::format("{} is {}: a C identifier is needed: letters, digits and _, no digit in front", key,
                             shown(value)));
        return value.get<std::string>();
    }

    void read_library(const toml::table &root, Spec &spec) const {
        constexpr std::string_view names[] = {"name", "targets"};
        spec.name = to_identifier(std::filesystem::path(path_).stem().string());
        if (!root.contains("library")) return;
        const Table table = to_table(*root["library"].as_table());
        for (const auto &[key, line] : table.lines) {
            if (key == "name")
                spec.name = identifier(table, key);
            else if (key == "targets")
                spec.targets = texts(table, key);
            else
                fail(line, fmt::format("unknown key {} in [library]: did you mean {}?", key, nearest_name(key, names)));
        }
    }

    Table read_defaults(const toml::table &root) const {
        if (!root.contains("defaults")) return {};
        const Table table = to_table(*root["defaults"].as_table());
        if (table.lines.count("name")) fail(table.lines.at("name"), "name in [defaults]: names are unique");
        check_keys(table);
        return table;
    }

    void read_layers(const toml::table &root, const Table &defaults) {
        if (!root.contains("layer")) throw Error(fmt::format("{} has no [[layer]]", path_));
        for (const toml::node &node : *root["layer"].as_array()) {
            const Table table = to_table(*node.as_table());
            if (!table.lines.count("name")) fail(table.line, "a [[layer]] without name");
            // A problem says everything itself.
            add_entry({identifier(table, "name"), table.lines.count("problem") ? table : merged(defaults, table)});
        }
    }

    void add_entry(Entry entry) {
        entry.table.values["name"] = entry.name;
        for (const Entry &other : entries_)
            if (other.name == entry.name)
                fail(entry.table.line,
                     fmt::format("two layers are named {}; the other stands in line {}", entry.name, other.table.line));
        entries_.push_back(std::move(entry));
    }

    // Which of the layers above a variant is of: those it names, all if it names none.
    std::vector<const Entry *> bases(const Table &variant, const std::vector<Entry> &above) const {
        std::vector<const Entry *> result;
        std::vector<std::string_view> names;
        for (const Entry &entry : above) {
            names.push_back(entry.name);
            if (!variant.lines.count("layers")) result.push_back(&entry);
        }
        if (!variant.lines.count("layers")) return result;
        for (const std::string &name : texts(variant, "layers")) {
            const auto found = std::find(names.begin(), names.end(), name);
            if (found == names.end())
                fail(variant.lines.at("layers"),
                     fmt::format("there is no layer {}: did you mean {}?", name, nearest_name(name, names)));
            result.push_back(&above[static_cast<size_t>(found - names.begin())]);
        }
        return result;
    }

    // What stands behind '_' in the names of a variant's layers.
    std::string suffix(const Table &variant) const {
        const char *key = variant.lines.count("suffix") ? "suffix" : "dtype";
        if (!variant.lines.count(key))
            fail(variant.line, "a [[variant]] that sets no dtype needs a suffix, for the names of its layers");
        const json &value = variant.values.at(key);
        if (!value.is_string() || !is_identifier("_" + value.get<std::string>()))
            fail(variant.lines.at(key),
                 fmt::format("{} is {}: a name's letters, digits and _ are needed", key, shown(value)));
        return value.get<std::string>();
    }

    void read_variants(const toml::table &root) {
        if (!root.contains("variant")) return;
        const std::vector<Entry> layers = entries_;
        for (const toml::node &node : *root["variant"].as_array()) {
            const Table variant = to_table(*node.as_table());
            Table changes = variant;
            for (const char *key : {"layers", "suffix"}) {
                changes.values.erase(key);
                changes.lines.erase(key);
            }
            if (changes.lines.count("name"))
                fail(changes.lines.at("name"), "name in [[variant]]: its layers are named by dtype or suffix");
            check_keys(changes);
            for (const Entry *base : bases(variant, layers))
                add_entry({base->name + "_" + suffix(variant), merged(base->table, changes)});
        }
    }

    void add_layer(const Entry &entry, Spec &spec) const {
        const std::string folder = std::filesystem::absolute(path_).parent_path().string();
        const auto report = [&](int line, const Error &error) {
            spec.failures.push_back({entry.name, error.code, fmt::format("{}:{}: {}", path_, line, error.what())});
        };
        try {
            spec.layers.push_back(layer_from_json(entry.table.values, folder));
        } catch (const KeyError &error) {
            const auto line = entry.table.lines.find(error.key.substr(0, error.key.find_first_of("[.")));
            report(line == entry.table.lines.end() ? entry.table.line : line->second, error);
        } catch (const Error &error) {
            report(entry.table.line, error);
        }
    }

    const std::string path_;
    std::vector<Entry> entries_;
};

}  // namespace

Spec load_layers_file(const std::string &path, const SpecOptions &options) {
    if (!options.shapes.empty())
        throw Error(
            fmt::format("--shape {} is for ONNX models: {} says its shapes itself", options.shapes[0].first, path));
    return LayersFile(path).load();
}

}  // namespace kiln::tools
