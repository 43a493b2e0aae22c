package ir_test

import (
	"errors"
	"testing"

	"github.com/essmc/essmc/ir"
)

// TestPart spends from parts of a budget, which share its operations and have bytes of their own.
func TestPart(t *testing.T) {
	whole := ir.NewBudget(100, 100)
	a, b := whole.Part(10, 80), whole.Part(-1, -1)
	for _, c := range []struct {
		of   *ir.Budget
		work int64
		fits bool
	}{{a, 60, true}, {a, 30, false}, {b, 41, false}, {b, 40, true}, {a, 1, false}, {whole, 1, false}} {
		var over *ir.BudgetError
		if err := c.of.Spend(c.work); (err == nil) != c.fits || err != nil && !errors.As(err, &over) {
			t.Errorf("%d operations: %v, expected that they fit: %v", c.work, err, c.fits)
		}
	}
	if whole.Spent() != 100 || a.Spent() != 60 || b.Spent() != 40 {
		t.Errorf("spent %d = %d + %d, expected 100 = 60 + 40", whole.Spent(), a.Spent(), b.Spent())
	}
	if err := a.Take(11); err == nil || whole.Used() != 0 {
		t.Errorf("a part of 10 bytes gave 11: %v, %d are in use", err, whole.Used())
	}
	if _, left := b.Left(); left != 0 {
		t.Errorf("%d operations are left, expected 0", left)
	}
	free := (*ir.Budget)(nil).Part(5, 5)
	if free.Spend(5) != nil || free.Spend(1) == nil || free.Take(5) != nil || free.Take(1) == nil {
		t.Error("a part of no budget has other bounds than its own")
	}
}
