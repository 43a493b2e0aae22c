package cpu

import "github.com/essmc/essmc/runtime/lowering"

// boundKernel computes a step for the shapes and constants of one binding.
type boundKernel struct {
	run func(e *executable, u *unit) error
	// temp is the float32 numbers of the arena that the kernel has to itself while it runs (unit.temp); scratch those
	// that each worker needs.
	temp, scratch int
	tables        int64            // bytes of constants that the first run makes
	subs          []*binding       // of subgraphs that the step runs (unit.subs); nil where one does not run
	control       lowering.Control // what runs them
	fuses         bool             // run computes unit.result, and applies unit.epilogue
}

// kernelMaker makes the kernel for a binding, or gives nil where its shapes or element types do not fit.
type kernelMaker func(d *binding) *boundKernel

// kernels is the table of operators that have a kernel over whole tensors which depends on more than the shapes of float32
// tensors: other element types, or inputs whose content follows from the shapes that are bound. An entry gives nil where
// attributes do not fit.
var kernels = map[string]func(s *lowering.Step) kernelMaker{}

// registerKernels enters operators; each file of kernels names its own.
func registerKernels(of map[string]func(s *lowering.Step) kernelMaker) {
	for name, mk := range of {
		kernels[name] = mk
	}
}
