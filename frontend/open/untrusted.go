package open

import (
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// Untrusted returns options for models of people whom the program does not know: a file, or weights of a directory, up
// to 256 MiB, 256 MiB of tensors in other files, 100,000 operators with up to 4096 inputs and outputs each, graphs
// nested up to 16 deep, and runtime.Untrusted for runs on the CPU. The passes have a budget by themselves. Set Context
// to one with a deadline, which ends compilation.
func Untrusted() Options {
	r := runtime.Untrusted(cpu.New())
	return Options{
		Limits: Limits{Bytes: r.Limits.FileBytes, Nodes: r.Limits.Nodes, Depth: r.Limits.Depth, Ports: r.Limits.Ports,
			Memory: 256 << 20},
		Run: r,
	}
}
