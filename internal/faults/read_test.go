package faults_test

import (
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/faults"
)

// Whichever operation fails, and however, while a file is read: there is an error that names a file, or the content is
// right. No file stays open.
func TestRead(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			path := filepath.Join(room(t), f.file)
			f.put(t, path, 1)
			want, err := f.read(path)
			if err != nil {
				t.Fatal(err)
			}
			total := 0
			for _, m := range faults.Reading {
				n := m.Count(func() { f.read(path) })
				if n == 0 {
					t.Fatalf("%s: no operation can fail", m.Name)
				}
				if m.Name == "byte by byte" {
					n = 1
				}
				open := openFiles(t)
				for k := range n {
					var got string
					var err error
					op, at := m.At(k, func() { got, err = f.read(path) })
					switch {
					case err == nil && got != want:
						t.Errorf("%s, operation %d (%s %s): another content, and no error", m.Name, k, op, at)
					case err == nil:
					case m.Whole:
						t.Errorf("%s, operation %d (%s %s): %v", m.Name, k, op, at, err)
					default:
						check(t, f, err)
					}
				}
				if now := openFiles(t); now > open {
					t.Errorf("%s: %d files are left open", m.Name, now-open)
				}
				total += n
			}
			if got, err := f.read(path); err != nil || got != want {
				t.Errorf("after all faults: %v", err)
			}
			t.Logf("%d faults", total)
		})
	}
}

// check checks the form of an error.
func check(t *testing.T, f form, err error) {
	t.Helper()
	if s := err.Error(); strings.Contains(s, "\n") || strings.Contains(s, ".tmp") || strings.Contains(s, "internal error") ||
		!strings.Contains(s, strings.TrimSuffix(f.file, filepath.Ext(f.file))) {
		t.Errorf("the error names no file, or a temporary one: %v", err)
	}
}

// openFiles counts the files that the process has open; 0 where the system does not tell.
func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil && goruntime.GOOS == "linux" {
		t.Fatal(err)
	}
	return len(entries)
}

// Whenever a file is cut off, grows, or is replaced while it is read: there is an error, or the content is that before
// or that after. (A text of numbers that was cut off before it is opened is another text of numbers.)
func TestChange(t *testing.T) {
	second := map[string]string{}
	changes := []struct {
		name string
		do   func(t *testing.T, f form, path string)
	}{
		{"cut off", func(t *testing.T, _ form, path string) {
			each(t, path, func(p string, size int64) error { return os.Truncate(p, size/2) })
		}},
		{"emptied", func(t *testing.T, _ form, path string) {
			each(t, path, func(p string, _ int64) error { return os.Truncate(p, 0) })
		}},
		{"grown", func(t *testing.T, _ form, path string) {
			each(t, path, func(p string, size int64) error { return os.Truncate(p, size+1000) })
		}},
		{"replaced", func(t *testing.T, f form, path string) {
			if f.several {
				return // the files of a model may be read before and after, which nothing promises
			}
			next := filepath.Join(filepath.Dir(path), "next")
			store(t, next, []byte(strings.TrimPrefix(second[f.name], "= ")))
			if err := os.Rename(next, path); err != nil {
				t.Fatal(err)
			}
		}},
		{"removed", func(t *testing.T, _ form, path string) {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, f := range forms {
		if f.name == "plan" {
			continue // it is mapped: who truncates a mapped file ends the process, as the documentation says
		}
		t.Run(f.name, func(t *testing.T) {
			other := filepath.Join(room(t), f.file)
			f.put(t, other, 2)
			after, err := f.read(other)
			if err != nil {
				t.Fatal(err)
			}
			if !f.several {
				second[f.name] = load(t, filepath.Dir(other))[other]
			}
			dir := room(t)
			path := filepath.Join(dir, f.file)
			f.put(t, path, 1)
			first := load(t, dir)
			before, err := f.read(path)
			if err != nil {
				t.Fatal(err)
			}
			total := 0
			for _, c := range changes {
				for k := 0; ; k++ {
					first.store(t, dir)
					var got string
					var err error
					if !faults.Before(k, func() { c.do(t, f, path) }, func() { got, err = f.read(path) }) {
						break
					}
					total++
					now, _ := f.read(path)
					if err == nil && got != before && got != after && got != now {
						t.Errorf("%s before operation %d: another content, and no error", c.name, k)
					} else if err != nil {
						check(t, f, err)
					}
				}
			}
			t.Logf("%d changes", total)
		})
	}
}

// each does something to a file, or to the files of a folder.
func each(t *testing.T, path string, do func(path string, size int64) error) {
	t.Helper()
	err := filepath.Walk(path, func(p string, st os.FileInfo, err error) error {
		if errors.Is(err, os.ErrNotExist) || err == nil && st.IsDir() {
			return nil
		}
		return errors.Join(err, do(p, st.Size()))
	})
	if err != nil {
		t.Fatal(err)
	}
}
