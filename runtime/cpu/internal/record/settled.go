package record

import "github.com/essmc/essmc/runtime/lowering"

// Numbers returns the elements of a fixed input as float32; nil for other inputs. Those of a settled one change between
// runs, in place: a kernel may keep the slice, and must not keep what follows from its numbers (Keep).
func Numbers(s *lowering.Step, i int) []float32 { return s.Numbers(Of(s).Shared, i) }

// Numbers64 is Numbers in float64.
func Numbers64(s *lowering.Step, i int) []float64 { return s.Numbers64(Of(s).Shared, i) }

// Keep returns data that follows from fixed inputs, as lowering.Keep does.
func Keep[T any](s *lowering.Step, inputs []int, key any, make func() T, fill func(T)) T {
	return lowering.Keep(Of(s).Shared, s, inputs, key, make, fill)
}

// Decide sets a choice that follows from the content of fixed inputs. If it differs from the one before, executables are
// bound anew. It is for the functions that compute data again; the first choice is set as it is.
func Decide(s *lowering.Step, choice *bool, now bool) {
	if *choice != now {
		*choice = now
		Of(s).Shared.Choose()
	}
}
