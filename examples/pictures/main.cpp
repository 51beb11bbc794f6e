// upscale_picture IN.ppm OUT.ppm: a picture of 160 x 120 pixels, four times as wide and high.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "upscaler.h"

namespace {

// As in layers.toml. Beyond its edges a picture goes on as it is there: zeros would darken them. So the convolution's
// input has a pixel more on every side, and what comes of those is cut off.
constexpr int width = 160, height = 120, colours = 3, factor = 4, taps = 8, border = 1;
constexpr int padded_width = width + 2 * border, padded_height = height + 2 * border;
constexpr int wide = factor * padded_width, high = factor * padded_height;

float x[colours * padded_height * padded_width], w[colours * taps * taps], y[colours * high * wide];
alignas(KILN_ALIGNMENT) unsigned char packed[UPSCALER_BY4_PACKED_BYTES];
alignas(KILN_ALIGNMENT) unsigned char workspace[UPSCALER_BY4_WORKSPACE_BYTES + 1];

// A tap's weight falls linearly with its distance from the centre of the pixel it spreads.
void fill_weights() {
    for (int i = 0; i < colours * taps * taps; ++i) {
        const auto weight = [](int tap) { return 1 - std::abs(tap - (taps - 1) / 2.0F) / factor; };
        w[i] = weight(i / taps % taps) * weight(i % taps);
    }
}

// The pixels of a binary PPM file, three bytes each; none if it is not one of this program's size.
std::vector<uint8_t> read_picture(const char *path) {
    std::ifstream file(path, std::ios::binary);
    std::string kind;
    int columns = 0, rows = 0, largest = 0;
    file >> kind >> columns >> rows >> largest;
    file.get();
    if (!file || kind != "P6" || columns != width || rows != height || largest != 255) return {};
    std::vector<uint8_t> pixels{std::istreambuf_iterator<char>(file), {}};
    return pixels.size() == size_t{width} * height * colours ? pixels : std::vector<uint8_t>{};
}

bool write_picture(const char *path, const std::vector<uint8_t> &pixels) {
    std::ofstream file(path, std::ios::binary);
    file << "P6 " << factor * width << ' ' << factor * height << " 255\n";
    file.write(reinterpret_cast<const char *>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
    file.close();
    return !file.fail();
}

// From pixels to one plane a colour, with the border.
void set_input(const std::vector<uint8_t> &pixels) {
    for (int i = 0; i < colours * padded_height * padded_width; ++i) {
        const int colour = i / (padded_height * padded_width);
        const int row = std::clamp(i / padded_width % padded_height - border, 0, height - 1);
        const int column = std::clamp(i % padded_width - border, 0, width - 1);
        x[i] = pixels[(row * width + column) * colours + colour];
    }
}

std::vector<uint8_t> output() {
    std::vector<uint8_t> pixels;
    for (int row = factor * border; row < high - factor * border; ++row)
        for (int column = factor * border; column < wide - factor * border; ++column)
            for (int colour = 0; colour < colours; ++colour) {
                const float value = y[(colour * high + row) * wide + column];
                pixels.push_back(static_cast<uint8_t>(std::lround(std::clamp(value, 0.0F, 255.0F))));
            }
    return pixels;
}

// A kiln_status_code.
int upscale() {
    if (const int code = upscaler_by4_pack(w, packed)) return code;
    upscaler_by4_args args = {};
    args.x = x;
    args.packed_weights = packed;
    args.y = y;
    args.workspace = workspace;
    return upscaler_by4(&args);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: upscale_picture IN.ppm OUT.ppm\n");
        return 2;
    }
    const std::vector<uint8_t> pixels = read_picture(argv[1]);
    if (pixels.empty()) {
        std::fprintf(stderr, "%s is not a binary PPM picture of %d x %d pixels\n", argv[1], width, height);
        return 1;
    }
    fill_weights();
    set_input(pixels);
    if (const int code = upscale()) {
        std::fprintf(stderr, "upscaler_by4 returned %d\n", code);
        return 1;
    }
    if (!write_picture(argv[2], output())) {
        std::fprintf(stderr, "%s cannot be written\n", argv[2]);
        return 1;
    }
    return 0;
}
