// Just enough JSON to print results: objects of numbers, texts, and what was printed before.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace kiln::harness {

inline std::string json_text(const std::string &text) {
    std::string json = "\"";
    for (const char c : text) {
        char escaped[8];
        if (c == '"' || c == '\\')
            (json += '\\') += c;
        else if (static_cast<unsigned char>(c) < 0x20)
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c), json += escaped;
        else
            json += c;
    }
    return json + '"';
}

// null where it is no finite number: JSON has none such.
inline std::string json_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return std::isfinite(value) ? text : "null";
}

inline std::string json_list(const std::vector<std::string> &items) {
    std::string json;
    for (const std::string &item : items) json += (json.empty() ? "" : ",") + item;
    return '[' + json + ']';
}

class JsonObject {
  public:
    JsonObject &text(const char *name, const std::string &value) { return raw(name, json_text(value)); }
    JsonObject &number(const char *name, double value) { return raw(name, json_number(value)); }
    // `value` is JSON.
    JsonObject &raw(const char *name, const std::string &value) {
        members_ += (members_.empty() ? "" : ",") + json_text(name) + ':' + value;
        return *this;
    }
    std::string str() const { return '{' + members_ + '}'; }

  private:
    std::string members_;
};

}  // namespace kiln::harness
