package products_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestEinsum(t *testing.T) {
	r := NewGen(33)
	for _, c := range []struct {
		equation string
		shapes   [][]int
	}{
		{"ij,jk->ik", [][]int{{3, 5}, {5, 7}}}, {"ij,jk", [][]int{{33, 20}, {20, 40}}},
		{"ij,jk->ki", [][]int{{33, 20}, {20, 40}}},
		{"bhid,bhjd->bhij", [][]int{{2, 3, 17, 8}, {2, 3, 19, 8}}},
		{"bqhd,bkhd->bhqk", [][]int{{2, 17, 3, 8}, {2, 19, 3, 8}}},
		{"bhqk,bkhd->bqhd", [][]int{{2, 3, 17, 19}, {2, 19, 3, 8}}},
		{"bld,dhe->blhe", [][]int{{2, 9, 16}, {16, 3, 20}}}, {"bld,hed->bhle", [][]int{{2, 9, 16}, {3, 20, 16}}},
		{"blhe,hed->bld", [][]int{{2, 9, 3, 20}, {3, 20, 16}}},
		{"...ij,...jk->...ik", [][]int{{2, 1, 4, 5}, {3, 5, 6}}}, {"bhwc,hkc->bhwk", [][]int{{2, 5, 6, 8}, {5, 7, 8}}},
		{"i,j->ij", [][]int{{37}, {41}}}, {"i,i->", [][]int{{37}, {37}}}, {"i,j->", [][]int{{7}, {9}}},
		{"bi,bi->b", [][]int{{9, 40}, {9, 40}}}, {"ij,ij->ij", [][]int{{9, 7}, {9, 7}}},
		{"ij,j->i", [][]int{{30, 20}, {20}}},
		{"ii,ij->j", [][]int{{5, 5}, {5, 30}}}, {"ij,kl->i", [][]int{{30, 3}, {4, 5}}},
		{"ij,jk->ik", [][]int{{9, 1}, {6, 11}}}, {"bij,bjk->bik", [][]int{{1, 9, 6}, {4, 6, 11}}},
		{"ij->ji", [][]int{{5, 7}}}, {"ii->i", [][]int{{6, 6}}}, {"bij->b", [][]int{{3, 4, 5}}},
		{"ij->", [][]int{{3, 4}}}, {"bd,bnd->bn", [][]int{{3, 16}, {3, 33, 16}}},
		{"abc,cd->dab", [][]int{{70, 3, 9}, {9, 50}}},
	} {
		in := make([]Operand, len(c.shapes))
		for i, s := range c.shapes {
			in[i] = Given(r.Floats(1, s...))
		}
		on.Node(t, "Einsum", 1, in, ir.A("equation", c.equation))
		if len(in) == 2 {
			in[1].Const = true
			on.Node(t, "Einsum", 1, in, ir.A("equation", c.equation))
		}
	}
	x := Given(With(r.Floats(1, 30, 20), 7, math.NaN()))
	on.Node(t, "Einsum", 1, []Operand{x, x}, ir.A("equation", "ij,kj->ik"))
	on.Node(t, "Einsum", 1, []Operand{Given(r.Floats(1, 200, 600)), Given(r.Floats(1, 600, 150))},
		ir.A("equation", "ij,jk->ki"))
	for _, in := range [][]Operand{{Given(r.Floats(1, 3, 0)), Given(r.Floats(1, 0, 4))},
		{Given(r.Floats(1, 3, 2)), Given(r.Floats(1, 2, 4)), Given(r.Floats(1, 4, 5))}} {
		on.SameAnyhow(t, "Einsum", 1, in, ir.A("equation", []string{"ij,jk->ik", "ij,jk,kl->il"}[len(in)-2]))
	}
}

// TestWideEinsum checks products of float64.
func TestWideEinsum(t *testing.T) {
	r := NewGen(34)
	for _, c := range []struct {
		equation string
		shapes   [2][]int
	}{
		{"ij,jk->ik", [2][]int{{3, 5}, {5, 7}}}, {"ij,kj->ik", [2][]int{{33, 20}, {40, 20}}},
		{"ji,jk->ik", [2][]int{{20, 33}, {20, 40}}}, {"bhid,bhjd->bhij", [2][]int{{2, 3, 17, 8}, {2, 3, 19, 8}}},
		{"bqhd,bkhd->bhqk", [2][]int{{2, 17, 3, 8}, {2, 19, 3, 8}}}, {"bld,dhe->blhe", [2][]int{{2, 9, 16}, {16, 3, 20}}},
		{"...ij,...jk->...ik", [2][]int{{2, 3, 4, 5}, {2, 3, 5, 6}}}, {"i,j->ij", [2][]int{{37}, {41}}},
		{"i,i->", [2][]int{{37}, {37}}}, {"bi,bi->b", [2][]int{{9, 40}, {9, 40}}}, {"ij,ij->ij", [2][]int{{9, 7}, {9, 7}}},
		{"bij,bjk->bik", [2][]int{{1, 9, 6}, {4, 6, 11}}},
	} {
		in := []Operand{Given(r.Small(tensor.Float64, c.shapes[0]...)), Given(r.Small(tensor.Float64, c.shapes[1]...))}
		on.Node(t, "Einsum", 1, in, ir.A("equation", c.equation))
		in[1].Const = true
		on.Node(t, "Einsum", 1, in, ir.A("equation", c.equation))
	}
	for _, equation := range []string{"ij,jk->ki", "ij,jk->k", "ii,ij->j"} { // by whichever way
		x := Given(tensor.FromSlice([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3))
		on.SameAnyhow(t, "Einsum", 1, []Operand{x, x}, ir.A("equation", equation))
	}
}
