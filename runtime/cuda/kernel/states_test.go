package kernel_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// States of odd sizes are copied to the memory of a step and back, each to its stream. All are in one buffer, in
// another order.
func TestStatesMove(t *testing.T) {
	sizes := []int{48, 7, 9000, 0, 12, 16, 8192, 1}
	for _, streams := range []int{1, 3, 64} {
		r := rand.New(rand.NewPCG(1, uint64(streams)))
		d := kerneltest.New(t)
		var at []int
		total, each := 0, 0
		for _, n := range sizes {
			at = append(at, total)
			total += (n*streams + 255) / 256 * 256
			each += n
		}
		distance := (each + 255) / 256 * 256
		all := make([]byte, distance*streams)
		for i := range all {
			all[i] = byte(r.IntN(256))
		}
		order := r.Perm(streams)
		places := d.In(all)
		base := d.Address(places)
		var table []byte
		for _, p := range order {
			table = binary.LittleEndian.AppendUint64(table, base+uint64(p*distance))
		}
		pieces, n := kernel.StatePieces(at, sizes)
		m := kernel.StatesMove{Streams: streams, Pieces: n, Table: d.In(pieces), Places: d.In(table), Memory: d.In(make([]byte, total))}
		d.ResetCounters()
		d.Run(m.Call())
		got := d.Bytes(m.Memory)
		place := 0
		for i, n := range sizes {
			for s, p := range order {
				want := all[p*distance+place:][:n]
				if !bytes.Equal(got[at[i]+s*n:][:n], want) {
					t.Errorf("state %d of stream %d of %d: other bytes", i, s, streams)
				}
			}
			place += n
		}
		for i := range got {
			got[i] = ^got[i]
		}
		d.Set(m.Memory, got)
		m.Leave = true
		d.Run(m.Call())
		for i, x := range d.Bytes(places) {
			want := all[i]
			if i%distance < each {
				want = ^want
			}
			if x != want {
				t.Fatalf("byte %d of stream %d is %#x, expected %#x", i%distance, i/distance, x, want)
			}
		}
		if c := d.Counters(); c.Total().Launches != 2 {
			t.Errorf("%d launches", c.Total().Launches)
		}
	}
}
