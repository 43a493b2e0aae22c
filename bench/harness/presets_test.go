package main

import (
	"slices"
	"testing"
)

func TestNarrowed(t *testing.T) {
	all := torchTrial{forms: torchForms, thorough: true}
	s := &samples{
		names: []string{"torch fft 1 thread", "torch chunks32 1 thread", "torch chunks64 1 thread",
			"torch chunks128 2 threads"},
		times: [][]float64{{1}, {3, 4}, {2}, {0.5}},
	}
	if got := all.narrowed(s); got.thorough || !slices.Equal(got.forms, []string{"fft", "chunks64"}) {
		t.Errorf("%+v", got)
	}
	if got := all.narrowed(&samples{}); len(got.forms) != 2 { // torch is absent
		t.Errorf("%+v", got)
	}
}

func TestTorchSettings(t *testing.T) {
	p := &peers{torch: torchSettings(2)}
	if one := p.onThreads(1); len(one) != 1 || one[0].String() != "1 thread" {
		t.Errorf("%v", one)
	}
	two := p.onThreads(2)
	if len(two) != 2 || two[0].String() != "2 threads" || two[1].String() != "2 threads, products on 1" {
		t.Errorf("%v", two)
	}
	if one := torchSettings(1); len(one) != 1 {
		t.Errorf("%v", one)
	}
	env := torchEnviron("dir", two[1])
	if !slices.Contains(env, "OMP_NUM_THREADS=2") || !slices.Contains(env, "OPENBLAS_NUM_THREADS=1") {
		t.Errorf("%q", env)
	}
}
