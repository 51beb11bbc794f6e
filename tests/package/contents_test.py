"""What packages say of themselves: one version everywhere, and what is carried, for people and for programs.

    contents_test.py CHECKOUT BUILD
"""

import base64
import gzip
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD, ROOT = Path(sys.argv.pop()), Path(sys.argv.pop())
sys.path.insert(0, str(ROOT / "tools"))
import page  # noqa: E402

VERSION = re.search(r"project\(Kiln VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


class Version(unittest.TestCase):
    def test_command(self):
        said = subprocess.run([BUILD / "bin/kiln", "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, f"kiln {VERSION}\n")

    def test_changelog_begins_with_it(self):
        """Changes since are under "Unreleased"; the newest release below is the version that is built."""
        heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        self.assertEqual(heads[0], "Unreleased")
        self.assertTrue(heads[1].startswith(f"{VERSION} "), heads[1])

    def test_places_that_cannot_ask(self):
        self.assertEqual(json.loads((ROOT / "packaging/vcpkg/kiln/vcpkg.json").read_text())["version"], VERSION)
        wheel = (ROOT / "pyproject.toml").read_text()
        pattern = re.search(r"^regex = '(.*)'$", wheel, re.MULTILINE)[1]
        self.assertEqual(re.search(pattern, (ROOT / "CMakeLists.txt").read_text())["value"], VERSION)
        # Halide and Plotly, as the checkout builds with them.
        pins = dict(re.findall(r"^(halide|plotly)==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE))
        for file in ("pyproject.toml", "packaging/requirements.txt", "packaging/vcpkg/kiln/portfile.cmake"):
            for name, version in pins.items():
                self.assertRegex((ROOT / file).read_text(), rf"\b{name}=={re.escape(version)}(?![.\d])", file)
        self.assertIn('HALIDE, PLOTLY = "{halide}", "{plotly}"'.format(**pins), (ROOT / "packaging/conan/conanfile.py").read_text())


class Contents(unittest.TestCase):
    def test_sbom(self):
        sbom = json.loads((BUILD / "kiln.cdx.json").read_text())
        self.assertEqual((sbom["bomFormat"], sbom["specVersion"]), ("CycloneDX", "1.5"))
        self.assertEqual(sbom["metadata"]["component"]["version"], VERSION)
        names = {component["name"] for component in sbom["components"]}
        self.assertLessEqual({"fmt", "CLI11", "nlohmann-json", "tomlplusplus", "halide", "llvm", "plotly.js"}, names)
        for component in sbom["components"]:
            self.assertRegex(component["licenses"][0]["expression"], r"^[A-Z]")
            self.assertNotRegex(component["purl"], r"@v?\.*$", "a version is missing")
        references = {component["bom-ref"] for component in sbom["components"]}
        self.assertEqual(references, set(sbom["dependencies"][0]["dependsOn"]))
        self.assertEqual(len(references), len(sbom["components"]))

    def test_notices_name_all(self):
        """Each row of the table has a section with its licence."""
        text = (BUILD / "THIRD_PARTY_NOTICES.md").read_text()
        for name in ("Halide", "LLVM and LLD", "{fmt}", "CLI11", "JSON for Modern C++", "toml++", "Plotly.js"):
            self.assertRegex(text, rf"(?m)^\| {re.escape(name)}", name)
            self.assertRegex(text, rf"(?m)^## {re.escape(name)}", name)


class Pages(unittest.TestCase):
    """What draws a page's figures is in it, and nothing is fetched."""

    def test_plotly_is_packed_in(self):
        script = BUILD / "share/kiln/plotly.min.js"
        if not script.exists():
            self.skipTest("Kiln is built without plotly.min.js")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "page.html")
            page.write(path, "A page", page.figure("A figure", [], {}))
            text = path.read_text()
        carried = re.search(r'<script class="library" type="application/gzip">(.*?)</script>', text, re.DOTALL)[1]
        self.assertEqual(gzip.decompress(base64.b64decode(carried)), Path(page.plotly_file()).read_bytes())
        self.assertLess(len(text), 2_500_000)
        self.assertIn("Licensed under the MIT license", text)
        self.assertNotRegex(text.replace(carried, ""), r"(src|href)\s*=|@import|url\(")


if __name__ == "__main__":
    unittest.main(verbosity=2)
