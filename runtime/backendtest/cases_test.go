package backendtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
)

var update = flag.Bool("update", false, "write answers into testdata/*.txtar where those there do not hold")

// TestUpdate renews the cases with -update. Otherwise it checks that they are up to date.
func TestUpdate(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := parseCase(file, src)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(t.TempDir(), "case.txtar")
		if *update {
			copied = file
		} else if err := os.WriteFile(copied, src, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.renew(copied); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got, err := os.ReadFile(copied); err != nil || !*update && !bytes.Equal(got, src) {
			t.Errorf("%s: answers do not hold (go test -update renews them): %v", file, err)
		}
	}
}

// formatData returns the text that parseData reads.
func formatData(d Data) ([]byte, error) {
	var b bytes.Buffer
	for _, name := range names(d) {
		x, ok := d[name].(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("%s: only tensors can be written, found %T", name, d[name])
		}
		g := &ir.Graph{Name: "data", Outputs: []*ir.Value{ir.NewConst(name, x)}}
		text := irtext.String(g)
		_, text, _ = strings.Cut(text, "<\n")
		for line := range strings.Lines(text) { // the header comes first, then the constants
			if strings.Contains(line, "= {") {
				b.WriteString(strings.TrimRight(strings.TrimSpace(line), ","))
				b.WriteByte('\n')
			}
		}
	}
	return b.Bytes(), nil
}

// renew writes the interpreter's answers to the file where those in the file are wrong. Others, which may come from
// another source, stay unchanged.
func (c *fileCase) renew(file string) error {
	changed := false
	for i := range c.runs {
		r := &c.runs[i]
		if r.section == 0 || r.err != "" {
			continue
		}
		out, err := truth(c.graph, r.in)
		if err != nil {
			return err
		}
		same := len(out) == len(r.out)
		for name := range out {
			same = same && Diff(out[name], r.out[name], ir.Tolerance{Ulps: max(GraphTolerance(c.graph).Ulps, 64)}) == ""
		}
		if same {
			continue
		}
		changed = true
		text, err := formatData(out)
		if err != nil {
			return err
		}
		c.archive.Files[r.section].Data = text
	}
	if !changed {
		return nil
	}
	return os.WriteFile(file, txtar.Format(c.archive), 0o644)
}
