// Package shared finds what tests use and is not part of the repository: models with the answers of their authors' code
// (docs/math.md, Reference cases), the ONNX standard's tests of single operators, and a Python with peers.
//
// It imports the standard library only, and tests import it. A test without its cases is skipped with the reason. If
// the environment variable CI is set, it fails, since skipped tests go unnoticed there. A test without its peer is
// always skipped: which peers there are depends on the machine.
package shared

import (
	"os"
	"path/filepath"
	"testing"
)

// NodeArchiveName is the file of the node tests.
const NodeArchiveName = "node-tests-1.22.0.tar.gz"

// Path returns the path of elem in the folder of shared cases: the folder in ESSMC_SHARED, or the folder shared
// beside the repository.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	file := filepath.Join(append([]string{root()}, elem...)...)
	if _, err := os.Stat(file); err != nil {
		missing(t, "%v: set ESSMC_SHARED to the folder that holds %s", err, filepath.Join(elem...))
	}
	return file
}

// NodeTests gives the archive of node tests, or a folder of them: what ESSMC_ONNX_TESTS names, be it either of them or
// a folder that holds the archive; otherwise the archive among the shared cases.
func NodeTests(t testing.TB) string {
	t.Helper()
	given := os.Getenv("ESSMC_ONNX_TESTS")
	if s, err := os.Stat(given); err == nil && s.IsDir() {
		if _, err := os.Stat(filepath.Join(given, NodeArchiveName)); err != nil {
			return given
		}
	}
	return NodeArchive(t)
}

// NodeArchive is NodeTests for those who read archives only.
func NodeArchive(t testing.TB) string {
	t.Helper()
	files := []string{filepath.Join(root(), "onnx", NodeArchiveName)}
	if given := os.Getenv("ESSMC_ONNX_TESTS"); given != "" {
		files = append([]string{given, filepath.Join(given, NodeArchiveName)}, files...)
	}
	for _, file := range files {
		if s, err := os.Stat(file); err == nil && s.Mode().IsRegular() {
			return file
		}
	}
	missing(t, "%s is not here: set ESSMC_ONNX_TESTS to it, or ESSMC_SHARED to the folder above onnx", NodeArchiveName)
	return ""
}

// root is the folder of shared cases, which may be absent.
func root() string {
	if dir := os.Getenv("ESSMC_SHARED"); dir != "" {
		return dir
	}
	for up := "."; ; up = filepath.Join("..", up) {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			dir := filepath.Join(up, "..", "shared")
			if _, err := os.Stat(dir); err == nil {
				return dir
			} // this may be a module within the repository, such as bench/harness
		}
		if at, err := filepath.Abs(up); err != nil || at == filepath.Dir(at) {
			return "shared" // the test does not run in a module, so there is no such folder either
		}
	}
}

func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	end := t.Skipf
	if os.Getenv("CI") != "" {
		end = t.Fatalf
	}
	end(format, args...)
}
