package cpu_test

import (
	"errors"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cpu"
)

// refuses lists the options that the backend does not have.
var refuses = []string{"precision-float64", "tf32", "observe"}

func TestBackend(t *testing.T) {
	backendtest.Run(t, func() runtime.Backend { return cpu.New() },
		backendtest.Options{Must: []string{"*", "essm.SSM", "essm.DenseSSM", "essm.Scan", "essm.Linear"}, Refuses: refuses})
}

func TestReference(t *testing.T) {
	backendtest.Reference(t, func() runtime.Backend { return cpu.New() }, backendtest.Options{})
}

// TestSpeechMemory bounds the memory of a whole speech model at 16000 steps, in every form.
func TestSpeechMemory(t *testing.T) {
	p, err := essm.NewPreset("sc35")
	if err != nil {
		t.Fatal(err)
	}
	g := network(t, p.Config)
	const length = 16000
	for _, form := range []string{"", "scan", "chunked", "fft", "direct"} {
		// too little: Bind reports what it needs
		prog, err := cpu.New().Compile(g, runtime.Config{Threads: 2, Kernel: form, MaxMemory: 1})
		if err != nil {
			t.Fatal(err)
		}
		inputs := make([]ir.Type, len(g.Inputs))
		inputs[0] = ir.Tensor(tensor.Float32, 1, length, 1)
		_, err = prog.Bind(runtime.Binding{Dims: map[string]int64{"B": 1, "L": length}, Inputs: inputs})
		var e *runtime.MemoryError
		if !errors.As(err, &e) {
			t.Fatalf("%s: found %v", form, err)
		}
		t.Logf("%q: %.1f MB", form, float64(e.Need)/1e6)
		if e.Need > 200e6 {
			t.Errorf("%q: %.1f MB", form, float64(e.Need)/1e6)
		}
	}
}
