package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// folder makes a folder to pack. Times of files differ from call to call.
func folder(t *testing.T, at time.Time) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "essmc-v1")
	if err := os.MkdirAll(filepath.Join(dir, "docs"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"essmc": "program", "LICENSE": "licence", "docs/README.md": "page"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestArchives checks the names, modes and content of both kinds, and that equal folders give equal bytes.
func TestArchives(t *testing.T) {
	want := []string{"essmc-v1/LICENSE 644 licence", "essmc-v1/docs/README.md 644 page", "essmc-v1/essmc 755 program"}
	for kind, entries := range map[string]func(*testing.T, []byte) []string{".tar.gz": inTar, ".zip": inZip} {
		var made [][]byte
		for _, at := range []time.Time{time.Unix(1e9, 0), time.Unix(1.5e9, 0)} {
			out := filepath.Join(t.TempDir(), "out"+kind)
			if err := run(out, folder(t, at)); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, b)
		}
		if !bytes.Equal(made[0], made[1]) {
			t.Errorf("%s: equal folders give different bytes", kind)
		}
		if got := entries(t, made[0]); !slices.Equal(got, want) {
			t.Errorf("%s: found %q, expected %q", kind, got, want)
		}
	}
	if err := run(filepath.Join(t.TempDir(), "out.rar"), folder(t, time.Now())); err == nil {
		t.Error("another kind of archive is accepted")
	}
}

func inTar(t *testing.T, b []byte) (out []string) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, entry(t, h.Name, h.FileInfo().Mode(), r))
	}
}

func inZip(t *testing.T, b []byte) (out []string) {
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, entry(t, f.Name, f.Mode(), content))
	}
	return out
}

func entry(t *testing.T, name string, mode os.FileMode, content io.Reader) string {
	text, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	bits := map[os.FileMode]string{0o644: "644", 0o755: "755"}[mode.Perm()]
	return name + " " + bits + " " + string(text)
}
