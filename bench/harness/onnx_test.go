package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
)

func TestArchitectures(t *testing.T) {
	e := &env{work: t.TempDir()}
	for _, name := range []string{"trees/svc.1000", "cnn/unet.float32", "float16/unet.float16"} {
		dir := filepath.Join(e.architectureDir(), filepath.FromSlash(name))
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"model.onnx": "", "names": "x\ny"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for i, file := range []string{"0.npy", "1.npy"} {
			if err := arrays.Write(filepath.Join(dir, file), tensor.New(tensor.Float32, i+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := e.architectures()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range all {
		names = append(names, a.group+" "+a.name+" "+a.form)
		if y, ok := a.in["y"].(*tensor.Tensor); !ok || y.Len() != 2 || len(a.words) != 2 || !strings.HasPrefix(a.words[1], "y=") {
			t.Errorf("%s: inputs %v, words %q", a.name, a.in, a.words)
		}
	}
	if want := []string{"cnn unet float32", "float16 unet float16", "trees svc 1000"}; !slices.Equal(names, want) {
		t.Errorf("found %q, expected %q", names, want)
	}
}

// TestJudgeArchitectures holds the targets against made-up times.
func TestJudgeArchitectures(t *testing.T) {
	of := func(group, name, form string, ours float64) *measured {
		a := architecture{group: group, name: name, form: form}
		return &measured{architecture: a, firsts: firsts{spreadOf([]float64{ours + 0.3}), spreadOf([]float64{ours})},
			samples: &samples{names: []string{essmcOn(1), ortGroup(1)},
				groups: []string{"", ""}, times: [][]float64{{ours}, {1}}, errs: make([]error, 2)}}
	}
	found := func(all ...*measured) string {
		var s []string
		for _, v := range judgeArchitectures(all) {
			s = append(s, v.Found+" "+v.State)
		}
		return strings.Join(s, "; ")
	}
	all := []*measured{of("transformer", "bert", "float32", 0.5), of("cnn", "unet", "float32", 2),
		of("float16", "unet", "float16", 3), of("qdq", "unet", "qdq", 0.9), of("trees", "svc", "1", 1.01),
		of("trees", "svc", "1000", 1.2)}
	want := "1.00× (2) missed; 2.00× unet missed; 0.50× (1) met; 2.00× (1) missed; 0.90× (1) met; 1.01× (1) missed; " +
		"1.20× (1) met; 1.50× unet missed; 3.30× unet float16 missed; 3.00× unet float16 missed"
	if got := found(all...); got != want {
		t.Errorf("found    %s\nexpected %s", got, want)
	}
	none := of("cnn", "unet", "float32", 1)
	none.samples, none.firsts = nil, firsts{spreadOf(nil), spreadOf(nil)} // it did not run
	if got := found(none); !strings.HasPrefix(got, "no files not measured; ") || strings.Contains(got, " met") {
		t.Errorf("found %s: nothing was measured", got)
	}
}
