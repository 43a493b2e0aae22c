package families_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// planned writes the model's plan, which must give the answers of the model. It returns the file.
func planned(t *testing.T, m *open.Model, in map[string]tensor.Datum) string {
	t.Helper()
	g, err := m.Graph()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "model.essm")
	if err := plan.WriteFile(file, g); err != nil {
		t.Fatal(err)
	}
	want := run(t, m.Compile, runtime.Options{Backend: cpu.New()}, in)
	load := func(o runtime.Options) (*runtime.Model, error) { return runtime.Load(file, o) }
	if got := run(t, load, runtime.Options{Backend: cpu.New()}, in); !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("the plan's answer is %.2g from that of the model, expected the same bytes", far(got, want))
	}
	return file
}

// otherVariable makes the test program the other process of elsewhere. It holds a folder.
const otherVariable = "ESSMC_FAMILIES_OTHER"

// chunk is the number of steps that both processes of elsewhere take at once.
const chunk = 5

// elsewhere takes a part of the sequences with a stream of the plan. Another process, which has the plan and a snapshot,
// takes the rest, and must give the bytes that this process gives.
func elsewhere(t *testing.T, file string, in map[string]tensor.Datum) {
	t.Helper()
	m, err := runtime.Load(file, runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewStream(sequences(m, in))
	if err != nil {
		t.Fatal(err)
	}
	length := in[models.Input].(*tensor.Tensor).Dim(1)
	half := max(1, length/2-1)
	if _, err := steps(s, in, 0, half, chunk); err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := steps(s, in, half, length, chunk)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	if err := os.WriteFile(filepath.Join(dir, "snapshot"), snapshot, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, x := range in {
		x := x.(*tensor.Tensor)
		if name == models.Input {
			x = part(x, half, length)
		}
		if err := arrays.Write(filepath.Join(dir, name+".npy"), x); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOtherProcess$")
	cmd.Env = append(os.Environ(), otherVariable+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the other process: %v\n%s", err, out)
	}
	want := joined(t, all)
	if got := array(t, dir, models.Output); !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("another process goes on with answers that are %.2g off, expected the same bytes", far(got, want))
	}
}

// TestOtherProcess is the other process of elsewhere: it goes on from a snapshot.
func TestOtherProcess(t *testing.T) {
	dir := os.Getenv(otherVariable)
	if dir == "" {
		t.Skip("is the other process of TestReferences")
	}
	m, err := runtime.Load(filepath.Join(dir, "model.essm"), runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]tensor.Datum{}
	files, err := filepath.Glob(filepath.Join(dir, "*.npy"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".npy")
		in[name] = array(t, dir, name)
	}
	s, err := m.NewStream(sequences(m, in))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := os.ReadFile(filepath.Join(dir, "snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(snapshot); err != nil {
		t.Fatal(err)
	}
	all, err := steps(s, in, 0, in[models.Input].(*tensor.Tensor).Dim(1), chunk)
	if err != nil {
		t.Fatal(err)
	}
	if err := arrays.Write(filepath.Join(dir, models.Output+".npy"), joined(t, all)); err != nil {
		t.Fatal(err)
	}
}
