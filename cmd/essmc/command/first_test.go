package command

import (
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// firstModel makes a preset of six layers, and its plan.
func firstModel(b *testing.B) (dir, plan string) {
	b.Chdir(b.TempDir())
	must(b, "init", "text", "-o", "text")
	must(b, "compile", "text", "-o", "text.essm")
	return "text", "text.essm"
}

// openFirst reads a model, and makes a session.
func openFirst(b *testing.B, path string) (*runtime.Model, *runtime.Session) {
	m, err := open.File(path, open.Options{})
	if err != nil {
		b.Fatal(err)
	}
	model, err := m.Compile(runtime.Options{Backend: cpu.New()})
	if err != nil {
		b.Fatal(err)
	}
	return model, model.NewSession()
}

// BenchmarkFirstAnswer measures the time from a model directory to the answer for one step.
func BenchmarkFirstAnswer(b *testing.B) {
	dir, _ := firstModel(b)
	for b.Loop() {
		model, s := openFirst(b, dir)
		in := map[string]tensor.Datum{model.Graph().Inputs[0].Name: tensor.New(tensor.Int64, 1, 1)}
		if _, err := s.Run(b.Context(), in); err != nil {
			b.Fatal(err)
		}
		s.Close()
		model.Close()
	}
}

// BenchmarkPlanLoad measures the time from a plan to a session.
func BenchmarkPlanLoad(b *testing.B) {
	_, plan := firstModel(b)
	for b.Loop() {
		model, s := openFirst(b, plan)
		s.Close()
		model.Close()
	}
}
