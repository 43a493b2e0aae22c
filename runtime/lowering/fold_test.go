package lowering

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// doubling writes n steps that each put two of the last value together.
func doubling(op string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "c%d = %s (c%d, c%d)\n", i+1, op, i, i)
	}
	return b.String()
}

// Small graphs whose constants would take gigabytes, or minutes, leave them to the run.
func TestFoldingIsBounded(t *testing.T) {
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 6000, 6000))); err != nil {
		t.Fatal(err)
	}
	file := tensor.FromSlice(picture.Bytes(), picture.Len())
	for _, c := range []struct {
		name, text string
		set        *tensor.Tensor // content of constant c0
	}{
		{"strings", `g (string[1] x) => (y) <string[1] c0 = {"text"}> {
			` + doubling("StringConcat", 40) + `y = StringConcat (x, c40)
		}`, nil},
		{"numbers", `g (float[N] x) => (y) <float[1] c0 = {1}> {
			` + doubling("Concat <axis: int = 0>", 45) + `y = Concat <axis: int = 0> (x, c45)
		}`, nil},
		{"image", `g (uint8[N] x) => (y) <uint8[1] c0 = {1}> {
			d = ImageDecoder (c0)
			y = Concat <axis: int = 0> (d, d)
		}`, file},
		{"convolution", `g (float[N] x) => (y) <int64[4] a = {1, 1, 700, 700}, int64[4] b = {1, 1, 350, 350}> {
			c = ConstantOfShape (a)
			w = ConstantOfShape (b)
			d = Conv (c, w)
			y = Add (d, x)
		}`, nil},
		{"einsum", `g (float[N] x) => (y) <int64[2] a = {200, 200}> {
			c = ConstantOfShape (a)
			d = Einsum <equation: string = "ij,kl->"> (c, c)
			e = Einsum <equation: string = "ij,jk,kl,lm->"> (c, c, c, c)
			f = Add (d, e)
			y = Add (f, x)
		}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, c.text)
			if c.set != nil {
				v := g.Nodes[0].Inputs[0]
				v.Const, v.Type = c.set, ir.Of(c.set)
			}
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			p, err := Lower(g, runtime.Config{}, evaluated{})
			if err != nil {
				t.Fatal(err)
			}
			goruntime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
			if len(p.Steps) < 2 {
				t.Errorf("all but %d steps are folded", len(p.Steps))
			}
		})
	}
}

// Values that follow from shapes have a budget in each binding. What exceeds it runs.
func TestKnownIsBounded(t *testing.T) {
	const count = 12
	var steps, outs []string
	for i := range count {
		steps = append(steps, fmt.Sprintf("y%d = Conv (c, w)", i))
		outs = append(outs, fmt.Sprintf("y%d", i))
	}
	g := parse(t, `g (float[1,1,N] x) => (`+strings.Join(outs, ", ")+`)
	<int64[1] from = {0}, int64[1] to = {7500}, int64[1] axis = {2}> {
		s = Shape (x)
		c = ConstantOfShape (s)
		w = Slice (c, from, to, axis)
		`+strings.Join(steps, "\n")+`
	}`)
	p, err := Lower(g, runtime.Config{}, evaluated{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ n, least, most int }{{7600, count, count}, {8500, 1, count / 2}, {15000, 0, 0}} {
		d := p.Bind(runtime.Binding{Inputs: []ir.Type{ir.Tensor(tensor.Float32, 1, 1, c.n)}}, nil)
		known := 0
		for _, s := range p.Steps {
			if s.Node.Op.Name == "Conv" && d.Dead(s) {
				known++
			}
		}
		if known < c.least || known > c.most {
			t.Errorf("%d steps: %d of %d convolutions are computed when shapes are bound", c.n, known, count)
		}
		spent := d.known.Spent()
		if spent > knownWork {
			t.Errorf("%d operations, the budget is %d", spent, knownWork)
		}
	}
}

// A context ends Lower, also within an evaluation, and a model whose backend folds constants.
func TestLowerEnds(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "c%d = Exp (c%d)\n", i+1, i)
	}
	g := parse(t, `g (float[N] x) => (y) <int64[1] n = {1000000}> {
		c0 = ConstantOfShape (n)
		`+b.String()+`y = Add (x, c40)
	}`)
	for _, checks := range []int{0, 1, 10, 100, 1000} {
		c := &counted{Context: context.Background(), left: checks}
		if _, err := Lower(g, runtime.Config{Ctx: c}, evaluated{}); !errors.Is(err, context.Canceled) || c.left < -2 {
			t.Errorf("cancelled at check %d: %v, %d checks later", checks, err, -1-c.left)
		}
	}
	p, err := Lower(g, runtime.Config{Ctx: context.Background()}, evaluated{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Config.Ctx != nil {
		t.Error("the program keeps the context")
	}
}

// counted is a context that is done after so many checks.
type counted struct {
	context.Context
	left int
}

func (c *counted) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}
