package kernel_test

import (
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// The kernels of recurrent layers spill no registers.
func TestCellRegisters(t *testing.T) {
	for _, cell := range []kernel.Cell{kernel.RNN, kernel.GRU, kernel.GRULinear, kernel.LSTM} {
		for _, hidden := range []int{100, 5000} {
			r := kernel.Recurrent{Cell: cell, Batch: 1, Length: 4, Inputs: 9, Hidden: hidden, Directions: 2, X: 1, Tables: 2, Y: 3,
				Scratch: 4}
			for _, c := range r.Calls() {
				kerneltest.Assemble(t, c.Code)
			}
		}
	}
}
