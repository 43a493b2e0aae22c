package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func put(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(want) {
		t.Fatalf("folder holds %v, expected %v", entries, want)
	}
	for i, e := range entries {
		if e.Name() != want[i] {
			t.Fatalf("folder holds %v, expected %v", entries, want)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := Write(path, put("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, put("two")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "two" {
		t.Errorf("content %q, expected two", b)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o640 {
		t.Errorf("permissions %v, expected those of the file before", st.Mode())
	}
	only(t, dir, "a")
}

func TestFailureKeepsOldContent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := Write(path, put("old")); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("disk full")
	err := Write(path, func(w io.Writer) error { put("half")(w); return boom })
	if !errors.Is(err, boom) {
		t.Errorf("error %v, expected %v", err, boom)
	}
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("content %q, expected old", b)
	}
	only(t, dir, "a")
}

func TestSymlinkIsFollowed(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if err := Write(link, put("y")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(target); string(b) != "y" {
		t.Errorf("target holds %q, expected y", b)
	}
	if st, _ := os.Lstat(link); st.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced by a file")
	}
}

func TestDeviceIsWrittenNotReplaced(t *testing.T) {
	if st, err := os.Stat(os.DevNull); err != nil || st.Mode().IsRegular() {
		t.Skip("no null device here")
	}
	if err := Write(os.DevNull, put("x")); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(os.DevNull); err != nil || st.Mode().IsRegular() {
		t.Fatal("the device was replaced by a file")
	}
}

func TestDirectoryIsRefused(t *testing.T) {
	if err := Write(t.TempDir(), put("x")); err == nil {
		t.Error("expected an error for a directory")
	}
}
