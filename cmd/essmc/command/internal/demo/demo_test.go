package demo

import (
	"bytes"
	"context"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "figures")
	var out bytes.Buffer
	if err := Run(context.Background(), &out, dir, "png"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"equivalence.png", "convergence.png"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(f)
		f.Close()
		if err != nil || img.Bounds().Dx() < 1000 {
			t.Errorf("%s: %v, %v", name, err, img)
		}
		if !strings.Contains(out.String(), filepath.Join(dir, name)) {
			t.Errorf("the report does not say where %s is", name)
		}
	}
	if err := Run(context.Background(), &out, dir, "svg"); err != nil {
		t.Fatal(err)
	}
}

// TestTruth compares the example with an integration of the differential equation in steps a hundred times finer. The
// input is constant within a step in both (zero-order hold). y[k] is the state at the end of step k.
func TestTruth(t *testing.T) {
	u := make([]float64, 2*int(length))
	for k := range int(length) {
		u[2*k], u[2*k+1] = math.Sin(float64(k)*step), math.Cos(2*float64(k)*step)
	}
	got, err := execute(context.Background(), forms[1], u, []float64{1, 0})
	if err != nil {
		t.Fatal(err)
	}
	const fine = 100
	x := [2]float64{1, 0}
	slope := func(x [2]float64, k int) [2]float64 {
		return [2]float64{matrixA[0]*x[0] + matrixA[1]*x[1] + u[2*k], matrixA[2]*x[0] + matrixA[3]*x[1] + u[2*k+1]}
	}
	for k := range int(length) {
		for range fine { // Heun's method, with an error of order (step/fine)²
			h := step / fine
			a := slope(x, k)
			b := slope([2]float64{x[0] + h*a[0], x[1] + h*a[1]}, k)
			x = [2]float64{x[0] + h/2*(a[0]+b[0]), x[1] + h/2*(a[1]+b[1])}
		}
		for s := range 2 {
			if d := math.Abs(got.y[2*k+s] - x[s]); !(d <= 1e-7) {
				t.Fatalf("state %d after %d steps: %v, integration gives %v", s+1, k+1, got.y[2*k+s], x[s])
			}
		}
	}
}
