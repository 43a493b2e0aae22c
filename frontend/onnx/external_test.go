package onnx

import (
	"crypto/sha1"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// externalModel returns a model with an initializer of n float32 in another file. entries alternates between keys and
// values.
func externalModel(n int64, entries ...string) []byte {
	parts := [][]byte{packed(1, n), num(2, 1), str(8, "w"), num(14, 1)}
	for i := 0; i < len(entries); i += 2 {
		parts = append(parts, msg(13, str(1, entries[i]), str(2, entries[i+1])))
	}
	return model(graph(msg(5, parts...), node("Abs", "", "w", "y"), msg(12, str(1, "y"))))
}

func TestExternalData(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 64)
	for i := range data {
		data[i] = byte(i)
	}
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("model/w.bin", data)
	write("model/sub/w.bin", data)
	write("secret.bin", data)
	write("model/same.bin", data)
	links := true
	for name, make := range map[string]func(from, to string) error{"link.bin": os.Symlink, "hard.bin": os.Link} {
		if err := make(filepath.Join(dir, "secret.bin"), filepath.Join(dir, "model", name)); err != nil {
			t.Logf("no links here: %v", err)
			links = false
		}
	}
	if err := os.Symlink("sub", filepath.Join(dir, "model", "linked")); err != nil {
		links = false
	}
	sum := sha1.Sum(data)
	digest := hex.EncodeToString(sum[:])
	path := filepath.Join(dir, "model", "m.onnx")
	read := func(entries ...string) (*tensor.Tensor, error) {
		if err := os.WriteFile(path, externalModel(4, entries...), 0o666); err != nil {
			t.Fatal(err)
		}
		g, _, err := ReadFile(path, Options{})
		if err != nil {
			return nil, err
		}
		return g.Constants()[0].Const, nil
	}
	for _, entries := range [][]string{
		{"location", "w.bin", "offset", "8"},
		{"location", "./sub/../w.bin", "offset", "8", "length", "16"},
		{"location", "sub/w.bin", "offset", "8", "length", "16", "checksum", digest, "unknown", "x"},
	} {
		x, err := read(entries...)
		if err != nil || string(x.Bytes()) != string(data[8:24]) {
			t.Errorf("%q: %s, %v", entries, x, err)
		}
	}
	abs := filepath.ToSlash(filepath.Join(dir, "secret.bin"))
	for _, c := range []struct {
		want    string
		links   bool
		entries []string
	}{
		{"is outside the model's folder", false, []string{"location", "../secret.bin"}},
		{"is outside the model's folder", false, []string{"location", "sub/../../secret.bin"}},
		{"is outside the model's folder", false, []string{"location", abs}},
		{"is outside the model's folder", false, []string{"location", `..\secret.bin`}},
		{"is outside the model's folder", false, []string{"location", ""}},
		{"is outside the model's folder", false, nil},
		{"is outside the model's folder", false, []string{"location", "w.bin\x00"}},
		{`"link.bin" is a symbolic link`, true, []string{"location", "link.bin"}},
		{`"linked" is a symbolic link`, true, []string{"location", "linked/w.bin"}},
		{"is a hard link", true, []string{"location", "hard.bin"}},
		{"is not a regular file", false, []string{"location", "sub"}},
		{`"w.bin" is not a folder`, false, []string{"location", "w.bin/x"}},
		{"none.bin", false, []string{"location", "none.bin"}},
		{"offset is \"-8\", expected a number of bytes", false, []string{"location", "w.bin", "offset", "-8"}},
		{"offset is", false, []string{"location", "w.bin", "offset", "9223372036854775808"}},
		{"expected 16 bytes at offset 9223372036854775807, the file has 64", false,
			[]string{"location", "w.bin", "offset", strconv.FormatInt(math.MaxInt64, 10)}},
		{"expected 16 bytes at offset 49", false, []string{"location", "w.bin", "offset", "49"}},
		{"length is \"-16\"", false, []string{"location", "w.bin", "length", "-16"}},
		{"length is 9223372036854775807, float32[4] needs 16", false,
			[]string{"location", "w.bin", "length", strconv.FormatInt(math.MaxInt64, 10)}},
		{"length is 15", false, []string{"location", "w.bin", "length", "15"}},
		{`"location" occurs twice`, false, []string{"location", "w.bin", "location", "same.bin"}},
		{"the model states", false, []string{"location", "w.bin", "checksum", strings.Repeat("0", 40)}},
	} {
		if c.links && !links {
			continue
		}
		x, err := read(c.entries...)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `tensor "w"`) {
			t.Errorf("%q: %s, %v, expected %q", c.entries, x, err, c.want)
		}
	}
}

// TestExternalDataBudget checks that a small model cannot take more memory by many tensors over the same bytes.
func TestExternalDataBudget(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w.bin"), make([]byte, 8<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	for i := range 100 {
		parts = append(parts, msg(5, packed(1, 2<<20), num(2, 1), str(8, "w"+strconv.Itoa(i)), num(14, 1),
			msg(13, str(1, "location"), str(2, "w.bin"))))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	refused(t, model(graph(parts...)), Options{Dir: root}, "more than the budget")
	refused(t, model(graph(parts[0])), Options{Dir: root, Budget: Budget{Memory: 1 << 20}},
		"expected at most 1048576 bytes, found 8388608")
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none.onnx")} {
		if _, _, err := ReadFile(path, Options{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	path := filepath.Join(dir, "m.onnx")
	if err := os.WriteFile(path, []byte("hello"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadFile(path, Options{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}
