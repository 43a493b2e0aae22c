package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/cpu"
)

func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "tune.json")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where there is none: %v", err)
	}
	want := New(cpu.DefaultCosts())
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || *got != *want {
		t.Errorf("%+v, %v; expected %+v", got, err, want)
	}
}

func TestReadBad(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *File)
		raw    string
		want   string
	}{
		"machine": {change: func(f *File) { f.Machine = "abacus" }, want: "abacus"},
		"kernels": {change: func(f *File) { f.Kernels = "avx9" }, want: "avx9"},
		"version": {change: func(f *File) { f.Version = 99 }, want: "expected version"},
		"costs":   {change: func(f *File) { f.Costs.FFT = -1 }, want: "fft_ns"},
		"empty":   {raw: " ", want: "a file of essmc tune"},
		"array":   {raw: "[1]", want: "JSON with array"},
		"other":   {raw: fmt.Sprintf(`{"version":%d,"what":2}`, cpu.CostsVersion), want: `"what"`},
		"long":    {raw: strings.Repeat(" ", maxBytes+1), want: "bytes"},
	} {
		path := filepath.Join(t.TempDir(), name+".json")
		raw := []byte(c.raw)
		if c.change != nil {
			f := New(cpu.DefaultCosts())
			c.change(f)
			raw, _ = json.Marshal(f)
		}
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, expected the file and %q", name, err, c.want)
		}
	}
}

func TestPath(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(Variable, "")
	path, err := Path()
	if err != nil || filepath.Ext(path) != ".json" || !strings.Contains(path, cpu.Kernels()) {
		t.Errorf("%q, %v", path, err)
	}
	t.Setenv(Variable, "some file")
	if path, _ := Path(); path != "some file" {
		t.Errorf("named: %q", path)
	}
	t.Setenv(Variable, Off)
	if path, _ := Path(); path != "" {
		t.Errorf("off: %q", path)
	}
	if s := slug("AMD EPYC™ 9654, amd64"); s != "amd-epyc-9654-amd64" {
		t.Errorf("%q", s)
	}
}

// FuzzParse checks that any file is refused or valid, and that valid files survive writing.
func FuzzParse(f *testing.F) {
	good, err := json.Marshal(New(cpu.DefaultCosts()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(fmt.Appendf(nil, `{"version":%d,"costs":{"scan_ns":1e400}}`, cpu.CostsVersion))
	f.Add(bytes.Replace(good, []byte(`"fft_ns":`), []byte(`"fft_ns":1`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parse(b)
		if err != nil {
			return
		}
		if err := got.Costs.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parse(again); err != nil || back.Costs != got.Costs {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
