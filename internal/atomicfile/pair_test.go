package atomicfile

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func pair(t *testing.T, path, content string) *Data {
	t.Helper()
	d, err := NewData("w.bin", sha1.New(), put(content))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x", sha1.Sum([]byte(content))); d.Sum != want || d.Name != "w-"+want[:16]+".bin" ||
		d.Size != int64(len(content)) {
		t.Fatalf("%+v, expected the sum %s", d, want)
	}
	if err := WritePair(path, d, put("data in "+d.Name)); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWritePair(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	one := pair(t, path, "one")
	only(t, dir, "m.onnx", one.Name)
	if b, _ := os.ReadFile(filepath.Join(dir, one.Name)); string(b) != "one" {
		t.Errorf("data %q, expected one", b)
	}
	two := pair(t, path, "two") // the data that nothing names any more is removed
	only(t, dir, "m.onnx", two.Name)

	// A copy of the file names its data, too.
	copied := filepath.Join(dir, "copy.onnx")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, b, 0o666); err != nil {
		t.Fatal(err)
	}
	three := pair(t, path, "three")
	only(t, dir, "copy.onnx", "m.onnx", min(two.Name, three.Name), max(two.Name, three.Name))
	if err := os.Remove(copied); err != nil {
		t.Fatal(err)
	}

	// Data of another origin stays: the old file does not name it, or its name is not of this kind.
	for _, name := range []string{"w-0000000000000000.bin", "w.bin", "x-" + three.Name} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	pair(t, path, "four")
	for _, name := range []string{"w-0000000000000000.bin", "w.bin", "x-" + three.Name, two.Name} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%v: expected it to stay", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, three.Name)); err == nil {
		t.Errorf("%s is left", three.Name)
	}
}

// Wherever a process ends, the file and the data that it names are of one pair: with the data written and not the file,
// the old file names the old data.
func TestPairIsNeverMixed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	old := pair(t, path, "old")
	boom := errors.New("the end")
	d, err := NewData("w.bin", sha1.New(), put("new"))
	if err != nil {
		t.Fatal(err)
	}
	if err := WritePair(path, d, func(io.Writer) error { return boom }); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, strings.TrimPrefix(string(b), "data in ")))
	if err != nil || string(data) != "old" || string(b) != "data in "+old.Name {
		t.Errorf("%q with the data %q (%v)", b, data, err)
	}
}

// Errors name the file that was asked for.
func TestErrorsNameTheTarget(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "none", "a")
	err := Write(path, put("x"))
	var file *fs.PathError
	if !errors.As(err, &file) || file.Path != path || !errors.Is(err, fs.ErrNotExist) ||
		strings.Contains(err.Error(), ".tmp") {
		t.Errorf("%v, expected %s", err, path)
	}
	temp := TempName(filepath.Join(dir, "a"))
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "write", Path: temp, Err: fs.ErrPermission}, "write DIR/a: permission denied"},
		{fmt.Errorf("more: %w", &fs.PathError{Op: "write", Path: filepath.Join(temp, "b", "c"), Err: fs.ErrPermission}),
			"write DIR/a/b/c: permission denied"},
		{&os.LinkError{Op: "rename", Old: temp, New: filepath.Join(dir, "a"), Err: fs.ErrPermission},
			"rename DIR/a: permission denied"},
		{&fs.PathError{Op: "open", Path: filepath.Join(dir, "b"), Err: fs.ErrPermission}, "open DIR/b: permission denied"},
		{&fs.PathError{Op: "open", Path: "..a.0000000g.tmp", Err: fs.ErrPermission},
			"open ..a.0000000g.tmp: permission denied"},
		{fs.ErrInvalid, fs.ErrInvalid.Error()},
	} {
		got := filepath.ToSlash(strings.ReplaceAll(About(c.err, filepath.Join(dir, "a")).Error(), dir, "DIR"))
		if want := strings.ReplaceAll(c.want, "permission denied", fs.ErrPermission.Error()); got != want {
			t.Errorf("%v: %q, expected %q", c.err, got, want)
		}
	}
}
