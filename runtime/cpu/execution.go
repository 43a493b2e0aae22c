package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// An executable is the execution that kernels see.
var _ record.Execution = (*executable)(nil)

func (e *executable) Frame() *lowering.Frame { return &e.frame }

func (e *executable) At(v *lowering.Value, sample, step, length int) int {
	return e.row(v.ID, sample, step, length)
}

func (e *executable) Fallback(s *lowering.Step) error { return e.Evaluate(e.ctx, s) }

func (e *executable) Halted() kernel.Stop { return e.shared().workers[0].Halted }

func (e *executable) Steps() *ir.EvalCtx { return e.shared().workers[0].Steps }

func (e *executable) Failed() error { return e.shared().err }
