package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// partly has outputs that share values, one that depends only on an input, one of a branch, and one that fails for
// most inputs.
const partly = `g (float[B,L,3] x, int64[N] at, bool c) => (y, z, picked, doubled, either) <float[3] k = {1, 2, 3}, float[2] two = {5, 7}> {
	y = Mul (x, k)
	z = ReduceMean <keepdims: int = 0> (y)
	doubled = Add (at, at)
	either = If (c) <then_branch: graph = yes () => (a) { a = Neg (y) }, else_branch: graph = no () => (b) { b = Tanh (y) }>
	picked = Gather (two, at)
}`

// outputs checks that a model computes the outputs that are asked for, and nothing for others.
func (s *suite) outputs(t *testing.T) {
	g, err := ParseGraph(partly)
	if err != nil {
		t.Fatal(err)
	}
	full := Data{"x": newNumbers(1).floats(1, 2, 5, 3), "at": ints(1, 0, 1), "c": tensor.Scalar(true)}
	want, err := truth(g, full)
	if err != nil {
		t.Fatal(err)
	}
	tol := ir.Summing // z is one number, in which products may cancel
	for name, needs := range map[string][]string{"y": {"x"}, "z": {"x"}, "doubled": {"at"}, "either": {"x", "c"},
		"picked": {"at"}} {
		s.sub(t, name, func(t *testing.T) {
			m := s.model(t, g, runtime.Options{Outputs: []string{name}})
			session := m.NewSession()
			only := Data{}
			for _, p := range m.Inputs() {
				if p.Optional == slices.Contains(needs, p.Name) {
					t.Errorf("input %s: optional %v", p.Name, p.Optional)
				}
				if !p.Optional {
					only[p.Name] = full[p.Name]
				}
			}
			for _, in := range []Data{only, full, only} {
				expect(t, describe(in), s.mustRun(t, session, in), Data{name: want[name]}, tol)
			}
			into := Data{"other": tensor.Scalar(true)}
			if err := session.RunInto(context.Background(), full, into); !errors.Is(err, runtime.ErrInput) {
				t.Errorf("a tensor for an output that is not computed: %v", err)
			}
		})
	}
	s.sub(t, "errors of others", func(t *testing.T) {
		beyond := copyData(full)
		beyond["at"] = ints(1, 9)
		if _, err := s.model(t, g, runtime.Options{}).NewSession().Run(context.Background(), beyond); err == nil {
			t.Fatal("an index of 9 in two numbers is no error")
		}
		session := s.model(t, g, runtime.Options{Outputs: []string{"doubled", "z"}}).NewSession()
		expect(t, "index 9", s.mustRun(t, session, beyond), Data{"z": want["z"], "doubled": ints(2, 18)}, tol)
		beyond["at"] = tensor.FromSlice([]float32{1}, 1)
		if _, err := session.Run(context.Background(), beyond); !errors.Is(err, runtime.ErrInput) {
			t.Errorf("an input of another type: %v", err)
		}
	})
	for seed := range s.graphs(20) {
		s.sub(t, fmt.Sprint("network ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 10))
			c := newNetworkCase(t, randomNetwork(t, uint64(seed)), inputs(rng.Uint64(), 1+rng.IntN(4), 1+rng.IntN(200), true))
			for _, form := range c.forms {
				outs := form.graph.Outputs
				for set := 1; set < 1<<len(outs); set++ {
					part, ask := Data{}, []string(nil)
					for i, v := range outs {
						if set>>i&1 == 1 {
							ask = append(ask, v.Name)
							part[v.Name] = c.runs[0].want[v.Name]
						}
					}
					rng.Shuffle(len(ask), func(i, j int) { ask[i], ask[j] = ask[j], ask[i] })
					session := s.model(t, form.graph, runtime.Options{Outputs: ask, Threads: 1 + rng.IntN(4)}).NewSession()
					expect(t, fmt.Sprint(form.name, " ", ask), s.mustRun(t, session, c.runs[0].in), part, s.allowed(c, "auto"))
				}
			}
		})
	}
}
