package backendtest

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
)

// Case is one of the suite's graphs, with inputs.
type Case struct {
	// Suite is "cases", "ops", "networks" or "sequences". Name is the name of the subtest of Run.
	Suite, Name string
	Graph       *ir.Graph
	In          []Data
	// Kernel is the value of runtime.Options.Kernel in Run.
	Kernel string
}

// Seeded calls try with the cases that Run makes from files and from seeds: always the same ones, in the same order,
// whatever the backend. For each operator there are up to perOp random cases for which try reports that the operator
// has accepted them.
func Seeded(t testing.TB, perOp int, try func(c Case) (accepted bool)) {
	t.Helper()
	files, err := fs.Glob(caseFiles, "testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		src, err := caseFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := parseCase(file, src)
		if err != nil {
			t.Fatal(err)
		}
		var in []Data
		for _, r := range c.runs {
			if r.err == "" {
				in = append(in, r.in)
			}
		}
		for _, kernel := range c.kernels {
			try(Case{"cases", strings.TrimSuffix(path.Base(file), ".txtar"), c.graph, in, kernel})
		}
	}
	for _, op := range ops.Default.All() {
		name, found := fmt.Sprintf("%s-%d", op.FullName(), op.Since), 0
		for attempt := 0; attempt < 25*perOp && found < perOp; attempt++ {
			c, err := generate(op, attempt)
			if err != nil {
				t.Error(err)
			}
			if c != nil && try(Case{Suite: "ops", Name: name, Graph: c.graph, In: []Data{c.in}}) {
				found++
			}
		}
	}
	const seeds = 40
	both := func(suite string, seed int, g *ir.Graph, in []Data, kernel string) {
		optimized := g.Clone()
		if err := passes.Optimize(optimized); err != nil {
			t.Fatal(err)
		}
		try(Case{suite, fmt.Sprint(seed), g, in, kernel})
		try(Case{suite, fmt.Sprint(seed), optimized, in, kernel})
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 20))
		var in []Data
		for _, length := range []int{1 + rng.IntN(200), 1 + rng.IntN(20)} {
			in = append(in, inputs(rng.Uint64(), 1+rng.IntN(4), length, rng.IntN(2) == 0))
		}
		forms := runtime.Kernels()
		both("networks", seed, randomNetwork(t, uint64(seed)), in, forms[seed%len(forms)])
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 21))
		var in []Data
		for _, length := range []int{1 + rng.IntN(20), 200 + rng.IntN(400)} {
			x := tensor.New(tensor.Float32, 1+rng.IntN(3), 3, length)
			v := tensor.Data[float32](x)
			for i := range v {
				v[i] = float32(rng.NormFloat64())
			}
			in = append(in, Data{"x": x})
		}
		both("sequences", seed, randomSequences(t, uint64(seed)), slices.Clip(in), "")
	}
}
