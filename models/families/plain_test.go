package families_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// plain is a small configuration of a preset, and its answer by the definition of the family, computed step by step.
type plain struct {
	preset, changes string
	eval            func(p *evaluation) []float64
}

var plains []plain

// TestPlain compares models, in float64, with evaluations that share no code with them.
func TestPlain(t *testing.T) {
	for _, c := range plains {
		t.Run(c.preset+" "+c.changes, func(t *testing.T) { c.test(t) })
	}
}

func (c plain) test(t *testing.T) {
	p := preset(t, c.preset)
	e := &evaluation{t: t, set: map[string]string{}, batch: 2, length: 13}
	train := int64(0)
	for _, s := range strings.Fields(c.changes) {
		key, value, _ := strings.Cut(s, "=")
		if key == "L" { // of the sequence, no key of the model
			e.length = e.number(value)
			continue
		}
		if key == "T" { // of training
			train = int64(e.number(value))
			continue
		}
		if err := p.Config.Settings().Set(key, value); err != nil {
			t.Fatal(err)
		}
		e.set[key] = value
	}
	var err error
	if e.w, err = p.Init(p.Config, 1); err != nil {
		t.Fatal(err)
	}
	vary(e.w)
	for name, x := range e.w {
		if strings.HasSuffix(name, ".train_length") {
			tensor.Data[int64](x)[0] = train
		}
	}
	g, err := models.Build(p.Config, e.w, models.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := open.Graph(g, c.preset, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.in = random(t, m, e.batch, e.length)
	got := run(t, m.CompileSource, runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, e.in)
	want := c.eval(e)
	if d := far(got, tensor.FromSlice(want, len(want))); d > 1e-11 {
		t.Errorf("the model is %.2g off", d)
	}
}

// vary changes all weights a little, so that none is 0 or 1.
func vary(w models.Weights) {
	for name, x := range w {
		if x.DType() != tensor.Float32 {
			continue
		}
		for i := range tensor.Data[float32](x) {
			k := (i*37 + len(name)*11) % 23
			tensor.Data[float32](x)[i] += 0.3 * (float32(k)/22 - 0.4)
		}
	}
}

// evaluation is what a plain evaluation reads.
type evaluation struct {
	t             *testing.T
	set           map[string]string
	w             models.Weights
	in            map[string]tensor.Datum
	batch, length int
}

func (e *evaluation) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}

// weight returns a tensor's numbers and shape.
func (e *evaluation) weight(name string) ([]float64, []int) {
	t := e.w[name]
	if t == nil {
		e.t.Fatalf("no tensor %s", name)
	}
	v, err := t.Float64s()
	if err != nil {
		e.t.Fatal(err)
	}
	return v, t.Shape()
}

// sequence returns sample b: a vector for each step. Tokens are looked up in a table, if one is named.
func (e *evaluation) sequence(b int, table string) [][]float64 {
	x := e.in[models.Input].(*tensor.Tensor)
	v, err := x.Float64s()
	if err != nil {
		e.t.Fatal(err)
	}
	out := make([][]float64, e.length)
	for t := range out {
		if x.Rank() == 2 {
			rows, shape := e.weight(table)
			k := int(v[b*e.length+t])
			out[t] = append([]float64{}, rows[k*shape[1]:(k+1)*shape[1]]...)
			continue
		}
		out[t] = v[(b*e.length+t)*x.Dim(2) : (b*e.length+t+1)*x.Dim(2)]
	}
	return out
}

// linear returns W x + b, with W (out, in); by columns if W is (in, out). Without a bias, none is added.
func (e *evaluation) linear(x []float64, weight, bias string, columns bool) []float64 {
	w, shape := e.weight(weight)
	outs := shape[0]
	if columns {
		outs = len(w) / len(x)
	}
	y := make([]float64, outs)
	if bias != "" {
		b, _ := e.weight(bias)
		copy(y, b)
	}
	for i := range y {
		for j, v := range x {
			if columns {
				y[i] += w[j*outs+i] * v
			} else {
				y[i] += w[i*len(x)+j] * v
			}
		}
	}
	return y
}

func (e *evaluation) has(name string) bool { return e.w[name] != nil }

func numbered(format string, i int) string { return fmt.Sprintf(format, i) }

// layerNorm returns the norm of one step.
func (e *evaluation) layerNorm(x []float64, weight, bias string, epsilon float64) []float64 {
	w, _ := e.weight(weight)
	b, _ := e.weight(bias)
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v-mean)/math.Sqrt(square+epsilon)*w[i] + b[i]
	}
	return y
}

func sum(x, y []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] + y[i]
	}
	return out
}

func geluTanh(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// refused holds that a change of a key, or the configuration with it, is an error.
func refused(t *testing.T, c models.Config, change, want string) {
	t.Helper()
	key, value, _ := strings.Cut(change, "=")
	err := c.Settings().Set(key, value)
	if err == nil {
		err = c.Validate()
	}
	if err == nil || err.Error() != want {
		t.Errorf("%s:\nfound %v\nwant  %s", change, err, want)
	}
}
