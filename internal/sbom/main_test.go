package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// The document of a program has what CycloneDX requires, and all modules once.
func TestBill(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.1", Path: "example.org/a/cmd/a",
		Main: debug.Module{Path: "example.org/a", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.org/Z", Version: "v2.0.0+incompatible", Sum: "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
			{Path: "example.org/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/c", Version: "v1.0.1"}},
		},
		Settings: []debug.BuildSetting{{Key: "-trimpath", Value: "true"}, {Key: "-ldflags", Value: "-X secret=1"}}}
	sum := bytes.Repeat([]byte{0xff}, 32)
	d := bill("a", info, sum)
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(d.Serial) {
		t.Errorf("serial number %s", d.Serial)
	}
	var b, again bytes.Buffer
	if err := write(&b, d); err != nil {
		t.Fatal(err)
	}
	if err := write(&again, bill("a", info, sum)); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("written again (%v): %s", err, again.Bytes())
	}
	var got struct {
		BOMFormat, SpecVersion string
		Version                int
		Components             []struct{ Type, Name, Version, PURL string }
		Dependencies           []struct{ DependsOn []string }
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	var purls []string
	for _, c := range got.Components {
		if c.Type != "library" || c.Name == "" || c.Version == "" {
			t.Errorf("component %+v", c)
		}
		purls = append(purls, c.PURL)
	}
	want := "pkg:golang/example.org/z@v2.0.0%2Bincompatible pkg:golang/example.org/c@v1.0.1 pkg:golang/std@1.26.1"
	if list := strings.Join(purls, " "); list != want || strings.Join(got.Dependencies[0].DependsOn, " ") != want {
		t.Errorf("components %s, expected %s", list, want)
	}
	if got.BOMFormat != "CycloneDX" || got.SpecVersion != "1.6" || got.Version != 1 ||
		strings.Contains(b.String(), "secret") {
		t.Errorf("%s", b.Bytes())
	}
}

// The bill of a program lists the modules that go version -m does.
func TestRun(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := run(&b, program, ""); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "version", "-m", program).Output()
	if err != nil {
		t.Skip("no go command here:", err)
	}
	if n := strings.Count(string(out), "\n\tdep\t") + 1; strings.Count(b.String(), `"type": "library"`) != n {
		t.Errorf("expected %d components of\n%s\nfound\n%s", n, out, b.Bytes())
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run(&b, text, ""); err == nil || !strings.Contains(err.Error(), "expected an executable") {
		t.Errorf("a text: %v", err)
	}
}
