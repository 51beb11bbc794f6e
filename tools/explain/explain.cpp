// Explains a SPEC: resolves its layers, in their own dialect and in all others, and prints what they mean.
#include "explain/explain.h"

#include <algorithm>
#include <array>

#include "explain/rules.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "system/messages.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

std::string problem_text(const Resolution &resolution) {
    return std::string(std::string_view(print(resolution.problem)));
}

std::string message(const Reading &reading) {
    return fmt::format("{}: {}", to_string(reading.code), reading.error);
}

json to_json(const Shape &shape) {
    json sizes = json::array();
    for (int i = 0; i < shape.rank; ++i)
        sizes.push_back(shape.sizes[i] == open_size ? json("?") : json(shape.sizes[i]));
    return sizes;
}

json to_json(const Axes &axes, int rank) {
    json values = json::array();
    for (int axis = 0; axis < rank; ++axis) {
        const int64_t value = axes[static_cast<size_t>(axis)];
        values.push_back(value == open_size ? json("?") : json(value));
    }
    return values;
}

// The keys a reading adds to an answer.
void add_reading(const Reading &reading, json &answer) {
    answer["status"] = reading.resolution ? "ok" : "error";
    if (!reading.resolution) {
        answer["code"] = to_string(reading.code);
        answer["message"] = reading.error;
        return;
    }
    const Resolution &resolution = *reading.resolution;
    if (!reading.note.empty()) answer["note"] = reading.note;
    answer["problem"] = problem_text(resolution);
    answer["output_shape"] = to_json(resolution.y);
    answer["pads_begin"] = to_json(resolution.pads_begin, resolution.problem.rank);
    answer["pads_end"] = to_json(resolution.pads_end, resolution.problem.rank);
    for (int axis = 0; axis < resolution.problem.rank; ++axis)
        answer["rules"].push_back(sentence(resolution.rules[static_cast<size_t>(axis)]));
}

// Where a reading departs from the layer's own; "" where it does not, or cannot be compared.
std::string departs(const Reading &reading, const Reading &own) {
    if (!reading.resolution || !own.resolution) return "";
    return difference(*reading.resolution, *own.resolution);
}

using Row = std::array<std::string, 8>;

std::string aligned(const Row &row, const std::array<size_t, 8> &widths) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

Row to_row(const Explanation &explanation) {
    const LayerSpec &layer = *explanation.layer;
    const Resolution &resolution = *explanation.own.resolution;
    const int rank = resolution.problem.rank;
    return {layer.name,
            layer.op,
            shown(layer.x),
            shown(layer.w),
            shown(resolution.y),
            axes_text(resolution.pads_begin, rank, ","),
            axes_text(resolution.pads_end, rank, ","),
            explanation.choice.text.empty() ? "none" : explanation.choice.text};
}

// Notes under a table: each stands there once, and is referred to by its number.
class Notes {
  public:
    // "[1]" or "[1][3]"
    std::string refer(const std::vector<std::string> &notes) {
        std::string text;
        for (const std::string &note : notes) {
            const auto found = std::find(notes_.begin(), notes_.end(), note);
            text += fmt::format("[{}]", found - notes_.begin() + 1);
            if (found == notes_.end()) notes_.push_back(note);
        }
        return text;
    }
    std::string text() const {
        std::string text;
        for (size_t i = 0; i < notes_.size(); ++i) text += fmt::format("    [{}] {}\n", i + 1, notes_[i]);
        return text;
    }

  private:
    std::vector<std::string> notes_;
};

// The layer's own rules where another reading has others.
std::vector<std::string> own_rules(const Explanation &explanation) {
    std::vector<std::string> all;
    for (const Reading &reading : explanation.readings) {
        if (!reading.resolution || !explanation.own.resolution) continue;
        for (const std::string &rule : rules_that_differ(*explanation.own.resolution, *reading.resolution))
            if (std::find(all.begin(), all.end(), rule) == all.end()) all.push_back(rule);
    }
    return all;
}

// Why a reading is not the layer's own, and what it leaves aside.
std::vector<std::string> reasons(const Reading &reading, const Resolution &own) {
    std::vector<std::string> sentences = rules_that_differ(*reading.resolution, own);
    if (sentences.empty())
        if (const std::string text = difference(*reading.resolution, own); !text.empty()) sentences.push_back(text);
    if (!reading.note.empty()) sentences.push_back(reading.note);
    return sentences;
}

// Whether a reading is no good to whoever means the layer's own: it says something else, or is refused.
bool differs(const Reading &reading, const Reading &own) {
    if (!reading.resolution) return reading.code == StatusCode::invalid_argument;
    return !own.resolution || !departs(reading, own).empty();
}

// One line for a layer of which every dialect that has its operator makes the same; "" for any other.
std::string agreement(const Explanation &explanation) {
    std::vector<std::string> same, without;
    for (const Reading &reading : explanation.readings) {
        if (differs(reading, explanation.own)) return "";
        if (reading.resolution)
            same.push_back(reading.name + (reading.note.empty() ? "" : " (but for its type)"));
        else if (std::find(without.begin(), without.end(), reading.error) == without.end())
            without.push_back(reading.error);
    }
    return fmt::format("    the same under {}{}{}\n", fmt::join(same, ", "), without.empty() ? "" : "; ",
                       fmt::join(without, ", "));
}

// Every reading in a row, its numbers marked where they are not the layer's own, and why under the table.
std::string readings_text(const Explanation &explanation) {
    if (explanation.readings.empty()) return "";
    if (const std::string line = agreement(explanation); !line.empty()) return line;
    const Reading &own = explanation.own;
    Notes notes;
    std::vector<std::array<std::string, 5>> rows = {{"  under", "output", "pads begin", "end", ""}};
    for (const Reading &reading : explanation.readings) {
        std::array<std::string, 5> row = {"  " + reading.name, "-", "-", "-", ""};
        const bool is_layers = is_own(reading, *explanation.layer);
        if (is_layers) row[0][0] = '>';
        if (!reading.resolution) {
            row[4] = notes.refer(
                {reading.code == StatusCode::invalid_argument ? "invalid: " + reading.error : reading.error});
        } else {
            const Resolution &r = *reading.resolution, &o = own.resolution ? *own.resolution : r;
            const auto cell = [&](const Axes &axes, const Axes &others, const char *separator) {
                return axes_text(axes, r.problem.rank, separator) + (axes == others ? "" : " !");
            };
            row[1] = cell(r.problem.out, o.problem.out, "x");
            row[2] = cell(r.pads_begin, o.pads_begin, ",");
            row[3] = cell(r.pads_end, o.pads_end, ",");
            row[4] = notes.refer(is_layers ? own_rules(explanation) : reasons(reading, o));
        }
        rows.push_back(row);
    }
    std::array<size_t, 5> widths{};
    for (const auto &row : rows)
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    std::string text;
    for (const auto &row : rows) {
        std::string line = "   ";
        for (size_t i = 0; i < row.size(); ++i) line += fmt::format(" {:<{}} ", row[i], widths[i]);
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text + notes.text();
}

// What the marks mean, and which layers are worth a look; "" where readings were not asked for.
std::string summary(const std::vector<Explanation> &explanations) {
    std::vector<std::string> differing;
    bool has_readings = false;
    for (const Explanation &explanation : explanations) {
        has_readings = has_readings || !explanation.readings.empty();
        if (std::any_of(explanation.readings.begin(), explanation.readings.end(),
                        [&](const Reading &reading) { return differs(reading, explanation.own); }))
            differing.push_back(explanation.layer->name);
    }
    if (!has_readings) return "";
    if (differing.empty()) return "every dialect that has a layer's operator makes the same of it\n";
    return fmt::format(
        "> is how the layer itself is read, ! what another reading makes otherwise\n"
        "read otherwise elsewhere, or refused: {}\n",
        fmt::join(differing, ", "));
}

Explanation explain(const LayerSpec &layer, const std::string &target, const ExplainOptions &options,
                    const DescribeChoice &describe_choice) {
    Explanation explanation;
    explanation.layer = &layer;
    explanation.own = own_reading(layer);
    if (options.all_dialects) explanation.readings = all_readings(layer);
    if (explanation.own.resolution) try {
            explanation.choice = describe_choice(explanation.own.resolution->problem, target,
                                                 layer.optimize.value_or(Goal::speed), options);
        } catch (const Error &error) {
            explanation.choice_error = error.what();
        }
    return explanation;
}

// On stderr, which the answer does not stand on. Returns the exit status.
int report_failures(const Spec &spec, const std::vector<Explanation> &explanations) {
    int status = 0;
    const auto report = [&](const std::string &layer, const std::string &what) {
        say_error(fmt::format("layer {}: {}", layer, what));
        status = 1;
    };
    for (const Spec::Failure &failure : spec.failures)
        report(failure.layer, fmt::format("{}: {}", to_string(failure.code), failure.message));
    for (const Explanation &explanation : explanations) {
        if (!explanation.own.resolution) report(explanation.layer->name, message(explanation.own));
        if (!explanation.choice_error.empty()) report(explanation.layer->name, explanation.choice_error);
    }
    return status;
}

}  // namespace

namespace {

int64_t weight_bytes(const Explanation &explanation) {
    const Problem &p = explanation.own.resolution->problem;
    return p.w_elements() * size_of(p.w_type);
}

// What all layers' weights need, as a model has them and as kernels read them; "" where sizes are open.
std::string weights_text(const std::vector<Explanation> &explanations) {
    int64_t weights = 0, packed = 0;
    for (const Explanation &explanation : explanations)
        if (explanation.choice.packed_bytes > 0) {
            weights += weight_bytes(explanation);
            packed += explanation.choice.packed_bytes;
        }
    if (packed == 0) return "";
    return fmt::format("weights: {:.1f} KB, packed {:.1f} KB\n", weights / 1024.0, packed / 1024.0);
}

}  // namespace

std::string to_text(const Spec &spec, const std::vector<Explanation> &explanations) {
    std::vector<Row> rows = {{"layer", "operator", "x", "w", "y", "pads begin", "end", "kernel"}};
    std::array<size_t, 8> widths{};
    for (const Explanation &explanation : explanations)
        if (explanation.own.resolution) rows.push_back(to_row(explanation));
    for (const Row &row : rows)
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());

    std::string text = rows.size() > 1 ? aligned(rows[0], widths) : "";
    size_t row = 1;
    for (const Explanation &explanation : explanations) {
        if (explanation.own.resolution)
            text += aligned(rows[row++], widths) + "    " + problem_text(*explanation.own.resolution) + "\n";
        else
            text += fmt::format("{}\n    {}\n", explanation.layer->name, message(explanation.own));
        if (!explanation.choice.size.empty()) text += fmt::format("    {}\n", explanation.choice.size);
        text += readings_text(explanation);
    }
    text += weights_text(explanations);
    text += summary(explanations);
    for (const std::string &note : spec.notes) text += fmt::format("note: {}\n", note);
    return text;
}

json to_json(const Spec &spec, const std::vector<Explanation> &explanations) {
    json layers = json::array();
    for (const Explanation &explanation : explanations) {
        const LayerSpec &layer = *explanation.layer;
        json answer = {{"name", layer.name},
                       {"operator", layer.op},
                       {"reading", explanation.own.name},
                       {"dtype", document_name(layer.dtype)},
                       {"x", to_json(layer.x)},
                       {"w", to_json(layer.w)}};
        add_reading(explanation.own, answer);
        if (!explanation.choice.text.empty()) answer["kernel"] = explanation.choice.text;
        if (!explanation.choice.size.empty()) answer["size"] = explanation.choice.size;
        if (explanation.choice.packed_bytes > 0) {
            answer["weight_bytes"] = weight_bytes(explanation);
            answer["packed_bytes"] = explanation.choice.packed_bytes;
        }
        if (!explanation.choice_error.empty()) answer["kernel_error"] = explanation.choice_error;
        for (const Reading &reading : explanation.readings) {
            json other = {{"reading", reading.name}};
            add_reading(reading, other);
            if (const std::string text = departs(reading, explanation.own); !text.empty()) {
                other["differs"] = text;
                other["why"] = reasons(reading, *explanation.own.resolution);
            }
            answer["dialects"].push_back(other);
        }
        layers.push_back(answer);
    }
    for (const Spec::Failure &failure : spec.failures)
        layers.push_back({{"name", failure.layer},
                          {"status", "error"},
                          {"code", to_string(failure.code)},
                          {"message", failure.message}});
    return {{"name", spec.name}, {"layers", layers}, {"notes", spec.notes}};
}

int explain_command(const ExplainOptions &options, const DescribeChoice &describe_choice) {
    Spec spec = load_spec(options.spec, options.spec_options);
    select_layers(&spec, options.layers);
    const std::string target = !options.target.empty() ? options.target
                               : !spec.targets.empty() ? spec.targets.front()
                                                       : "host";
    std::vector<Explanation> explanations;
    for (const LayerSpec &layer : spec.layers) explanations.push_back(explain(layer, target, options, describe_choice));
    fmt::print("{}", options.json ? to_json(spec, explanations).dump(2) + "\n" : to_text(spec, explanations));
    return report_failures(spec, explanations);
}

}  // namespace kiln::tools
