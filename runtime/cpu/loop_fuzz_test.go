package cpu

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
)

// FuzzLoops runs graphs with loops whose bodies need not fit their inputs. Every mistake must be an error, and none a
// panic.
func FuzzLoops(f *testing.F) {
	for _, c := range backendtest.LoopCases() {
		f.Add(c.Text)
	}
	for seed := range uint64(100) {
		f.Add(spoiled(seed))
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24]>`+text), "text", ops.Default,
			irtext.Options{Budget: irtext.Budget{Bytes: 1 << 16, Nodes: 200}})
		if err != nil || ir.Verify(g) != nil {
			return
		}
		in := map[string]tensor.Datum{}
		for _, v := range g.Inputs {
			tt, ok := ir.AsTensor(v.Type)
			if !ok || tt.NoRank || len(tt.Shape) > 5 {
				return
			}
			shape := make([]int, len(tt.Shape))
			for i, d := range tt.Shape {
				shape[i] = 2
				if k, known := d.Known(); known {
					shape[i] = int(k)
				}
			}
			n, err := tensor.Size(shape)
			if err != nil || n > 1000 {
				return
			}
			x := tensor.New(tt.Elem, shape...)
			if tt.Elem == tensor.Int64 {
				for i := range tensor.Data[int64](x) {
					tensor.Data[int64](x)[i] = int64(i + 2)
				}
			}
			in[v.Name] = x
		}
		m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 1, MaxMemory: 1 << 24})
		if err != nil {
			return
		}
		defer m.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err = m.NewSession().Run(ctx, in)
		var fault *runtime.PanicError
		if errors.As(err, &fault) {
			t.Fatalf("%v\n%s", fault, fault.Stack)
		}
	})
}

// spoiled returns a random graph of loops in which some types and values are replaced by others.
func spoiled(seed uint64) string {
	w := NewGen(seed)
	words := strings.SplitAfter(backendtest.RandomLoops(seed), " ")
	types := []string{"float[] ", "float[] ", "float[3,2] ", "float[1,3] ", "float[N,3] ", "float[P,Q] ", "int64[2,3] ",
		"seq(float[]) "}
	values := []string{"xs, ", "a, ", "b, ", "m, ", "zero, "}
	for range 1 + w.IntN(3) {
		i := w.IntN(len(words))
		switch word := words[i]; {
		case strings.HasPrefix(word, "float[2,3]"):
			words[i] = types[w.IntN(len(types))]
		case strings.HasPrefix(word, "(float[2,3]"):
			words[i] = "(" + types[w.IntN(len(types))]
		case strings.HasPrefix(word, "(v") && strings.HasSuffix(word, ", "):
			words[i] = "(" + values[w.IntN(len(values))]
		case strings.HasPrefix(word, "v") && strings.HasSuffix(word, ", "):
			words[i] = values[w.IntN(len(values))]
		}
	}
	return strings.Join(words, "")
}
