package tune

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/faults"
	"github.com/essmc/essmc/runtime/cpu"
)

// Whichever operation fails while a file is read or written: there is an error that names it, or the right content; an old
// file is kept.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tune.json")
	first, second := New(cpu.DefaultCosts()), New(cpu.DefaultCosts())
	second.Costs.FFT++
	if err := first.Write(path); err != nil {
		t.Fatal(err)
	}
	for _, m := range faults.Reading {
		for k := range m.Count(func() { Read(path) }) {
			var f *File
			var err error
			op, _ := m.At(k, func() { f, err = Read(path) })
			if err == nil && *f != *first || err != nil && (m.Whole || !strings.Contains(err.Error(), path)) {
				t.Errorf("reading, %s: %s: %+v, %v", m.Name, op, f, err)
			}
		}
	}
	for _, m := range faults.Writing {
		for k := range m.Count(func() { first.Write(path) }) {
			if err := first.Write(path); err != nil {
				t.Fatal(err)
			}
			var err error
			op, _ := m.At(k, func() { err = second.Write(path) })
			want := first
			if err == nil {
				want = second
			} else if !errors.Is(err, faults.Error) || strings.Contains(err.Error(), ".tmp") {
				t.Errorf("writing, %s: %s: %v", m.Name, op, err)
			}
			if f, err := Read(path); err != nil || *f != *want {
				t.Errorf("after writing, %s: %s: %+v, %v", m.Name, op, f, err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 && !m.On {
				t.Errorf("writing, %s: %s: leaves %v", m.Name, op, entries)
			}
			for _, e := range must(os.ReadDir(dir)) {
				if e.Name() != "tune.json" {
					os.Remove(filepath.Join(dir, e.Name()))
				}
			}
		}
	}
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
