package golden

import (
	"errors"
	"io/fs"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
)

// The answers to the reference cases, bit by bit, in every form.
func TestReferenceAnswers(t *testing.T) {
	if goruntime.GOARCH != "amd64" {
		t.Skip("operators without kernels are evaluated by Go, which rounds products and sums together on some architectures")
	}
	root := shared.Path(t, "reference")
	files, err := filepath.Glob(filepath.Join(root, "*", "output64.npy"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no case in %s: %v", root, err)
	}
	var a answers
	for _, file := range files {
		dir := filepath.Dir(file)
		c, w, err := checkpoint.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		g, err := models.Build(c, w, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		in := data{}
		for name, file := range map[string]string{models.Input: "input.npy", models.Lengths: "lengths.npy"} {
			x, err := arrays.Read(filepath.Join(dir, file))
			if errors.Is(err, fs.ErrNotExist) && name == models.Lengths {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			in[name] = x.Tensor
		}
		fast := optimised(t, g)
		for _, form := range runtime.Kernels() {
			outs, err := answer(fast, runtime.Options{Backend: newRecorder().Backend, Kernel: form, Threads: 2}, in)
			if err != nil {
				t.Fatalf("%s, %s: %v", dir, form, err)
			}
			a.add(filepath.Base(dir)+" "+form, outs...)
		}
	}
	holdAnswers(t, "answers-reference.txt", &a)
}
