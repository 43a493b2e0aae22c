package essm

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/cmplx"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops/essm/spectral"
)

// digest is a checksum of all weights in the order of the computation.
func digest(t *testing.T, c *Config, w models.Weights) string {
	t.Helper()
	specs, err := c.Specs(w)
	if err != nil {
		t.Fatal(err)
	}
	h := fnv.New64a()
	for _, s := range specs {
		fmt.Fprint(h, s.Name, s.Shape)
		if _, err := h.Write(w[s.Name].Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// TestInitDeterministic fixes the weights of one seed: a change of these numbers changes everybody's experiments.
func TestInitDeterministic(t *testing.T) {
	c := mustParse(t, small)
	for _, x := range []struct {
		o    InitOptions
		seed uint64
		want string
	}{
		{InitOptions{}, 1, "bbd13fc79fdf6d9c"},
		{InitOptions{}, 2, "f4ce7ea539c5450f"},
		{InitOptions{C: CFromHiPPO, D: DNormal, DtMin: 1e-4, Scale: 0.0625}, 1, "d65806a7403e8bfc"},
	} {
		w, err := Init(c, x.o, x.seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := models.Check(c, w); err != nil {
			t.Error(err)
		}
		if got := digest(t, c, w); got != x.want {
			t.Errorf("%+v, seed %d: digest %s, expected %s", x.o, x.seed, got, x.want)
		}
	}
}

func TestInitValues(t *testing.T) {
	p, err := NewPreset("pathx")
	if err != nil {
		t.Fatal(err)
	}
	c := p.Config
	c.NLayers = 1
	w, err := Init(c, p.Init, 7)
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) []float32 { return tensor.Data[float32](w["model.layers.0."+name]) }
	lambda, _, err := spectral.HiPPO(64)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range get("layer.Lambda") { // one of each pair of the matrix of twice the size, the same for every head
		want := -0.5
		if i%2 == 1 {
			want = -math.Abs(imag(lambda[i/2%32]))
		}
		if x != float32(want) {
			t.Fatalf("Lambda: element %d is %v, expected %v", i, x, want)
		}
	}
	for _, x := range get("layer.log_dt") {
		if dt := math.Exp(float64(x)) / 0.0625; !(0.9999e-4 <= dt && dt <= 1.0001e-1) {
			t.Errorf("step size %v before scaling", dt)
		}
	}
	within := func(name string, lo, hi float64) {
		t.Helper()
		sum, worst := 0.0, 0.0
		for _, x := range get(name) {
			sum += float64(x) * float64(x)
			worst = max(worst, math.Abs(float64(x)))
		}
		if rms := math.Sqrt(sum / float64(len(get(name)))); rms < lo || rms > hi {
			t.Errorf("%s: root mean square %v, expected %v to %v", name, rms, lo, hi)
		}
	}
	within("layer.B", 0.80, 0.95) // the standard deviation of a normal cut off at 2 is 0.88, V has norm 1
	within("layer.C", 0.80, 0.95)
	within("layer.head_mixer.weight", 0.038, 0.045) // 1/√192/√3
	within("layer.D", 1, 1)
	within("norm.norm.running_mean", 0, 0)
	within("norm.norm.running_var", 1, 1)
}

// TestInitFullSpectrum checks that without conj_sym each pair is there, and that a single state is the real -½.
func TestInitFullSpectrum(t *testing.T) {
	p, err := NewPreset("text")
	if err != nil {
		t.Fatal(err)
	}
	w, err := Init(p.Config, p.Init, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := tensor.Data[float32](w["model.layers.0.layer.Lambda"])
	if z := complex(float64(l[0]), float64(l[1])); cmplx.Abs(z+0.5) != 0 {
		t.Errorf("a single state starts at %v, expected -0.5", z)
	}
	c := mustParse(t, small)
	c.Layer.ConjSym = false
	if w, err = Init(c, InitOptions{}, 1); err != nil {
		t.Fatal(err)
	}
	l = tensor.Data[float32](w["model.layers.0.layer.Lambda"])
	if l[1] != l[7] || l[3] != l[5] || l[1] == l[3] || l[1] >= 0 {
		t.Errorf("four states start at %v, expected two pairs", l[:8])
	}
}

func TestInitErrors(t *testing.T) {
	c := mustParse(t, small)
	for _, o := range []InitOptions{{DtMin: -1}, {DtMin: 1}, {DtMax: math.Inf(1)}, {Scale: math.NaN()}, {C: "x"},
		{D: "x"}} {
		if _, err := Init(c, o, 1); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	huge := c.Clone()
	huge.DModel = maxSize
	if _, err := Init(huge, InitOptions{}, 1); err == nil || !strings.HasPrefix(err.Error(), "init: expected at most") {
		t.Errorf("a model of terabytes: %v", err)
	}
	c.Layer.DState = 9
	if _, err := Init(c, InitOptions{}, 1); err == nil ||
		err.Error() != "layer.d_state: expected a multiple of layer.heads 2, found 9" {
		t.Errorf("error %v", err)
	}
}
