package emu

import (
	"fmt"
	"strings"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Finding is a violation of the rules by a program.
type Finding struct {
	Kernel        string // "" if a call of the driver is at fault
	Line          int    // of the PTX text
	Text          string // of the instruction
	Block, Thread driver.Dim
	What          string
}

func (f Finding) String() string {
	if f.Kernel == "" {
		return f.What
	}
	return fmt.Sprintf("kernel %s, line %d (%s), block %d,%d,%d, thread %d,%d,%d: %s", f.Kernel, f.Line, strings.TrimSpace(f.Text),
		f.Block.X, f.Block.Y, f.Block.Z, f.Thread.X, f.Thread.Y, f.Thread.Z, f.What)
}

// findingsPerLaunch is the maximum number of findings kept per launch; the others are only counted.
const findingsPerLaunch = 20
