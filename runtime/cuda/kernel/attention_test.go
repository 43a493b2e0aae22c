package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

func TestAttention(t *testing.T) {
	type attention struct {
		heads, keyHeads, queries, keys, features, values, past int
		causal, mask, bools, inRows                            bool
		scale                                                  float32
	}
	for _, c := range []attention{
		{heads: 2, keyHeads: 2, queries: 5, keys: 7, features: 8, values: 8, scale: 0.5},
		{heads: 2, keyHeads: 1, queries: 70, keys: 70, features: 12, values: 20, causal: true, scale: 0.3},
		{heads: 1, keyHeads: 1, queries: 33, keys: 65, features: 5, values: 9, mask: true, scale: 1},
		{heads: 4, keyHeads: 2, queries: 9, keys: 40, features: 16, values: 16, mask: true, bools: true, inRows: true, scale: 1},
		{heads: 2, keyHeads: 2, queries: 3, keys: 50, features: 32, values: 32, causal: true, past: 47, inRows: true, scale: 20},
		{heads: 1, keyHeads: 1, queries: 4, keys: 0, features: 8, values: 8, scale: 1},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			const samples = 2
			b := kerneltest.New(t)
			r := rand.New(rand.NewPCG(3, uint64(c.keys)))
			layout := func(heads, rows, width int) kernel.Heads {
				if c.inRows {
					return kernel.Heads{Sample: rows * heads * width, Head: width, Row: heads * width}
				}
				return kernel.Heads{Sample: rows * heads * width, Head: rows * width, Row: width}
			}
			lq, lk := layout(c.heads, c.queries, c.features), layout(c.keyHeads, c.keys, c.features)
			lv, ly := layout(c.keyHeads, c.keys, c.values), layout(c.heads, c.queries, c.values)
			q, k := normal32(r, samples*c.heads*c.queries*c.features), normal32(r, samples*c.keyHeads*c.keys*c.features)
			v := normal32(r, samples*c.keyHeads*c.keys*c.values)
			count := samples * c.heads * c.queries * c.values
			lq.Buffer, ly.Buffer = b.In(q), b.Out(4*count)
			if c.keys > 0 {
				lk.Buffer, lv.Buffer = b.In(k), b.In(v)
			}
			a := kernel.Attention{Q: lq, K: lk, V: lv, Y: ly, Samples: samples, HeadCount: c.heads, KeyHeads: c.keyHeads,
				Queries: c.queries, Keys: c.keys, Features: c.features, Values: c.values, Scale: c.scale, Causal: c.causal,
				Past: c.past, MaskBool: c.bools}
			mask, bools := normal32(r, c.queries*c.keys), make([]byte, c.queries*c.keys)
			for i := range bools {
				bools[i] = byte(r.IntN(2))
				if i/max(1, c.keys) == 2 { // a query without keys
					bools[i], mask[i] = 0, float32(math.Inf(-1))
				}
			}
			if c.mask {
				a.Mask = &kernel.Heads{Row: c.keys}
				if c.bools {
					a.Mask.Buffer = b.In(bools)
				} else {
					a.Mask.Buffer = b.In(mask)
				}
			}
			b.Run(a.Calls()...)
			got := b.Float32s(ly.Buffer)
			for s := range samples {
				for h := range c.heads {
					kv := h / (c.heads / c.keyHeads)
					for i := range c.queries {
						score, most, largest := make([]float64, c.keys), math.Inf(-1), 0.0
						for j := range score {
							size := 0.0
							for f := range c.features {
								x := float64(q[s*lq.Sample+h*lq.Head+i*lq.Row+f]) *
									float64(k[s*lk.Sample+kv*lk.Head+j*lk.Row+f])
								score[j], size = score[j]+x, size+math.Abs(x)
							}
							largest = max(largest, size*float64(c.scale))
							score[j] *= float64(c.scale)
							if c.mask && !c.bools {
								score[j] += float64(mask[i*c.keys+j])
							}
							if c.causal && j > i+c.past || c.bools && bools[i*c.keys+j] == 0 {
								score[j] = math.Inf(-1)
							}
							most = max(most, score[j])
						}
						total := 0.0
						for j := range score {
							if score[j] = math.Exp(score[j] - most); math.IsInf(most, -1) {
								score[j] = 0
							}
							total += score[j]
						}
						for f := range c.values {
							want, size := 0.0, 0.0
							for j := range score {
								x := score[j] / total * float64(v[s*lv.Sample+kv*lv.Head+j*lv.Row+f])
								if total == 0 {
									x = 0
								}
								want, size = want+x, size+math.Abs(x)
							}
							y := float64(got[s*ly.Sample+h*ly.Head+i*ly.Row+f])
							// The products themselves have errors, which weights pass on.
							if !(math.Abs(y-want) <= (1e-6+2e-7*largest)*size) {
								t.Fatalf("sample %d, head %d, query %d, value %d: found %v, expected %v", s, h, i, f, y, want)
							}
						}
					}
				}
			}
		})
	}
}
