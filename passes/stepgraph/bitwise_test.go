package stepgraph_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// TestBitwise checks that chunks of whole tiles give, on the CPU, the same bits as the whole sequence: a recurrence
// passes its state on in float64 both from tile to tile and from chunk to chunk.
func TestBitwise(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 11))
		c := randomConfig(r)
		c.Layer.Bidirectional, c.Decoder = false, essm.Decoder{Type: "sequence",
			Mode: pick(r, "none", "last", "pool"), DOutput: 3}
		w, err := essm.Init(c, essm.InitOptions{}, seed)
		if err != nil {
			t.Fatal(err)
		}
		g, err := models.Build(c, w, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := passes.Run(g, passes.Pipeline(), passes.Options{}); err != nil {
			t.Fatal(err)
		}
		sg, err := stepgraph.Of(g)
		if err != nil {
			t.Fatal(err)
		}
		const length = 700
		o := runtime.Options{Backend: cpu.New(), Kernel: "scan"}
		in := noise(t, g, map[string]int64{"B": 2, "P": 1, "L": length}, r, false)
		want := whole(t, g, o, in)
		for _, chunk := range []int{64, 128, 192} {
			got := newStream(t, sg, o, 2).feed(in, length, []int{chunk}, 0)
			same(t, fmt.Sprintf("seed %d, chunks of %d", seed, chunk), got, want, 0)
		}
	}
}
