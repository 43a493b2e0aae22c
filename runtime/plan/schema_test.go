package plan

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSchema checks the verifier's idea of the root table against plan.fbs.
func TestSchema(t *testing.T) {
	src, err := os.ReadFile("plan.fbs")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`//.*`).ReplaceAllString(string(src), "")
	type layout struct{ size, align int }
	sizes := map[string]layout{"ubyte": {1, 1}, "uint": {4, 4}, "long": {8, 8}, "ulong": {8, 8}, "string": {4, 4}}
	field := regexp.MustCompile(`(\w+)\s*:\s*(\[?)(\w+)\]?\s*;`)
	for _, s := range regexp.MustCompile(`(?s)struct (\w+) \{(.*?)\}`).FindAllStringSubmatch(text, -1) {
		var l layout
		for _, f := range field.FindAllStringSubmatch(s[2], -1) {
			m := sizes[f[3]]
			if m.size == 0 {
				t.Fatalf("struct %s: unknown type %s", s[1], f[3])
			}
			l.size = (l.size+m.align-1)/m.align*m.align + m.size
			l.align = max(l.align, m.align)
		}
		l.size = (l.size + l.align - 1) / l.align * l.align
		sizes[s[1]] = l
	}
	table := regexp.MustCompile(`(?s)table Plan \{(.*?)\}`).FindStringSubmatch(text)
	if table == nil {
		t.Fatal("plan.fbs has no table Plan")
	}
	var found []column
	for _, f := range field.FindAllStringSubmatch(table[1], -1) {
		if f[2] != "[" {
			t.Errorf("field %s is no vector", f[1])
		}
		found = append(found, column{f[1], sizes[f[3]].size, sizes[f[3]].align, f[3] == "string"})
	}
	if len(found) != len(columns) {
		t.Fatalf("plan.fbs has %d fields, the verifier knows %d", len(found), len(columns))
	}
	for i := range found {
		if found[i] != columns[i] {
			t.Errorf("field %d is %+v in plan.fbs, %+v in the verifier", i, found[i], columns[i])
		}
	}
	if strings.Count(text, "table ") != 1 {
		t.Error("plan.fbs has tables that the verifier does not know")
	}
}

// TestGenerated makes the generated code anew and compares.
func TestGenerated(t *testing.T) {
	const version = "flatc version 2.0.8"
	flatc, err := exec.LookPath("flatc")
	if err != nil {
		t.Skip("flatc is not installed")
	}
	if out, err := exec.Command(flatc, "--version").Output(); err != nil || strings.TrimSpace(string(out)) != version {
		t.Skipf("%s needed, found %q: other versions generate other text", version, out)
	}
	gofmt, err := exec.LookPath("gofmt")
	if err != nil {
		t.Skip("gofmt is not on the path")
	}
	dir := t.TempDir()
	if out, err := exec.Command(flatc, "--go", "--gen-onefile", "--go-namespace", "fb", "-o", dir,
		"plan.fbs").CombinedOutput(); err != nil {
		t.Fatalf("flatc: %v: %s", err, out)
	}
	const name = "plan_generated.go"
	want, err := exec.Command(gofmt, filepath.Join(dir, name)).Output()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join("internal", "fb", name))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("internal/fb is not what flatc makes of plan.fbs: run go generate ./runtime/plan")
	}
}
