package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"
	"testing"
	"time"
)

// pageData is what a test reads of the data in a page.
type pageData struct {
	Columns []struct {
		Name, Work, Err string
		Drawing         int
	}
	Regions []struct {
		Form string
		MS   float64
		Out  []int
	}
}

func readPage(t *testing.T, file string) (d pageData) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)id="data">(.*?)</script>`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no data", file)
	}
	if err := json.Unmarshal(m[1], &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPageStatements checks that what pass counts say agrees with the graphs: a pass that counts changes has changed nodes,
// and one that counts none has left the graph as it was.
func TestPageStatements(t *testing.T) {
	fixtures(t)
	must(t, "export", "waves", "-o", "exported.onnx", "--without-optional")
	must(t, "export", "pairs", "-o", "pairs.onnx", "--without-optional")
	for _, model := range []string{"waves", "voice", "tokens", "pairs", "exported.onnx", "pairs.onnx"} {
		if _, err := os.Stat(model); err != nil {
			continue
		}
		must(t, "explain", model, "--html", "page.html")
		d := readPage(t, "page.html")
		if len(d.Columns) < 5 {
			t.Errorf("%s: %d columns", model, len(d.Columns))
		}
		for i, c := range d.Columns {
			same := i > 0 && c.Drawing == d.Columns[i-1].Drawing
			if i > 0 && same != (c.Work == "no changes") || strings.Contains(c.Work, "does not show") || strings.HasPrefix(c.Work, "nodes") {
				t.Errorf("%s: %s: %s, drawing %d after %d", model, c.Name, c.Work, c.Drawing, d.Columns[max(i-1, 0)].Drawing)
			}
		}
	}
}

// TestPageTimes checks that the page has the steps that run, with times and forms, and refuses --bench without a page.
func TestPageTimes(t *testing.T) {
	fixtures(t)
	must(t, "explain", "waves", "--html", "page.html", "--bench", "--shape", "2x64")
	d := readPage(t, "page.html")
	scans := 0
	for _, r := range d.Regions {
		if r.MS < 0 || len(r.Out) == 0 {
			t.Errorf("step %+v", r)
		}
		if r.Form == "scan" || r.Form == "fft" || r.Form == "direct" || r.Form == "chunked" {
			scans++
		}
	}
	if scans == 0 {
		t.Errorf("no step has the form of a state-space layer: %+v", d.Regions)
	}
	refused(t, 2, []string{"explain", "waves", "--bench"}, "--html", "essmc bench")
}

// TestView checks that the page is written, named, and opened in the browser where there is one.
func TestView(t *testing.T) {
	fixtures(t)
	t.Setenv("PATH", "")
	t.Setenv("TMPDIR", t.TempDir())
	name := strings.TrimSpace(must(t, "view", "waves"))
	if filepath.Base(name) != "waves.html" {
		t.Errorf("the page is %s", name)
	}
	if d := readPage(t, name); len(d.Columns) < 5 || len(d.Regions) > 0 {
		t.Errorf("%d columns, %d steps", len(d.Columns), len(d.Regions))
	}
	if goruntime.GOOS == "linux" {
		dir := t.TempDir()
		script := "#!/bin/sh\necho \"$1\" > " + filepath.Join(dir, "opened.new") + "\n/bin/mv " + filepath.Join(dir, "opened.new") + " " +
			filepath.Join(dir, "opened") + "\n"
		if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o777); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir)
		t.Setenv("DISPLAY", ":99")
		must(t, "view", "waves.essm", "-o", "plan.html", "--bench")
		want, err := filepath.Abs("plan.html")
		if err != nil {
			t.Fatal(err)
		}
		var opened []byte
		for range 200 {
			if opened, err = os.ReadFile(filepath.Join(dir, "opened")); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if strings.TrimSpace(string(opened)) != want {
			t.Errorf("the browser opened %q, expected %q", opened, want)
		}
	}
	if d := readPage(t, "plan.html"); goruntime.GOOS == "linux" && (len(d.Columns) != 1 || len(d.Regions) == 0) {
		t.Errorf("of a plan: %d columns, %d steps", len(d.Columns), len(d.Regions))
	}
	refused(t, 1, []string{"view", "waves", "-o", "waves.essm"}, "waves.essm", "expected an HTML page", "--force")
	refused(t, 1, []string{"view", "nothing"}, "nothing")
}
