"""tools/pack_programs: a small build folder is packed, and its programs run where it is unpacked.
CLORA_SOURCE_DIR and CLORA_BINARY_DIR name the repository and the build."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("CLORA_BINARY_DIR", SOURCE / "build/release"))


class PackPrograms(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.build = self.folder / "build"
        for name in ("tools/clora", "tests/json_test", "tests/compile_op_test"):
            (self.build / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(BUILD / name, self.build / name)
        for name in ("bench", "examples"):
            (self.build / name).mkdir()

    def pack(self):
        packed = self.folder / "programs.tar.xz"
        subprocess.run([SOURCE / "tools/pack_programs", packed, self.build], check=True,
                       capture_output=True)
        unpacked = self.folder / "unpacked"
        unpacked.mkdir()
        subprocess.run(["tar", "xf", packed, "-C", unpacked], check=True)
        return unpacked

    def test_programs_and_scripts_are_packed_and_run(self):
        unpacked = self.pack()
        self.assertEqual((unpacked / "tests/compile_op_test").read_bytes(),
                         (BUILD / "tests/compile_op_test").read_bytes())
        environment = dict(os.environ, LD_LIBRARY_PATH=str(unpacked / "lib"))
        version = subprocess.run([unpacked / "tools/clora", "--version"], env=environment,
                                 check=True, capture_output=True, text=True).stdout
        self.assertRegex(version, r"^clora \d+\.\d+")
        test = subprocess.run([unpacked / "tests/json_test", "--gtest_list_tests"],
                              env=environment, check=True, capture_output=True, text=True).stdout
        self.assertIn("Json", test)

    def test_a_folder_without_a_build_is_refused(self):
        done = subprocess.run([SOURCE / "tools/pack_programs", self.folder / "x", self.folder],
                              check=False, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nothing is built", done.stderr)


if __name__ == "__main__":
    unittest.main()
