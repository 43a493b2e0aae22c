// Package synthetic generates the data of tasks that measure how far a model remembers, by their published rules:
// ListOps and Pathfinder of the Long Range Arena, copying and selective copying.
//
// Sample i of a set follows from the seed and i by package philox, and from nothing else: no files are needed, and sets
// of different seeds are independent of each other. Sample i of a larger set with the same seed is the same. A part for
// validation is another seed, or a part of a set (data.Split).
package synthetic

import (
	"fmt"

	"github.com/essmc/essmc/internal/philox"
	"github.com/essmc/essmc/train/data"
)

// The numbers of the random streams of a seed.
const (
	streamListOps = 0x100 + iota
	streamPathfinder
	streamCopying
)

// random returns the random numbers of a sample.
func random(seed uint64, stream uint32, i int) *philox.Source {
	return philox.New(seed, stream, uint32(i), 0)
}

func checkSamples(n int) error {
	if n < 1 || n > data.MaxSamples {
		return fmt.Errorf("samples: expected 1 to %d, found %d", data.MaxSamples, n)
	}
	return nil
}
